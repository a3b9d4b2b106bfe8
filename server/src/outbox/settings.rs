//! What the server file says of webhooks, with its files as they are now.

use std::{collections::BTreeMap, io, sync::Arc};

use rustls::pki_types::{CertificateDer, pem::PemObject as _};

use super::{
    guard::Guard,
    sign::{self, Secret},
};
use crate::config::Webhooks;

/// Settings in force. Replaced whole.
#[derive(Debug, Default)]
pub(crate) struct Settings {
    pub(crate) guard: Guard,
    /// Beside those that the host trusts.
    pub(crate) authorities: Vec<CertificateDer<'static>>,
    secrets: BTreeMap<String, Arc<Secret>>,
}

/// Why settings of webhooks cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A secret cannot.
    #[error("the secret {name} of webhooks cannot be used")]
    Secret {
        /// Which.
        name: String,
        /// Why.
        #[source]
        source: sign::Error,
    },
    /// The authorities cannot.
    #[error("the file {file} ([webhooks] ca) has no certificates that can be read")]
    Authorities {
        /// Which.
        file: String,
        /// Why.
        #[source]
        source: io::Error,
    },
}

impl Settings {
    /// Reads the files of settings.
    ///
    /// # Errors
    /// Which file, and what is wrong with it.
    pub(crate) fn of(webhooks: &Webhooks) -> Result<Self, Error> {
        let secret = |(name, files): (&String, _)| match Secret::read(files) {
            Ok(secret) => Ok((name.clone(), Arc::new(secret))),
            Err(source) => Err(Error::Secret { name: name.clone(), source }),
        };
        let secrets = webhooks.secrets.iter().map(secret).collect::<Result<_, _>>()?;
        let mut authorities = Vec::new();
        if let Some(file) = &webhooks.ca {
            let failed = |source| Error::Authorities { file: file.display().to_string(), source };
            let pem = std::fs::read(file).map_err(failed)?;
            for certificate in CertificateDer::pem_slice_iter(&pem) {
                authorities.push(certificate.map_err(|error| failed(io::Error::other(error)))?);
            }
            if authorities.is_empty() {
                return Err(failed(io::ErrorKind::InvalidData.into()));
            }
        }
        Ok(Self { guard: Guard::new(&webhooks.allow), authorities, secrets })
    }

    /// The secret under a name.
    pub(crate) fn secret(&self, name: &str) -> Option<Arc<Secret>> {
        self.secrets.get(name).cloned()
    }
}
