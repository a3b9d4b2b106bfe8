//! Starting the processes of a rig: a server over a database, a real agent.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;
use tenure_tests::process::Process;
use tenure_tests::wait::until;

use super::{KIND, SLOT, text};
use crate::bed::Place;

/// How long a start on a million jobs may take on a machine that is busy: far above what is wanted, so that a bad figure is
/// seen.
const START: Duration = Duration::from_secs(180);

/// Where a server that is ready is reached.
#[derive(Clone, Debug)]
pub(crate) struct Addresses {
    /// gRPC, as `http://HOST:PORT`.
    pub(crate) grpc: String,
    /// Metrics, as `HOST:PORT`.
    pub(crate) http: String,
}

/// What a server is started with.
#[derive(Clone, Copy, Debug)]
pub(super) struct Launch<'a> {
    pub(super) place: &'a Place,
    /// Where its files are: those of two servers have names of their own.
    pub(super) files: &'a Path,
    pub(super) name: &'a str,
    pub(super) mark: &'a str,
    pub(super) listen: &'a str,
    /// Tables of its server file.
    pub(super) settings: &'a str,
}

/// Starts a server; it and its addresses, once it is ready.
pub(super) async fn server(launch: Launch<'_>) -> anyhow::Result<(Process, Addresses)> {
    let (mut server, ready) = begin_server(launch)?;
    let addresses = wait_ready(&mut server, &ready).await?;
    Ok((server, addresses))
}

/// Starts a server; it and the file that says when it is ready.
pub(super) fn begin_server(launch: Launch<'_>) -> anyhow::Result<(Process, PathBuf)> {
    let Launch { place, files, name, mark, listen, settings } = launch;
    let config = files.join(format!("{name}.toml"));
    let (store, data): (Vec<&str>, PathBuf) = match place {
        Place::Postgres(address) => {
            fs::write(files.join("database-url"), address)?;
            fs::write(&config, format!("[server]\ndatabase_url_file = \"database-url\"\n{settings}"))?;
            (vec!["--migrate"], PathBuf::new())
        }
        Place::Sqlite(data) => {
            fs::write(&config, settings)?;
            (vec!["--data"], data.clone())
        }
    };
    let ready = files.join(format!("{name}.ready"));
    if ready.exists() {
        fs::remove_file(&ready)?;
    }
    let (config, ready_file) = (text(&config)?, text(&ready)?);
    let data = text(&data)?;
    let mut args = vec!["server", "--config", &config, "--listen", listen, "--http", "127.0.0.1:0"];
    args.extend(["--ready-file", &ready_file]);
    args.extend(store);
    if !data.is_empty() {
        args.push(&data);
    }
    let server = Process::tenure(name, &args, &files.join(format!("{name}.log")), mark)?;
    Ok((server, ready))
}

/// Waits until a server says that it is ready, and where.
pub(super) async fn wait_ready(server: &mut Process, ready: &Path) -> anyhow::Result<Addresses> {
    let announced = until("the server is ready", START, async || {
        server.alive().map_err(|error| error.to_string())?;
        fs::read_to_string(ready).map_err(|error| error.to_string())
    })
    .await;
    let announced = announced.with_context(|| server.tail())?;
    let value = |name: &str| {
        let found = announced.lines().find_map(|line| line.strip_prefix(name));
        found.with_context(|| format!("the ready file has no {name}"))
    };
    let http = value("TENURE_HTTP=")?;
    Ok(Addresses {
        grpc: value("TENURE_SERVER=")?.to_owned(),
        http: http.strip_prefix("http://").unwrap_or(http).to_owned(),
    })
}

/// The name of the real agent.
pub(crate) const REAL_NODE: &str = "bench-real";

/// A real agent with so many slots, which runs `true` for each job.
pub(super) fn agent(files: &Path, mark: &str, endpoint: &str, slots: u32) -> anyhow::Result<Process> {
    let (file, data) = (files.join("node.toml"), files.join("agent"));
    let node = format!(
        "name = \"{REAL_NODE}\"\nallow_root = true\n\n[slots]\n{SLOT} = {slots}\n\n\
         [kinds.\"{KIND}\"]\ncommand = [\"true\"]\n\n\
         # The load is this bench's own.\n[[pressure.rule]]\nid = \"load_high\"\nenabled = false\n"
    );
    fs::write(&file, node)?;
    let (file, data) = (text(&file)?, text(&data)?);
    let args = ["agent", "--config", &file, "--data", &data, "--server", endpoint];
    Process::tenure("the agent", &args, &files.join("agent.log"), mark)
}
