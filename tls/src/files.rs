//! Certificates and keys as they stand in files, in PEM.
//!
//! Invariant: every error names the file and what is wrong with it; no key is ever part of one.

use std::{
    fs,
    path::{Path, PathBuf},
};

use rustls::{
    RootCertStore,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _},
};

use crate::{Certificate, Role, Unidentified, clock};

/// The largest file that is read, in bytes: a chain has a few thousand.
const LARGEST: u64 = 1024 * 1024;

/// Which files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Files {
    /// The certificates of the authorities that the other end may come from.
    pub ca: PathBuf,
    /// Our own certificate, with those between it and its authority behind it, and its key.
    pub own: Option<Own>,
}

/// The files of our own certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Own {
    /// The certificate, and those between it and its authority.
    pub cert: PathBuf,
    /// Its private key.
    pub key: PathBuf,
}

/// What is wrong with a file.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It cannot be read.
    #[error("cannot read {}", path.display())]
    Read {
        /// Which.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// It holds nothing of what is looked for.
    #[error("{} holds no {what} in PEM", path.display())]
    Without {
        /// Which.
        path: PathBuf,
        /// A certificate or a private key.
        what: &'static str,
    },
    /// A certificate in it cannot be used.
    #[error("the certificate in {} cannot be used", path.display())]
    Certificate {
        /// Which.
        path: PathBuf,
        /// Why.
        #[source]
        source: Unidentified,
    },
    /// Its time is over.
    #[error("the certificate in {} has expired, {} ago: make a new one", path.display(), days(*.seconds))]
    Expired {
        /// Which.
        path: PathBuf,
        /// For so long.
        seconds: i64,
    },
    /// Its time has not come.
    #[error("the certificate in {} is not valid yet, for another {}: is the clock right?", path.display(), days(*.seconds))]
    TooEarly {
        /// Which.
        path: PathBuf,
        /// For so long.
        seconds: i64,
    },
    /// It is for something else.
    #[error("the certificate in {} is that of {found}, and one of {wanted} is needed", path.display())]
    OtherHolder {
        /// Which.
        path: PathBuf,
        /// Whose it is.
        found: String,
        /// Whose it must be.
        wanted: String,
    },
    /// Certificate and key do not belong together, or are of a kind that is not spoken.
    #[error("the certificate in {} and the key in {} cannot be used together", cert.display(), key.display())]
    Pair {
        /// The certificate.
        cert: PathBuf,
        /// The key.
        key: PathBuf,
        /// Why.
        #[source]
        source: rustls::Error,
    },
    /// No authority can be taken from it.
    #[error("the authorities in {} cannot be used", path.display())]
    Authorities {
        /// Which.
        path: PathBuf,
        /// Why.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

fn days(seconds: i64) -> String {
    match seconds {
        ..60 => format!("{seconds} s"),
        60..7200 => format!("{} min", seconds / 60),
        7200..172_800 => format!("{} h", seconds / 3600),
        _ => format!("{} days", seconds / 86_400),
    }
}

/// Our own certificate, read and valid now.
#[derive(Debug)]
pub struct Loaded {
    /// Ours first.
    pub chain: Vec<CertificateDer<'static>>,
    /// Its key.
    pub key: PrivateKeyDer<'static>,
    /// What it says.
    pub leaf: Certificate,
}

impl Own {
    /// Reads both files, and checks that the certificate is valid now.
    ///
    /// # Errors
    /// Which file, and what is wrong with it.
    pub fn load(&self) -> Result<Loaded, Error> {
        let chain = certificates(&self.cert)?;
        let leaf = read_first(&self.cert, &chain)?;
        let now = clock::unix_seconds();
        if leaf.not_after < now {
            return Err(Error::Expired { path: self.cert.clone(), seconds: now - leaf.not_after });
        }
        if leaf.not_before > now {
            return Err(Error::TooEarly { path: self.cert.clone(), seconds: leaf.not_before - now });
        }
        let without = || Error::Without { path: self.key.clone(), what: "private key" };
        let key = PrivateKeyDer::from_pem_slice(&read(&self.key)?).map_err(|_| without())?;
        Ok(Loaded { chain, key, leaf })
    }

    /// Checks whose certificate it is: of this role, and of this name if one is given.
    ///
    /// # Errors
    /// As [`Own::load`], or that it is another's.
    pub fn check_holder(&self, role: Role, name: Option<&str>) -> Result<(), Error> {
        let path = self.cert.clone();
        let found = match self.load()?.leaf.identity {
            Ok(identity) => identity,
            Err(source) => return Err(Error::Certificate { path, source }),
        };
        if found.role == role && name.is_none_or(|name| name == found.name) {
            return Ok(());
        }
        let wanted = name.map_or_else(|| format!("a {role}"), |name| format!("{role} {name}"));
        Err(Error::OtherHolder { path, found: found.to_string(), wanted })
    }
}

/// The authorities in a file.
///
/// # Errors
/// If there is none, or one that cannot be used.
pub fn authorities(path: &Path) -> Result<RootCertStore, Error> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(path)? {
        roots
            .add(certificate)
            .map_err(|source| Error::Authorities { path: path.to_owned(), source: source.into() })?;
    }
    Ok(roots)
}

fn read_first(path: &Path, chain: &[CertificateDer<'_>]) -> Result<Certificate, Error> {
    let first = chain.first().map_or(&[][..], |certificate| certificate);
    Certificate::read(first).map_err(|source| Error::Certificate { path: path.to_owned(), source })
}

pub(crate) fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, Error> {
    let without = || Error::Without { path: path.to_owned(), what: "certificate" };
    let text = read(path)?;
    let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
    all.ok().filter(|all| !all.is_empty()).ok_or_else(without)
}

fn read(path: &Path) -> Result<Vec<u8>, Error> {
    let failed = |source| Error::Read { path: path.to_owned(), source };
    let length = fs::metadata(path).map_err(failed)?.len();
    if length > LARGEST {
        return Err(failed(std::io::Error::other(format!("it is larger than {LARGEST} bytes"))));
    }
    fs::read(path).map_err(failed)
}
