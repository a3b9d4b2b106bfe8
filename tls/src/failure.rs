//! What a server says of a handshake that failed: one word for figures, one sentence for its log.
//!
//! Not responsible for what the client is told: TLS has alerts for that, and the client's end reads them
//! (`client.rs`). Invariant: whatever went wrong has one of a closed set of words, so that it can be a label.

use std::io;

use rustls::{AlertDescription, CertificateError, Error, PeerIncompatible};

/// Why a connection was not served.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Failure {
    /// The client's certificate is of another authority.
    OtherAuthority,
    /// The client showed no certificate.
    NoCertificate,
    /// The client's certificate has expired.
    Expired,
    /// The client's certificate is not valid yet.
    TooEarly,
    /// The client's certificate is not for clients.
    OtherPurpose,
    /// The client's certificate cannot be used for another reason.
    BadCertificate,
    /// The client speaks no TLS at all.
    NotTls,
    /// The client speaks TLS to a port without it.
    TlsUnexpected,
    /// Nothing that both ends speak: of the versions, the ciphers, or HTTP/2.
    Incompatible,
    /// The client does not take the server's certificate.
    RefusedByClient,
    /// The client went away.
    Gone,
    /// The client did not end the handshake in time.
    TimedOut,
    /// The client's was the oldest of too many handshakes.
    Displaced,
    /// Its address has too many handshakes, or too many connections.
    TooMany,
    /// Anything else.
    Other,
}

impl Failure {
    /// All of them.
    pub const ALL: [Self; 15] = [
        Self::OtherAuthority,
        Self::NoCertificate,
        Self::Expired,
        Self::TooEarly,
        Self::OtherPurpose,
        Self::BadCertificate,
        Self::NotTls,
        Self::TlsUnexpected,
        Self::Incompatible,
        Self::RefusedByClient,
        Self::Gone,
        Self::TimedOut,
        Self::Displaced,
        Self::TooMany,
        Self::Other,
    ];

    /// What an error of the server's end of a handshake means.
    #[must_use]
    #[expect(clippy::wildcard_enum_match_arm, reason = "TLS has dozens of others, which are not told apart")]
    pub fn of(error: &io::Error) -> Self {
        let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<Error>());
        match inner {
            Some(Error::InvalidCertificate(wrong)) => match wrong {
                CertificateError::UnknownIssuer | CertificateError::BadSignature => Self::OtherAuthority,
                CertificateError::Expired | CertificateError::ExpiredContext { .. } => Self::Expired,
                CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => Self::TooEarly,
                CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. } => {
                    Self::OtherPurpose
                }
                _ => Self::BadCertificate,
            },
            Some(Error::NoCertificatesPresented) => Self::NoCertificate,
            Some(Error::InvalidMessage(_)) => Self::NotTls,
            Some(Error::PeerIncompatible(PeerIncompatible::NoSignatureSchemesInCommon)) => {
                Self::BadCertificate
            }
            Some(Error::PeerIncompatible(_) | Error::NoApplicationProtocol) => Self::Incompatible,
            // Whoever leaves in order before the end says so by one of the two.
            Some(Error::AlertReceived(AlertDescription::CloseNotify | AlertDescription::UserCanceled)) => {
                Self::Gone
            }
            Some(Error::AlertReceived(AlertDescription::ProtocolVersion)) => Self::Incompatible,
            Some(Error::AlertReceived(_)) => Self::RefusedByClient,
            Some(_) => Self::Other,
            None => Self::Gone,
        }
    }

    /// As a label.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::OtherAuthority => "other_authority",
            Self::NoCertificate => "no_certificate",
            Self::Expired => "expired",
            Self::TooEarly => "not_valid_yet",
            Self::OtherPurpose => "other_purpose",
            Self::BadCertificate => "bad_certificate",
            Self::NotTls => "not_tls",
            Self::TlsUnexpected => "tls_unexpected",
            Self::Incompatible => "incompatible",
            Self::RefusedByClient => "refused_by_client",
            Self::Gone => "gone",
            Self::TimedOut => "timed_out",
            Self::Displaced => "displaced",
            Self::TooMany => "too_many",
            Self::Other => "other",
        }
    }

    /// What is wrong and, where somebody can cure it, how.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Self::OtherAuthority => "its certificate is of another CA than client_ca",
            Self::NoCertificate => "it showed no certificate",
            Self::Expired => "its certificate has expired, or the clocks differ",
            Self::TooEarly => "its certificate is not valid yet, or the clocks differ",
            Self::OtherPurpose => "its certificate is not for clients",
            Self::BadCertificate => "its certificate cannot be used",
            Self::NotTls => "it does not speak TLS: it must write https://",
            Self::TlsUnexpected => {
                "it speaks TLS, and there is none here: it must write http://, or the server file needs [tls]"
            }
            Self::Incompatible => {
                "it offers no version of TLS, cipher or protocol that is taken here: TLS 1.2 or newer, HTTP/2"
            }
            Self::RefusedByClient => {
                "it does not take this server's certificate: its CA, its names or its time are wrong for that client"
            }
            Self::Gone => "it went away",
            Self::TimedOut => "it did not end the handshake in time",
            Self::Displaced => "it was the oldest of too many handshakes",
            Self::TooMany => "its address has too many connections",
            Self::Other => "it breaks the rules of TLS",
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_failure_has_a_word_and_a_sentence_of_its_own() {
        let words: BTreeSet<_> = Failure::ALL.iter().map(|failure| failure.name()).collect();
        let sentences: BTreeSet<_> = Failure::ALL.iter().map(|failure| failure.words()).collect();
        assert_eq!((words.len(), sentences.len()), (Failure::ALL.len(), Failure::ALL.len()));
        assert!(words.iter().all(|word| word.bytes().all(|b| b.is_ascii_lowercase() || b == b'_')));
    }

    #[test]
    fn an_error_below_tls_is_a_client_that_went_away() {
        assert_eq!(Failure::of(&io::ErrorKind::UnexpectedEof.into()), Failure::Gone);
        assert_eq!(Failure::of(&io::Error::other(Error::NoCertificatesPresented)), Failure::NoCertificate);
    }
}
