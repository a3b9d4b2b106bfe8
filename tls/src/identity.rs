//! An identity: what one certificate says about its holder.
//!
//! It comes from exactly one URI among the alternative names, `spiffe://<trust domain>/tenure/<role>/<name>`, and from
//! nothing else: no common name, no prefix, no pattern.
//! Invariant: whatever a certificate holds, reading it ends in an identity or in a reason why it has none.

use std::{fmt, time::Duration};

use x509_parser::{
    certificate::X509Certificate,
    extensions::GeneralName,
    prelude::{FromDer as _, ParsedExtension},
};

use crate::clock;

/// What the holder of a certificate is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    /// Enqueues work and follows its own.
    Producer,
    /// Runs work.
    Node,
    /// Sees everything but payloads and results, and changes nothing.
    Viewer,
    /// Runs the fleet.
    Operator,
    /// May do everything that a person may.
    Admin,
    /// Serves; calls nothing.
    Server,
}

impl Role {
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::Producer, Self::Node, Self::Viewer, Self::Operator, Self::Admin, Self::Server];

    /// As it stands in a certificate.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Producer => "producer",
            Self::Node => "node",
            Self::Viewer => "viewer",
            Self::Operator => "operator",
            Self::Admin => "admin",
            Self::Server => "server",
        }
    }

    /// The role of this name.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|role| role.name() == text)
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Who holds a certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// Whose names these are: `[a-z0-9._-]{1,63}`.
    pub domain: String,
    /// What it is.
    pub role: Role,
    /// Its name among those of its role: `[a-z0-9._-]{1,63}`.
    pub name: String,
}

impl Identity {
    /// Reads the one form that there is.
    ///
    /// # Errors
    /// If the text differs from it in anything.
    pub fn parse(uri: &str) -> Result<Self, Unidentified> {
        let shown = || uri.chars().take(200).collect::<String>();
        let parts: Vec<&str> = uri.strip_prefix("spiffe://").unwrap_or_default().split('/').collect();
        let [domain, "tenure", role, name] = parts[..] else {
            return Err(Unidentified::OtherForm { uri: shown() });
        };
        if !is_name(domain) || !is_name(name) {
            return Err(Unidentified::OtherForm { uri: shown() });
        }
        let role = Role::parse(role).ok_or_else(|| Unidentified::UnknownRole { uri: shown() })?;
        Ok(Self { domain: domain.to_owned(), role, name: name.to_owned() })
    }

    /// As it stands in a certificate.
    #[must_use]
    pub fn uri(&self) -> String {
        format!("spiffe://{}/tenure/{}/{}", self.domain, self.role, self.name)
    }
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.role, self.name)
    }
}

/// Why a certificate says nothing about its holder.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unidentified {
    /// It is none, or is malformed.
    #[error("the certificate cannot be read")]
    Malformed,
    /// It has no URI; a common name counts for nothing.
    #[error(
        "the certificate has no URI among its alternative names; spiffe://<trust domain>/tenure/<role>/<name> must \
         be there, and the common name counts for nothing"
    )]
    NoUri,
    /// It has more than one.
    #[error("the certificate has {count} URIs among its alternative names, and exactly one must be there")]
    SeveralUris {
        /// How many.
        count: usize,
    },
    /// The URI is of another form.
    #[error("the certificate's URI {uri:?} is not of the form spiffe://<trust domain>/tenure/<role>/<name>")]
    OtherForm {
        /// The URI, cut.
        uri: String,
    },
    /// The role does not exist.
    #[error(
        "the certificate's URI {uri:?} names no role: use producer, node, viewer, operator, admin or server"
    )]
    UnknownRole {
        /// The URI, cut.
        uri: String,
    },
}

/// What is known of a certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Certificate {
    /// Its holder.
    pub identity: Result<Identity, Unidentified>,
    /// Its serial number in lower-case hexadecimal digits, without separators or leading zeros.
    pub serial: String,
    /// The first second in which it is valid, since 1970.
    pub not_before: i64,
    /// The last second in which it is valid, since 1970.
    pub not_after: i64,
}

impl Certificate {
    /// Reads a certificate in DER. Whether its authority is the right one is not looked at.
    ///
    /// # Errors
    /// If it is none.
    pub fn read(der: &[u8]) -> Result<Self, Unidentified> {
        let (rest, certificate) = X509Certificate::from_der(der).map_err(|_| Unidentified::Malformed)?;
        if !rest.is_empty() {
            return Err(Unidentified::Malformed);
        }
        let validity = certificate.validity();
        Ok(Self {
            identity: one_uri(&certificate).and_then(|uri| Identity::parse(&uri)),
            serial: normal_serial(&certificate.raw_serial_as_string()),
            not_before: validity.not_before.timestamp(),
            not_after: validity.not_after.timestamp(),
        })
    }

    /// The time from now to the first second in which it is not valid any more.
    #[must_use]
    pub fn runs_out_in(&self) -> Duration {
        let left = self.not_after.saturating_sub(clock::unix_seconds()).saturating_add(1);
        Duration::from_secs(u64::try_from(left).unwrap_or_default())
    }
}

/// A serial number as it is compared: hexadecimal digits in lower case, without separators or leading zeros.
#[must_use]
pub fn normal_serial(text: &str) -> String {
    let digits: String = text.chars().filter(|c| *c != ':').map(|c| c.to_ascii_lowercase()).collect();
    digits.trim_start_matches('0').to_owned()
}

/// The one URI among the alternative names.
pub(crate) fn one_uri(certificate: &X509Certificate<'_>) -> Result<String, Unidentified> {
    let mut uris = Vec::new();
    // Every extension, not the first of its kind: a second one must not hide.
    for extension in certificate.extensions() {
        if let ParsedExtension::SubjectAlternativeName(names) = extension.parsed_extension() {
            for name in &names.general_names {
                if let GeneralName::URI(uri) = name {
                    uris.push((*uri).to_owned());
                }
            }
        }
    }
    match uris.len() {
        0 => Err(Unidentified::NoUri),
        1 => uris.pop().ok_or(Unidentified::NoUri),
        count => Err(Unidentified::SeveralUris { count }),
    }
}

/// Whether a text may be a trust domain or a name.
#[must_use]
pub fn is_name(text: &str) -> bool {
    (1..=63).contains(&text.len())
        && text
            .bytes()
            .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'.' | b'_' | b'-'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_one_form_is_read_back() {
        for role in Role::ALL {
            let identity = Identity { domain: "d.example".to_owned(), role, name: "n-1".to_owned() };
            assert_eq!(Identity::parse(&identity.uri()), Ok(identity));
        }
    }

    #[test]
    fn anything_else_is_nobody() {
        for bad in [
            "",
            "spiffe://",
            "spiffe://d/tenure/node",
            "spiffe://d/tenure/node/",
            "spiffe://d/tenure/node/n/",
            "spiffe://d/tenure/node/n/x",
            "spiffe://d//tenure/node/n",
            "spiffe:///tenure/node/n",
            "SPIFFE://d/tenure/node/n",
            "https://d/tenure/node/n",
            "spiffe://d/Tenure/node/n",
            "spiffe://d/tenure/Node/n",
            "spiffe://d/tenure/root/n",
            "spiffe://d/tenure/node/N",
            "spiffe://d/tenure/node/a%2f",
            "spiffe://d/tenure/node/n?x",
            "spiffe://d/tenure/node/n ",
            "spiffe://d:1/tenure/node/n",
            "spiffe://u@d/tenure/node/n",
            "/tenure/node/n",
        ] {
            assert!(Identity::parse(bad).is_err(), "{bad}");
        }
        assert!(Identity::parse(&format!("spiffe://d/tenure/node/{}", "n".repeat(64))).is_err());
    }

    #[test]
    fn serial_numbers_are_compared_in_one_spelling() {
        assert_eq!(normal_serial("00:0A:bC"), "abc");
        assert_eq!(normal_serial("abc"), "abc");
    }

    #[test]
    fn what_is_no_certificate_is_malformed() {
        assert_eq!(Certificate::read(b"\x30\x00"), Err(Unidentified::Malformed));
        assert_eq!(Certificate::read(b""), Err(Unidentified::Malformed));
    }
}
