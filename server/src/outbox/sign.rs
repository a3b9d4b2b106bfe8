//! The secrets of webhooks, and signatures by them, as Standard Webhooks wants them: HMAC-SHA256 over id, time and body.
//!
//! Invariant: no text form of anything here shows a secret, and nothing of a secret file is in an error.

use std::{fmt, io, path::Path};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use ring::hmac;

use crate::config::SecretFiles;

/// What a secret begins with.
const PREFIX: &str = "whsec_";

/// Its length in bytes.
const LENGTHS: std::ops::RangeInclusive<usize> = 24..=64;

/// A file is not read beyond this.
const MOST_FILE: u64 = 4096;

/// Everything that one webhook is signed with.
#[derive(Clone)]
pub(crate) struct Secret {
    /// The present one first.
    keys: Vec<hmac::Key>,
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Secret({} keys)", self.keys.len())
    }
}

/// Why a secret cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Its file cannot be read.
    #[error("the secret file {file} cannot be read")]
    Read {
        /// Which.
        file: String,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// Its file has something else.
    #[error("the secret file {file} must hold whsec_ and base64 of 24 to 64 bytes, and nothing else")]
    Malformed {
        /// Which.
        file: String,
    },
}

impl Secret {
    /// Reads the files of a secret.
    ///
    /// # Errors
    /// Which cannot be used.
    pub(crate) fn read(files: &SecretFiles) -> Result<Self, Error> {
        let files = [Some(&files.file), files.previous_file.as_ref()];
        let keys = files.into_iter().flatten().map(|file| read(file)).collect::<Result<_, _>>()?;
        Ok(Self { keys })
    }

    /// The value of `webhook-signature`: one signature for each key, with a blank between.
    pub(crate) fn sign(&self, id: &str, seconds: i64, body: &str) -> String {
        let content = format!("{id}.{seconds}.{body}");
        let sign = |key| format!("v1,{}", STANDARD.encode(hmac::sign(key, content.as_bytes())));
        self.keys.iter().map(sign).collect::<Vec<_>>().join(" ")
    }
}

fn read(file: &Path) -> Result<hmac::Key, Error> {
    let name = || file.display().to_string();
    let read = || {
        use io::Read as _;
        let mut text = String::new();
        std::fs::File::open(file)?.take(MOST_FILE).read_to_string(&mut text)?;
        Ok(text)
    };
    let text = read().map_err(|source| Error::Read { file: name(), source })?;
    let bytes = text.trim().strip_prefix(PREFIX).and_then(|encoded| STANDARD.decode(encoded).ok());
    let bytes = bytes.filter(|bytes| LENGTHS.contains(&bytes.len()));
    let bytes = bytes.ok_or_else(|| Error::Malformed { file: name() })?;
    Ok(hmac::Key::new(hmac::HMAC_SHA256, &bytes))
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    fn written(text: &str) -> (tempfile::TempDir, PathBuf) {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("secret");
        std::fs::write(&file, text).unwrap();
        (directory, file)
    }

    /// The example of the specification's own libraries.
    #[test]
    fn a_signature_is_that_of_standard_webhooks() {
        let (_kept, file) = written("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\n");
        let secret = Secret::read(&SecretFiles { file, previous_file: None }).unwrap();
        let signature = secret.sign("msg_p5jXN8AQM9LWM0D4loKWxJek", 1_614_265_330, r#"{"test": 2432232314}"#);
        assert_eq!(signature, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
    }

    #[test]
    fn while_a_secret_is_replaced_both_sign_the_new_one_first() {
        let (_one, new) = written(&format!("whsec_{}", STANDARD.encode([1; 32])));
        let (_two, old) = written(&format!("whsec_{}", STANDARD.encode([2; 32])));
        let sign = |file: &PathBuf, previous_file: Option<&PathBuf>| {
            let files = SecretFiles { file: file.clone(), previous_file: previous_file.cloned() };
            Secret::read(&files).unwrap().sign("id", 1, "{}")
        };
        assert_eq!(sign(&new, Some(&old)), format!("{} {}", sign(&new, None), sign(&old, None)));
    }

    #[test]
    fn what_is_no_secret_is_refused_and_not_shown() {
        for text in [
            String::new(),
            "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw".into(),
            "whsec_s3cr*t".into(),
            format!("whsec_{}", STANDARD.encode([1; 23])),
            format!("whsec_{}", STANDARD.encode([1; 65])),
        ] {
            let (_kept, file) = written(&text);
            let refused = Secret::read(&SecretFiles { file, previous_file: None }).unwrap_err();
            assert!(matches!(refused, Error::Malformed { .. }), "{refused:?}");
            assert!(text.is_empty() || !format!("{refused} {refused:?}").contains(text.as_str()));
        }
        let missing = SecretFiles { file: "/nonexistent/secret".into(), previous_file: None };
        assert!(matches!(Secret::read(&missing), Err(Error::Read { .. })));
    }
}
