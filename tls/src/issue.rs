//! Making certificates: an authority of one's own, and what it signs.
//!
//! Responsible for names, purposes, lifetimes and files. Invariants: an authority is never overwritten; every file is
//! made for its owner only, and appears whole or not at all.

use std::{
    fs,
    io::{self, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair, KeyUsagePurpose, SanType,
};
use x509_parser::{certificate::X509Certificate, prelude::FromDer as _};

use crate::{Identity, Role, clock, files, identity};

/// How long an authority lives, in days.
pub const CA_DAYS: u32 = 3650;
/// How long a certificate lives unless its maker says otherwise, in days.
pub const LEAF_DAYS: u32 = 365;
/// Valid so long before it was made: clocks differ. In seconds.
const EARLIER: i64 = 3600;

/// Why nothing was made.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The authority cannot be read.
    #[error("the authority in {} cannot be used: `tenure certs init` makes one", directory.display())]
    Authority {
        /// Where.
        directory: PathBuf,
        /// Why.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// There is a file already.
    #[error("{} exists already", path.display())]
    Exists {
        /// Which.
        path: PathBuf,
    },
    /// A name that cannot stand in a certificate.
    #[error("{text:?} is no name: use 1 to 63 of a-z, 0-9, dot, underscore and hyphen")]
    Name {
        /// As it was given.
        text: String,
    },
    /// A host that cannot stand in a certificate.
    #[error("{text:?} is no name or address of a host")]
    Host {
        /// As it was given.
        text: String,
    },
    /// The making failed.
    #[error("the certificate cannot be made")]
    Make(#[from] rcgen::Error),
    /// A file cannot be written.
    #[error("cannot write {}", path.display())]
    Write {
        /// Which.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
}

/// What to put into a certificate.
#[derive(Debug, Clone)]
pub struct Leaf {
    /// What its holder is.
    pub role: Role,
    /// Its name.
    pub name: String,
    /// Names and addresses under which a server is reached. Empty for everybody else.
    pub hosts: Vec<String>,
    /// How long it lives.
    pub days: u32,
}

/// Two files that were made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Made {
    /// The certificate.
    pub cert: PathBuf,
    /// Its key.
    pub key: PathBuf,
}

/// Makes an authority in a directory, which is made if it is not there: `ca.pem` and `ca-key.pem`.
///
/// # Errors
/// If there is one already, or a file cannot be written.
pub fn init(directory: &Path, domain: &str) -> Result<Made, Error> {
    if !identity::is_name(domain) {
        return Err(Error::Name { text: domain.to_owned() });
    }
    let made = Made { cert: directory.join("ca.pem"), key: directory.join("ca-key.pem") };
    for path in [&made.cert, &made.key] {
        if path.exists() {
            return Err(Error::Exists { path: path.clone() });
        }
    }
    let mut params = params(&format!("Tenure authority of {domain}"), CA_DAYS);
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    params.subject_alt_names = vec![SanType::URI(format!("spiffe://{domain}").try_into()?)];
    let key = KeyPair::generate()?;
    let certificate = params.self_signed(&key)?;
    fs::create_dir_all(directory).map_err(|source| Error::Write { path: directory.to_owned(), source })?;
    // The key first: an authority without its key would stop the next try.
    write(&made.key, &key.serialize_pem(), false)?;
    write(&made.cert, &certificate.pem(), false)?;
    Ok(made)
}

/// Makes a certificate by the authority in a directory: `ROLE-NAME.pem` and `ROLE-NAME-key.pem` beside it. With
/// `replace` it takes the place of an older one.
///
/// # Errors
/// If there is no authority, a name is none, or a file exists and is not to be replaced.
pub fn issue(directory: &Path, leaf: &Leaf, replace: bool) -> Result<Made, Error> {
    if !identity::is_name(&leaf.name) {
        return Err(Error::Name { text: leaf.name.clone() });
    }
    let (issuer, domain) = authority(directory)?;
    let stem = format!("{}-{}", leaf.role, leaf.name);
    let made =
        Made { cert: directory.join(format!("{stem}.pem")), key: directory.join(format!("{stem}-key.pem")) };
    if let Some(path) = [&made.cert, &made.key].into_iter().find(|path| !replace && path.exists()) {
        return Err(Error::Exists { path: path.clone() });
    }
    let mut params = params(&stem, leaf.days);
    let holder = Identity { domain, role: leaf.role, name: leaf.name.clone() };
    params.subject_alt_names = vec![SanType::URI(holder.uri().try_into()?)];
    for host in &leaf.hosts {
        let wrong = || Error::Host { text: host.clone() };
        let name = match host.parse() {
            Ok(address) => SanType::IpAddress(address),
            Err(_) if is_host(host) => SanType::DnsName(host.as_str().try_into().map_err(|_| wrong())?),
            Err(_) => return Err(wrong()),
        };
        params.subject_alt_names.push(name);
    }
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = match leaf.role {
        // Only a server can be taken for one.
        Role::Server => vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth],
        Role::Producer | Role::Node | Role::Viewer | Role::Operator | Role::Admin => {
            vec![ExtendedKeyUsagePurpose::ClientAuth]
        }
    };
    params.use_authority_key_identifier_extension = true;
    let key = KeyPair::generate()?;
    let certificate = params.signed_by(&key, &issuer)?;
    write(&made.key, &key.serialize_pem(), replace)?;
    write(&made.cert, &certificate.pem(), replace)?;
    Ok(made)
}

/// The authority of a directory, and its trust domain.
fn authority(directory: &Path) -> Result<(Issuer<'static, KeyPair>, String), Error> {
    let failed = |source: Box<dyn std::error::Error + Send + Sync>| Error::Authority {
        directory: directory.to_owned(),
        source,
    };
    let path = directory.join("ca.pem");
    let first = files::certificates(&path).map_err(|error| failed(error.into()))?.into_iter().next();
    let der = first.ok_or_else(|| failed("it is empty".into()))?;
    let (_, certificate) = X509Certificate::from_der(&der).map_err(|error| failed(error.into()))?;
    let uri = identity::one_uri(&certificate).map_err(|error| failed(error.into()))?;
    let domain = uri.strip_prefix("spiffe://").filter(|domain| identity::is_name(domain));
    let domain = domain.ok_or_else(|| failed("it names no trust domain".into()))?.to_owned();
    let key = fs::read_to_string(directory.join("ca-key.pem")).map_err(|error| failed(error.into()))?;
    let key = KeyPair::from_pem(&key).map_err(|error| failed(error.into()))?;
    let issuer = Issuer::from_ca_cert_der(&der, key).map_err(|error| failed(error.into()))?;
    Ok((issuer, domain))
}

fn is_host(text: &str) -> bool {
    let label = |label: &str| {
        !label.is_empty()
            && label.len() <= 63
            && label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
    };
    text.len() <= 253 && text.split('.').all(label)
}

fn params(common_name: &str, days: u32) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    // For people who look at it; it counts for nothing.
    params.distinguished_name.push(DnType::CommonName, common_name);
    let now = clock::unix_seconds();
    params.not_before = at(now - EARLIER);
    params.not_after = at(now + i64::from(days) * 86_400);
    params
}

fn at<T: From<SystemTime>>(seconds: i64) -> T {
    (UNIX_EPOCH + Duration::from_secs(seconds.max(0).unsigned_abs())).into()
}

/// For its owner only, whole or not at all.
fn write(path: &Path, text: &str, replace: bool) -> Result<(), Error> {
    let failed = |source| Error::Write { path: path.to_owned(), source };
    let mut draft = path.as_os_str().to_owned();
    draft.push(".tmp");
    let draft = PathBuf::from(draft);
    match fs::remove_file(&draft) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(error)),
        Ok(()) | Err(_) => {}
    }
    let mut file =
        fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&draft).map_err(failed)?;
    file.write_all(text.as_bytes()).and_then(|()| file.sync_all()).map_err(failed)?;
    if replace {
        return fs::rename(&draft, path).map_err(failed);
    }
    // A link takes no place that is taken, as a rename would.
    let linked = fs::hard_link(&draft, path).map_err(failed);
    fs::remove_file(&draft).map_err(failed)?;
    linked
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;
    use crate::files::Own;

    fn leaf(role: Role) -> Leaf {
        let hosts =
            if role == Role::Server { vec!["localhost".to_owned(), "::1".to_owned()] } else { Vec::new() };
        Leaf { role, name: "n1".to_owned(), hosts, days: 1 }
    }

    #[test]
    fn certificates_name_their_holder_and_belong_to_their_owner_only() {
        let directory = tempfile::tempdir().unwrap();
        init(directory.path(), "example").unwrap();
        for role in Role::ALL {
            let made = issue(directory.path(), &leaf(role), false).unwrap();
            let own = Own { cert: made.cert.clone(), key: made.key.clone() };
            assert_eq!(
                own.load().unwrap().leaf.identity.unwrap().uri(),
                format!("spiffe://example/tenure/{role}/n1")
            );
            own.check_holder(role, Some("n1")).unwrap();
            assert!(own.check_holder(role, Some("n2")).is_err());
        }
        for entry in fs::read_dir(directory.path()).unwrap() {
            let entry = entry.unwrap();
            assert_eq!(entry.metadata().unwrap().permissions().mode() & 0o777, 0o600, "{entry:?}");
        }
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 14, "no draft is left");
    }

    #[test]
    fn nothing_is_overwritten_unless_that_was_asked_for() {
        let directory = tempfile::tempdir().unwrap();
        let ca = init(directory.path(), "example").unwrap();
        let before = fs::read(&ca.cert).unwrap();
        assert!(matches!(init(directory.path(), "example"), Err(Error::Exists { .. })));
        assert_eq!(fs::read(&ca.cert).unwrap(), before);
        let first = issue(directory.path(), &leaf(Role::Node), false).unwrap();
        let before = fs::read(&first.cert).unwrap();
        assert!(matches!(issue(directory.path(), &leaf(Role::Node), false), Err(Error::Exists { .. })));
        assert_eq!(fs::read(&first.cert).unwrap(), before);
        issue(directory.path(), &leaf(Role::Node), true).unwrap();
        assert_ne!(fs::read(&first.cert).unwrap(), before);
    }

    #[test]
    fn what_cannot_stand_in_a_certificate_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        assert!(matches!(issue(directory.path(), &leaf(Role::Node), false), Err(Error::Authority { .. })));
        assert!(matches!(init(directory.path(), "Example"), Err(Error::Name { .. })));
        init(directory.path(), "example").unwrap();
        let bad = Leaf { name: "../x".to_owned(), ..leaf(Role::Node) };
        assert!(matches!(issue(directory.path(), &bad, false), Err(Error::Name { .. })));
        let bad = Leaf { hosts: vec!["a b".to_owned()], ..leaf(Role::Server) };
        assert!(matches!(issue(directory.path(), &bad, false), Err(Error::Host { .. })));
    }
}
