//! Which addresses a webhook may reach: public ones, and networks that the server file opens.
//!
//! Whoever writes the fleet file says where webhooks go, and this server sends from inside of a network of which others
//! see the edge only. So every address that a name resolves to is judged, and the connection is made to one of those that
//! were, never to what the name says a moment later.
//! Invariant: one address that may not be reached refuses the whole name.

use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    sync::Arc,
};

use reqwest::dns::{Addrs, Name, Resolve, Resolving};

use crate::config::Network;

/// Networks of IPv4 that are not public, and why.
const CLOSED_4: [([u8; 4], u32, &str); 15] = [
    ([0, 0, 0, 0], 8, "unspecified"),
    ([10, 0, 0, 0], 8, "private"),
    ([100, 64, 0, 0], 10, "shared by a carrier (CGNAT)"),
    ([127, 0, 0, 0], 8, "loopback"),
    ([169, 254, 0, 0], 16, "link-local"),
    ([172, 16, 0, 0], 12, "private"),
    ([192, 0, 0, 0], 24, "reserved"),
    ([192, 0, 2, 0], 24, "for documentation"),
    ([192, 88, 99, 0], 24, "a relay of 6to4"),
    ([192, 168, 0, 0], 16, "private"),
    ([198, 18, 0, 0], 15, "for measurements"),
    ([198, 51, 100, 0], 24, "for documentation"),
    ([203, 0, 113, 0], 24, "for documentation"),
    ([224, 0, 0, 0], 4, "multicast"),
    ([240, 0, 0, 0], 4, "reserved"),
];

/// Networks of IPv6 with a name of their own, most of which lead to an address of IPv4 that nobody would see.
const CLOSED_6: [([u16; 4], u32, &str); 11] = [
    ([0x0064, 0xff9b, 0, 0], 96, "translated (NAT64)"),
    ([0x0064, 0xff9b, 1, 0], 48, "translated (NAT64)"),
    ([0x2001, 0, 0, 0], 32, "a tunnel (Teredo)"),
    ([0x2001, 0x0db8, 0, 0], 32, "for documentation"),
    ([0x2001, 0, 0, 0], 23, "reserved"),
    ([0x2002, 0, 0, 0], 16, "a tunnel (6to4)"),
    ([0x3fff, 0, 0, 0], 20, "for documentation"),
    ([0xfc00, 0, 0, 0], 7, "private"),
    ([0xfe80, 0, 0, 0], 10, "link-local"),
    ([0xfec0, 0, 0, 0], 10, "site-local"),
    ([0xff00, 0, 0, 0], 8, "multicast"),
];

/// The judge of addresses. Clones share it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Guard {
    allow: Arc<[Network]>,
}

/// An address that a webhook may not reach.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the address {address} is {why}, and the server file opens no such network ([webhooks] allow)")]
pub(crate) struct Closed {
    address: IpAddr,
    why: &'static str,
}

/// A name without an address.
#[derive(Debug, thiserror::Error)]
#[error("the name has no address")]
struct NoAddress;

impl Guard {
    pub(crate) fn new(allow: &[Network]) -> Self {
        Self { allow: allow.into() }
    }

    /// Judges an address.
    ///
    /// # Errors
    /// Why it may not be reached.
    pub(crate) fn check(&self, address: IpAddr) -> Result<(), Closed> {
        let why = match address {
            IpAddr::V4(address) => why_closed_4(address),
            IpAddr::V6(address) => why_closed_6(address),
        };
        match why {
            Some(why) if !self.allow.iter().any(|network| network.contains(address)) => {
                Err(Closed { address, why })
            }
            Some(_) | None => Ok(()),
        }
    }
}

impl Resolve for Guard {
    /// What a connection is made to is what was judged: the connector asks nobody else.
    fn resolve(&self, name: Name) -> Resolving {
        let guard = self.clone();
        Box::pin(async move {
            let found: Vec<SocketAddr> = tokio::net::lookup_host((name.as_str(), 0)).await?.collect();
            for address in &found {
                guard.check(address.ip())?;
            }
            if found.is_empty() {
                return Err(NoAddress.into());
            }
            Ok(Box::new(found.into_iter()) as Addrs)
        })
    }
}

fn why_closed_4(address: Ipv4Addr) -> Option<&'static str> {
    let closed = CLOSED_4.iter().find(|(network, prefix, _)| {
        (address.to_bits() ^ u32::from_be_bytes(*network)).checked_shr(32 - prefix).unwrap_or(0) == 0
    });
    closed.map(|(_, _, why)| *why)
}

fn why_closed_6(address: Ipv6Addr) -> Option<&'static str> {
    if address.is_unspecified() {
        return Some("unspecified");
    }
    if address.is_loopback() {
        return Some("loopback");
    }
    if address.to_ipv4_mapped().is_some() {
        return Some("one of IPv4 in disguise");
    }
    let closed = CLOSED_6.iter().find(|(network, prefix, _)| {
        let network = network.iter().fold(0_u128, |bits, part| bits << 16 | u128::from(*part)) << 64;
        (address.to_bits() ^ network).checked_shr(128 - prefix).unwrap_or(0) == 0
    });
    // Whatever is not handed out to anybody yet, too.
    let is_global = address.to_bits() >> 125 == 0b001;
    closed.map(|(_, _, why)| *why).or((!is_global).then_some("reserved"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(allow: &[&str], address: &str) -> Result<(), Closed> {
        let allow: Vec<Network> = allow.iter().map(|network| network.parse().unwrap()).collect();
        Guard::new(&allow).check(address.parse().unwrap())
    }

    #[test]
    fn public_addresses_may_be_reached() {
        for address in [
            "1.1.1.1",
            "8.8.8.8",
            "9.255.255.255",
            "11.0.0.0",
            "100.63.255.255",
            "100.128.0.0",
            "172.15.255.255",
            "172.32.0.0",
            "198.20.0.0",
            "223.255.255.255",
            "2606:4700::1111",
            "2001:4860:4860::8888",
            "2003::1",
            "2400::1",
        ] {
            assert_eq!(check(&[], address), Ok(()), "{address}");
        }
    }

    #[test]
    fn no_other_may_however_it_is_written() {
        for (address, why) in [
            ("0.0.0.0", "unspecified"),
            ("0.1.2.3", "unspecified"),
            ("10.0.0.1", "private"),
            ("100.64.0.1", "CGNAT"),
            ("100.127.255.255", "CGNAT"),
            ("127.0.0.1", "loopback"),
            ("127.255.255.254", "loopback"),
            ("169.254.169.254", "link-local"),
            ("172.16.0.1", "private"),
            ("172.31.255.255", "private"),
            ("192.0.0.8", "reserved"),
            ("192.88.99.1", "6to4"),
            ("192.168.0.1", "private"),
            ("198.19.255.255", "measurements"),
            ("224.0.0.1", "multicast"),
            ("239.255.255.255", "multicast"),
            ("255.255.255.255", "reserved"),
            ("::", "unspecified"),
            ("::1", "loopback"),
            ("::ffff:127.0.0.1", "in disguise"),
            ("::ffff:8.8.8.8", "in disguise"),
            ("::127.0.0.1", "reserved"),
            ("64:ff9b::7f00:1", "NAT64"),
            ("64:ff9b:1::a00:1", "NAT64"),
            ("2001::1", "Teredo"),
            ("2001:0:4136:e378::1", "Teredo"),
            ("2001:10::1", "reserved"),
            ("2001:db8::1", "documentation"),
            ("2002:7f00:1::", "6to4"),
            ("3fff::1", "documentation"),
            ("4000::1", "reserved"),
            ("fc00::1", "private"),
            ("fd12:3456::1", "private"),
            ("fe80::1", "link-local"),
            ("febf::1", "link-local"),
            ("fec0::1", "site-local"),
            ("ff02::1", "multicast"),
        ] {
            let closed = check(&[], address).unwrap_err();
            assert!(closed.why.contains(why), "{address}: {closed}");
        }
    }

    #[test]
    fn what_the_operator_opens_may_be_reached_and_nothing_beside_it() {
        assert_eq!(check(&["127.0.0.0/8"], "127.0.0.1"), Ok(()));
        assert!(check(&["127.0.0.0/8"], "10.0.0.1").is_err());
        assert!(check(&["127.0.0.0/8"], "::1").is_err());
        assert!(check(&["127.0.0.0/8"], "::ffff:127.0.0.1").is_err());
        assert_eq!(check(&["10.1.0.0/16", "fd00::/8"], "fd00::5"), Ok(()));
    }

    #[tokio::test]
    async fn a_name_is_refused_by_one_of_its_addresses() {
        let resolve = |guard: Guard| guard.resolve("localhost".parse().unwrap());
        let Err(refused) = resolve(Guard::default()).await else { panic!("loopback was let through") };
        assert!(refused.downcast_ref::<Closed>().is_some(), "{refused}");
        let all = Guard::new(&["127.0.0.0/8".parse().unwrap(), "::1".parse().unwrap()]);
        assert!(resolve(all).await.unwrap().all(|address| address.ip().is_loopback()));
    }
}
