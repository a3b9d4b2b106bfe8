//! The addresses of the servers: `server`, or `servers` where there are several.
//!
//! Invariant: nothing is said in clear text to another host, unless whoever started the agent allowed it.

use tonic::transport::Uri;

use super::{Findings, clipped};

/// The most servers of one node file.
const MOST_SERVERS: usize = 16;

/// How servers may be spoken to.
#[derive(Clone, Copy)]
pub(super) struct Safe {
    /// There are certificates.
    pub(super) tls: bool,
    /// Without them, too.
    pub(super) insecure: bool,
}

/// The addresses as they are written, and the key that they are of.
pub(super) struct Named {
    key: &'static str,
    servers: Vec<String>,
}

impl Named {
    /// As the flag says, with commas between several, else as the file does.
    pub(super) fn of(
        flag: Option<String>,
        one: Option<String>,
        several: Option<Vec<String>>,
        found: &mut Findings<'_>,
    ) -> Self {
        let nothing = Self { key: "servers", servers: Vec::new() };
        let named = match (flag, one, several) {
            (Some(flag), _, _) => {
                let servers = flag.split(',').map(|server| server.trim().to_owned()).collect();
                Self { key: "server", servers }
            }
            (None, Some(_), Some(_)) => {
                found.add(&["servers"], "is one too many: server and servers exclude each other");
                return nothing;
            }
            (None, Some(server), None) => Self { key: "server", servers: vec![server] },
            (None, None, Some(servers)) => Self { key: "servers", servers },
            (None, None, None) => {
                found.add(
                    &["server"],
                    "is missing: give the server's address, such as \"http://127.0.0.1:7070\"",
                );
                return nothing;
            }
        };
        if !(1..=MOST_SERVERS).contains(&named.servers.len()) {
            found.add(&[named.key], &format!("must name 1 to {MOST_SERVERS} addresses"));
            return nothing;
        }
        named
    }

    /// The addresses that can be used; those that cannot are told.
    pub(super) fn check(&self, safe: Safe, found: &mut Findings<'_>) -> Vec<Uri> {
        let servers: Vec<Uri> =
            self.servers.iter().filter_map(|server| check_server(self.key, server, safe, found)).collect();
        if servers.iter().any(|server| Some(server.scheme()) != servers.first().map(Uri::scheme)) {
            found.add(&[self.key], "must be all https:// or all http://");
        }
        servers
    }
}

fn check_server(key: &str, text: &str, safe: Safe, found: &mut Findings<'_>) -> Option<Uri> {
    let Some(uri) = address(text, safe).filter(|uri| {
        let scheme = matches!(uri.scheme_str(), Some("http" | "https"));
        scheme && uri.port_u16().is_some() && matches!(uri.path(), "" | "/")
    }) else {
        let text = clipped(text);
        found.add(&[key], &format!("\"{text}\" is no address such as \"http://127.0.0.1:7070\""));
        return None;
    };
    if uri.scheme_str() == Some("https") {
        if !safe.tls {
            found.add(&[key], &format!("\"{text}\" needs [tls] with ca, cert and key"));
            return None;
        }
        return Some(uri);
    }
    if !is_loopback(uri.host().unwrap_or("")) && !safe.insecure {
        found.add(&[key], &format!("\"{text}\" is not on this machine: use https:// and [tls]"));
        return None;
    }
    Some(uri)
}

/// Written as clients take it, too: with blanks around it, and without a scheme, which is that of the certificates.
fn address(text: &str, safe: Safe) -> Option<Uri> {
    let text = text.trim();
    if text.contains("://") {
        return text.parse().ok();
    }
    let scheme = if safe.tls { "https" } else { "http" };
    format!("{scheme}://{text}").parse().ok()
}

/// Whether a host of an address is this machine.
pub(crate) fn is_loopback(host: &str) -> bool {
    let host = host.trim_matches(['[', ']']);
    host.eq_ignore_ascii_case("localhost")
        || host.parse().is_ok_and(|address: std::net::IpAddr| address.is_loopback())
}
