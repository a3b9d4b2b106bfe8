//! The table `[webhooks]` of the server file: with which secrets webhooks are signed, and which addresses they may reach
//! beside public ones. Where they go stands in the fleet file; a secret never does.

use std::{
    collections::BTreeMap,
    fmt,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    path::{Path, PathBuf},
    str::FromStr,
};

use tenure_scheduler::is_name;

use super::document::{Problems, Table};

/// The most networks, and the most secrets.
const MOST: usize = 256;

/// Settings of webhooks.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Webhooks {
    /// Networks that webhooks may reach though they are not public. Default: none.
    pub allow: Vec<Network>,
    /// A PEM file of certificates that receivers' certificates may be signed by, beside those that the host trusts.
    pub ca: Option<PathBuf>,
    /// By the name that the fleet file says.
    pub secrets: BTreeMap<String, SecretFiles>,
}

/// Where a secret is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SecretFiles {
    /// A file with the secret: `whsec_` and base64 of 24 to 64 bytes.
    pub file: PathBuf,
    /// A file with the one before, with which everything is signed as well until the receivers know the new one.
    pub previous_file: Option<PathBuf>,
}

/// A network, such as `10.0.0.0/8`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Network {
    address: IpAddr,
    /// Bits that count.
    prefix: u32,
}

impl Webhooks {
    pub(super) fn relative_to(&mut self, directory: &Path) {
        let files = self
            .secrets
            .values_mut()
            .flat_map(|files| [Some(&mut files.file), files.previous_file.as_mut()].into_iter().flatten());
        for file in files.chain(&mut self.ca) {
            *file = directory.join(&file);
        }
    }
}

impl Network {
    /// Whether an address is of it. One of IPv4 is never of a network of IPv6, however it is written.
    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        match (self.address, address) {
            (IpAddr::V4(ours), IpAddr::V4(theirs)) => {
                let mask = u32::MAX.checked_shl(32 - self.prefix).unwrap_or(0);
                ours.to_bits() & mask == theirs.to_bits() & mask
            }
            (IpAddr::V6(ours), IpAddr::V6(theirs)) => {
                let mask = u128::MAX.checked_shl(128 - self.prefix).unwrap_or(0);
                ours.to_bits() & mask == theirs.to_bits() & mask
            }
            (IpAddr::V4(_), IpAddr::V6(_)) | (IpAddr::V6(_), IpAddr::V4(_)) => false,
        }
    }
}

impl FromStr for Network {
    type Err = String;

    /// An address and the number of bits that count; none: all.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong = || format!("must be a network such as \"10.0.0.0/8\" or \"fd00::/8\", not {text:?}");
        let (address, prefix) = text.split_once('/').unwrap_or((text, ""));
        let address: IpAddr = address.parse().map_err(|_| wrong())?;
        let bits = if address.is_ipv4() { 32 } else { 128 };
        let prefix = if prefix.is_empty() && !text.contains('/') {
            bits
        } else {
            prefix.parse().ok().filter(|prefix| *prefix <= bits).ok_or_else(wrong)?
        };
        let network = Self { address, prefix };
        let first = match address {
            IpAddr::V4(v4) => {
                IpAddr::V4(Ipv4Addr::from_bits(v4.to_bits() & u32::MAX.checked_shl(32 - prefix).unwrap_or(0)))
            }
            IpAddr::V6(v6) => {
                let mask = u128::MAX.checked_shl(128 - prefix).unwrap_or(0);
                IpAddr::V6(Ipv6Addr::from_bits(v6.to_bits() & mask))
            }
        };
        // Whoever writes 10.1.2.3/8 means something else than what would be opened.
        if first == address {
            Ok(network)
        } else {
            Err(format!(
                "has bits beyond its first {prefix}: did you mean {:?}?",
                format!("{first}/{prefix}")
            ))
        }
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.prefix)
    }
}

pub(super) fn webhooks(mut table: Table<'_>, problems: &mut Problems) -> Webhooks {
    let mut webhooks = Webhooks::default();
    for value in table.take("allow").and_then(|value| value.array(problems)).into_iter().flatten() {
        if webhooks.allow.len() >= MOST {
            value.refuse(problems, format!("is one too many: at most {MOST} networks"));
            break;
        }
        match value.text(problems).map(Network::from_str) {
            Some(Ok(network)) => webhooks.allow.push(network),
            Some(Err(problem)) => value.refuse(problems, problem),
            None => {}
        }
    }
    if let Some(value) = table.take("ca") {
        webhooks.ca = value.path_text(problems);
    }
    let secrets = table.take_table("secrets", problems);
    for (name, value) in secrets.into_iter().flat_map(Table::into_entries) {
        if webhooks.secrets.len() >= MOST {
            value.refuse(problems, format!("is one too many: at most {MOST} secrets"));
            break;
        }
        if !is_name(&name) {
            value.refuse(problems, "is no name: use 1 to 63 of a-z, 0-9, dot, underscore and hyphen");
        }
        let (at, path) = (value.at(), value.path().to_owned());
        let Some(mut entry) = value.table(problems) else { continue };
        let file = entry.take("file");
        if file.is_none() {
            problems.add(at, &format!("{path}.file"), "is required");
        }
        let file = file.and_then(|file| file.path_text(problems));
        let previous_file = entry.take("previous_file").and_then(|file| file.path_text(problems));
        entry.finish(&[], problems);
        if let Some(file) = file {
            webhooks.secrets.insert(name, SecretFiles { file, previous_file });
        }
    }
    table.finish(&[], problems);
    webhooks
}

#[cfg(test)]
mod tests {
    use super::*;

    fn network(text: &str) -> Network {
        text.parse().unwrap()
    }

    #[test]
    fn a_network_has_the_addresses_that_begin_as_it_does() {
        for (text, inside, outside) in [
            ("10.0.0.0/8", "10.255.0.1", "11.0.0.0"),
            ("127.0.0.1", "127.0.0.1", "127.0.0.2"),
            ("0.0.0.0/0", "255.255.255.255", "::"),
            ("192.168.1.128/25", "192.168.1.255", "192.168.1.127"),
            ("fd00::/8", "fdff::1", "fc00::1"),
            ("::/0", "ff02::1", "1.2.3.4"),
            ("::1/128", "::1", "::2"),
        ] {
            assert!(network(text).contains(inside.parse().unwrap()), "{inside} in {text}");
            assert!(!network(text).contains(outside.parse().unwrap()), "{outside} in {text}");
        }
        assert!(
            !network("10.0.0.0/8").contains("::ffff:10.0.0.1".parse().unwrap()),
            "another spelling of it"
        );
    }

    #[test]
    fn what_is_no_network_is_refused() {
        for text in ["", "10", "10.0.0.0/33", "10.0.0.0/", "fd00::/129", "10.0.0.0/-1", "example.test/8"] {
            assert!(text.parse::<Network>().is_err(), "{text}");
        }
        let beyond = "10.1.2.3/8".parse::<Network>().unwrap_err();
        assert!(beyond.contains("10.0.0.0/8"), "{beyond}");
    }
}
