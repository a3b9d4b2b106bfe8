//! A Postgres cluster of the tests' own: real server processes on a private Unix socket, ended with the tests.
//!
//! Responsible for: finding the server's programs, making a cluster, one database per test, crashes and restarts. It
//! knows nothing of Tenure's schema. A crate of its own, for tests only, because the tests of `store` and those of the
//! whole product use it, and neither may depend on the other.
//!
//! Postgres refuses to run as root: then it runs as the user `postgres`.
//!
//! Invariant: when the process of the tests is gone, however it ended, its cluster is gone: a small shell holds the
//! other end of a pipe, and ends Postgres and removes the files when the pipe closes.

mod cluster;
mod disk;
mod install;

use std::{
    io,
    sync::{Arc, LazyLock, Mutex, PoisonError},
};

pub use cluster::Cluster;

/// The cluster that the tests of this process share, started with the first that asks. It lives as long as the process.
///
/// # Errors
/// If there is no Postgres on this machine, with what to do, or it does not start, with its log.
pub fn shared() -> io::Result<Arc<Cluster>> {
    static SHARED: LazyLock<Mutex<Option<Arc<Cluster>>>> = LazyLock::new(Mutex::default);
    let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(cluster) = &*shared {
        return Ok(Arc::clone(cluster));
    }
    let cluster = Arc::new(Cluster::start()?);
    *shared = Some(Arc::clone(&cluster));
    Ok(cluster)
}
