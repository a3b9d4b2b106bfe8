//! Whose call it is that a server hands on: one header, which only the listener for servers reads.
//!
//! Not responsible for what the caller may do: the leader looks that up as if it had shook hands itself, so that the
//! header carries what a certificate says, and no rights. Invariant: what does not read back word for word is nobody.

use std::{net::SocketAddr, sync::Arc};

use http::{HeaderMap, HeaderName, HeaderValue};
use tenure_tls::{Certificate, Identity, identity::normal_serial};

use crate::tls::Peer;

/// The name of the header. A request with it was handed on already.
pub(crate) const CALLER: HeaderName = HeaderName::from_static("tenure-caller");

/// Instead of an identity: there is no TLS, and it is whoever reaches the port.
const ANYBODY: &str = "anybody";

/// Writes down who calls, instead of whatever stood there. False: it cannot be said, and the call goes no further.
pub(crate) fn write(peer: &Peer, headers: &mut HeaderMap) -> bool {
    let who = match &peer.certificate {
        None => ANYBODY.to_owned(),
        Some(certificate) => {
            let Certificate { identity, serial, not_before, not_after } = &**certificate;
            let Ok(identity) = identity else { return false };
            format!("{} {serial} {not_before} {not_after}", identity.uri())
        }
    };
    let Ok(mut value) = HeaderValue::try_from(format!("{} {who}", peer.address)) else { return false };
    value.set_sensitive(true); // of no use in the tables of HTTP/2's compression
    headers.insert(CALLER, value);
    true
}

/// Who calls; none: the header is missing, there twice, or says anything else than [`write()`] does.
pub(crate) fn read(headers: &HeaderMap) -> Option<Peer> {
    let mut values = headers.get_all(CALLER).iter();
    let (Some(value), None) = (values.next(), values.next()) else { return None };
    let parts: Vec<&str> = value.to_str().ok()?.split(' ').collect();
    let (address, certificate) = match parts[..] {
        [address, ANYBODY] => (address, None),
        [address, uri, serial, not_before, not_after] => {
            let certificate = Certificate {
                identity: Ok(Identity::parse(uri).ok()?),
                serial: Some(serial.to_owned()).filter(|serial| normal_serial(serial) == *serial)?,
                not_before: not_before.parse().ok()?,
                not_after: not_after.parse().ok()?,
            };
            (address, Some(Arc::new(certificate)))
        }
        _ => return None,
    };
    let address: SocketAddr = address.parse().ok()?;
    Some(Peer { address, certificate })
}

#[cfg(test)]
mod tests {
    use tenure_tls::Unidentified;

    use super::*;

    fn peer(identity: Result<Identity, Unidentified>) -> Peer {
        let certificate = Certificate { identity, serial: "1f3".to_owned(), not_before: -1, not_after: 99 };
        Peer { address: SocketAddr::from(([10, 0, 0, 7], 4711)), certificate: Some(Arc::new(certificate)) }
    }

    #[test]
    fn a_caller_is_read_back_as_it_was() {
        let ours = peer(Identity::parse("spiffe://tenure/tenure/producer/web"));
        let anybody = Peer { certificate: None, ..ours.clone() };
        for peer in [ours, anybody] {
            let mut headers = HeaderMap::new();
            headers.append(CALLER, HeaderValue::from_static("forged"));
            headers.append(CALLER, HeaderValue::from_static("forged again"));
            assert!(write(&peer, &mut headers));
            let read = read(&headers).unwrap();
            assert_eq!((read.address, read.certificate), (peer.address, peer.certificate));
        }
        assert!(!write(&peer(Err(Unidentified::NoUri)), &mut HeaderMap::new()));
    }

    #[test]
    fn anything_else_is_nobody() {
        for bad in [
            "",
            "anybody",
            "10.0.0.7 anybody",
            "10.0.0.7:1 Anybody",
            "10.0.0.7:1 anybody ",
            "10.0.0.7:1  anybody",
            "10.0.0.7:1 spiffe://tenure/tenure/admin/sam",
            "10.0.0.7:1 spiffe://tenure/tenure/admin/sam 1 0",
            "10.0.0.7:1 spiffe://tenure/tenure/root/sam 1 0 9",
            "10.0.0.7:1 spiffe://tenure/tenure/admin/sam 01 0 9",
            "10.0.0.7:1 spiffe://tenure/tenure/admin/sam 1 0 x",
            "10.0.0.7:1 spiffe://tenure/tenure/admin/sam 1 0 9 9",
        ] {
            let headers = HeaderMap::from_iter([(CALLER, HeaderValue::from_static(bad))]);
            assert!(read(&headers).is_none(), "{bad}");
        }
        assert!(read(&HeaderMap::new()).is_none());
        let mut twice = HeaderMap::new();
        twice.append(CALLER, HeaderValue::from_static("10.0.0.7:1 anybody"));
        twice.append(CALLER, HeaderValue::from_static("10.0.0.8:1 anybody"));
        assert!(read(&twice).is_none());
    }
}
