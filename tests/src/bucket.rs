//! A bucket: a real service that speaks S3, `moto[server]` of PyPI, in a process of its own.
//!
//! Responsible for its start and end, for one empty bucket, and for what stands in it. The service keeps it in memory.
//! Invariant: it ends with its owner.

use std::path::Path;
use std::process::Stdio;

use anyhow::{Context as _, ensure};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::process::{Child, Command};

use crate::binary;
use crate::wait::{PATIENCE, until};

/// Its name.
const NAME: &str = "results";

/// A bucket, empty at first.
#[derive(Debug)]
pub struct Bucket {
    #[expect(dead_code, reason = "held for its end, which ends the process")]
    service: Child,
    address: String,
}

impl Bucket {
    /// Starts the service, and makes the bucket. None where there is no such service.
    ///
    /// # Errors
    /// If it does not start; in CI also if it is missing.
    pub async fn start() -> anyhow::Result<Option<Self>> {
        let Some(program) = binary::moto()? else { return Ok(None) };
        let free = TcpListener::bind("127.0.0.1:0").await?.local_addr()?;
        let mut command = Command::new(program);
        command.args(["-H", "127.0.0.1", "-p", &free.port().to_string()]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).kill_on_drop(true);
        let service = command.spawn().context("moto_server does not start")?;
        let bucket = Self { service, address: free.to_string() };
        until("the bucket is made", PATIENCE * 2, async || {
            bucket.ask("PUT", &format!("/{NAME}")).await.map_err(|error| error.to_string())
        })
        .await?;
        Ok(Some(bucket))
    }

    /// Lines of `[results]` of the server file that name it. The secret is put beside, in `directory`.
    ///
    /// # Errors
    /// If that cannot be written.
    pub fn server_file(&self, directory: &Path) -> anyhow::Result<String> {
        let secret = directory.join("bucket.secret");
        std::fs::write(&secret, "a secret\n")?;
        let (address, secret) = (&self.address, secret.display());
        Ok(format!(
            "[results]\nurl = \"s3://{NAME}/fleet\"\nendpoint = \"http://{address}\"\npath_style = true\n\
             access_key_id = \"id\"\nsecret_access_key_file = \"{secret}\"\n"
        ))
    }

    /// The names of all objects in it.
    ///
    /// # Errors
    /// If it does not answer.
    pub async fn names(&self) -> anyhow::Result<Vec<String>> {
        let list = self.ask("GET", &format!("/{NAME}?list-type=2")).await?;
        let keys = list.split("<Key>").skip(1).filter_map(|rest| rest.split("</Key>").next());
        Ok(keys.map(str::to_owned).collect())
    }

    /// Removes an object, as nobody should.
    ///
    /// # Errors
    /// If it does not answer.
    pub async fn remove(&self, name: &str) -> anyhow::Result<()> {
        self.ask("DELETE", &format!("/{NAME}/{name}")).await.map(drop)
    }

    /// One request by hand; what it answers.
    async fn ask(&self, method: &str, path: &str) -> anyhow::Result<String> {
        let exchange = async {
            let mut stream = TcpStream::connect(&self.address).await?;
            let head = format!(
                "{method} {path} HTTP/1.1\r\nhost: {}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n",
                self.address
            );
            stream.write_all(head.as_bytes()).await?;
            let mut answer = String::new();
            stream.read_to_string(&mut answer).await?;
            anyhow::Ok(answer)
        };
        let answer = tokio::time::timeout(PATIENCE, exchange).await.context("no answer")??;
        ensure!(answer.starts_with("HTTP/1.1 2"), "{answer}");
        Ok(answer)
    }
}
