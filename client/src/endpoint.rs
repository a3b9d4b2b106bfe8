//! What an address may be, and how a connection to it is kept.
//!
//! Invariant: nothing is sent in clear text to another host, unless the caller said that it may be.

use std::net::IpAddr;
use std::time::Duration;

use tonic::transport::Endpoint;

use crate::{Error, Options};

/// A host that does not answer the handshake is taken as away after this long.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// As long, where another server may be asked instead.
const CONNECT_TIMEOUT_OF_SEVERAL: Duration = Duration::from_secs(2);
/// An idle connection is probed this often, so that a dead one is found before the next call needs it.
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(10);
/// A probe unanswered for this long ends the connection; the calls on it fail as UNAVAILABLE.
const KEEP_ALIVE_TIMEOUT: Duration = Duration::from_secs(5);

/// Reads an address and lays down how its connection is kept. `several`: it is one of them.
pub(crate) fn parse(endpoint: &str, several: bool, options: &Options) -> Result<Endpoint, Error> {
    let refuse = |reason: &str| Error::Endpoint { endpoint: endpoint.to_owned(), reason: reason.to_owned() };
    let trimmed = endpoint.trim();
    let with_scheme = if trimmed.contains("://") {
        trimmed.to_owned()
    } else {
        let scheme = if options.tls.is_some() { "https" } else { "http" };
        format!("{scheme}://{trimmed}")
    };
    let parsed = Endpoint::from_shared(with_scheme)
        .map_err(|_| refuse("it is not an address; write http://HOST:PORT"))?;
    match parsed.uri().scheme_str() {
        Some("https") if options.tls.is_none() => {
            return Err(refuse("TLS needs certificates: name the authority's, one's own and its key"));
        }
        Some("http" | "https") => {}
        _ => return Err(refuse("write http://HOST:PORT or https://HOST:PORT")),
    }
    if !matches!(parsed.uri().path(), "" | "/") {
        return Err(refuse("it has a path; write http://HOST:PORT"));
    }
    if parsed.uri().port().is_none() {
        return Err(refuse("the port is missing; write http://HOST:PORT"));
    }
    match parsed.uri().host() {
        Some(_) if options.insecure || parsed.uri().scheme_str() == Some("https") => {}
        Some(host) if is_loopback(host) => {}
        _ => {
            return Err(refuse(
                "without TLS only the loopback interface is spoken to; use https:// and certificates",
            ));
        }
    }
    let patience = if several { CONNECT_TIMEOUT_OF_SEVERAL } else { CONNECT_TIMEOUT };
    parsed
        .connect_timeout(patience)
        .tcp_nodelay(true)
        .http2_keep_alive_interval(KEEP_ALIVE_INTERVAL)
        .keep_alive_timeout(KEEP_ALIVE_TIMEOUT)
        .keep_alive_while_idle(true)
        .user_agent(concat!("tenure-client/", env!("CARGO_PKG_VERSION")))
        .map_err(|_| refuse("its user agent cannot be sent"))
}

fn is_loopback(host: &str) -> bool {
    let host = host.trim_start_matches('[').trim_end_matches(']');
    host.eq_ignore_ascii_case("localhost")
        || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loopback_interface_is_accepted_with_and_without_a_scheme() {
        for good in
            ["http://127.0.0.1:7070", "127.0.0.1:7070", "localhost:1", "http://[::1]:7070/", " 127.0.0.9:1 "]
        {
            parse(good, false, &Options::default()).unwrap();
        }
    }

    #[test]
    fn what_cannot_be_used_is_refused_with_a_reason() {
        for (bad, reason) in [
            ("https://127.0.0.1:7070", "TLS"),
            ("http://control.example:7070", "loopback"),
            ("http://10.0.0.5:7070", "loopback"),
            ("http://127.0.0.1", "port"),
            ("http://127.0.0.1:7070/x", "path"),
            ("ftp://127.0.0.1:7070", "write http"),
            ("not an address", "not an address"),
        ] {
            let error = parse(bad, false, &Options::default()).unwrap_err().to_string();
            assert!(error.contains(reason), "{bad}: {error}");
        }
    }
}
