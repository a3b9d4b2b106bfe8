//! Telling that a process is ready, and where: to a person, to the program that started it, and to a service manager.

use std::fs;
use std::io;
use std::path::Path;

use tenure_server::Addresses;

use crate::exit::Failure;
use crate::notify;
use crate::output::note;

/// The address of a server as a client wants it.
pub(crate) fn endpoint(addresses: Addresses) -> String {
    let scheme = if addresses.tls { "https" } else { "http" };
    format!("{scheme}://{}", addresses.grpc)
}

/// Says so on stderr in one line, and in a file that a shell can source: `TENURE_SERVER=…`, `TENURE_HTTP=…`. The file
/// appears whole or not at all.
pub(crate) fn announce(addresses: Addresses, file: Option<&Path>) -> Result<(), Failure> {
    let http = format!("http://{}", addresses.http);
    note(format!("ready grpc={} http={http}", endpoint(addresses)));
    if let Some(file) = file {
        let text = format!("TENURE_SERVER={}\nTENURE_HTTP={http}\n", endpoint(addresses));
        write_whole(file, &text).map_err(|source| Failure::Write { path: file.to_owned(), source })?;
    }
    notify::ready(&format!("serves at {}", endpoint(addresses)));
    Ok(())
}

fn write_whole(file: &Path, text: &str) -> io::Result<()> {
    let mut name = file.file_name().unwrap_or_default().to_owned();
    name.push(".tmp");
    let draft = file.with_file_name(name);
    fs::write(&draft, text)?;
    fs::rename(&draft, file)
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, SocketAddr};

    use super::*;

    #[test]
    fn the_ready_file_can_be_sourced_by_a_shell() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("ready");
        let at = |port| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        announce(Addresses { grpc: at(1234), http: at(1235), peer: None, tls: false }, Some(&file)).unwrap();
        let text = fs::read_to_string(&file).unwrap();
        assert_eq!(text, "TENURE_SERVER=http://127.0.0.1:1234\nTENURE_HTTP=http://127.0.0.1:1235\n");
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1, "no draft is left");
    }
}
