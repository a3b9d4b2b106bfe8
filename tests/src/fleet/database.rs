//! What a scenario does to the way from the server to its Postgres.

use std::fs;

use anyhow::Context as _;

use super::Fleet;
use crate::proxy::{Proxy, Target};

impl Fleet {
    /// Starts the server again, behind a proxy before its database, to which it connects as `role`.
    ///
    /// # Errors
    /// If the store is not Postgres, or the server does not start.
    pub async fn proxy_the_database(&mut self, role: &str) -> anyhow::Result<()> {
        let file = self.directory().join("database-url");
        let url = fs::read_to_string(&file)?;
        let (database, socket) = url
            .split_once("?host=")
            .and_then(|(before, socket)| Some((before.rsplit_once('/')?.1, socket.trim())))
            .with_context(|| format!("not as the harness writes it: {url}"))?;
        let proxy = Proxy::start(Target::Unix(format!("{socket}/.s.PGSQL.5432").into())).await?;
        self.stop_server().await?;
        fs::write(&file, format!("postgres://{role}@{}/{database}?sslmode=disable", proxy.address()))?;
        self.database = Some(proxy);
        self.start_server().await
    }

    /// The proxy in front of the database.
    ///
    /// # Errors
    /// If there is none.
    pub fn database(&self) -> anyhow::Result<&Proxy> {
        self.database.as_ref().context("no proxy in front of the database")
    }
}
