//! The words that a node gives for a return where no pressure rule of the node file has one.
//!
//! Responsible for the one list of them; the protocol's comments and `docs/node-file.md` repeat it, held by a test. Not
//! responsible for when each applies (`holdings/last_word.rs`, `runner.rs`, `pressure.rs`).
//!
//! Invariant: no pressure rule of a node file has one of these as its id, since servers treat some of them apart.

use std::fmt;

/// Why a grant or lease is given back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OwnRule {
    /// The headroom that the kind declares does not fit.
    Headroom,
    /// The host has not been looked at yet: the agent has just started.
    Unsampled,
    /// A slot is taken, or capped.
    Slots,
    /// The grant was under way for longer than its start window.
    StaleGrant,
    /// The job's `stale_after` is over.
    Stale,
    /// The kind does not run here.
    Kind,
    /// An earlier attempt of the job is still being killed here.
    NotReaped,
    /// Reports fill the spool, or cannot be written.
    SpoolFull,
    /// The node is drained, or its agent ends.
    Draining,
    /// The attempt's directory could not be made.
    Workdir,
    /// The attempt's shim could not be started.
    Shim,
    /// No server was heard for as long as the lease allowed.
    CutOff,
    /// The server took the lease back.
    Revoked,
    /// Another agent took over the node's instance.
    Superseded,
    /// The shim was told to end, by a host that shuts down.
    Terminated,
    /// No worker that is attached takes one more attempt of the kind.
    Worker,
}

impl OwnRule {
    /// Every one.
    pub const ALL: [Self; 16] = [
        Self::Headroom,
        Self::Unsampled,
        Self::Slots,
        Self::StaleGrant,
        Self::Stale,
        Self::Kind,
        Self::NotReaped,
        Self::SpoolFull,
        Self::Draining,
        Self::Workdir,
        Self::Shim,
        Self::CutOff,
        Self::Revoked,
        Self::Superseded,
        Self::Terminated,
        Self::Worker,
    ];

    /// The word on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Headroom => "headroom",
            Self::Unsampled => "unsampled",
            Self::Slots => "slots",
            Self::StaleGrant => "stale_grant",
            Self::Stale => "stale",
            Self::Kind => "kind",
            Self::NotReaped => "not_reaped",
            Self::SpoolFull => "spool_full",
            Self::Draining => "draining",
            Self::Workdir => "workdir",
            Self::Shim => "shim",
            Self::CutOff => "cut_off",
            Self::Revoked => "revoked",
            Self::Superseded => "superseded",
            Self::Terminated => "terminated",
            Self::Worker => "worker",
        }
    }
}

impl fmt::Display for OwnRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn words(text: &str) -> BTreeSet<&str> {
        text.split(|c: char| !(c.is_ascii_lowercase() || c == '_')).filter(|word| !word.is_empty()).collect()
    }

    #[test]
    fn the_protocol_and_the_handbook_name_the_same_words() {
        let own: BTreeSet<&str> = OwnRule::ALL.iter().map(|rule| rule.as_str()).collect();
        assert_eq!(own.len(), OwnRule::ALL.len());

        let handbook = include_str!("../../docs/node-file.md");
        let table = handbook.split_once("## Why a node gives a grant back").unwrap().1;
        let first_cells = table.lines().filter_map(|line| line.strip_prefix("| ")?.split(" |").next());
        let quoted = first_cells.flat_map(|cell| cell.split('`').skip(1).step_by(2));
        assert_eq!(quoted.collect::<BTreeSet<_>>(), own);

        let protocol = include_str!("../../proto/tenure/node/v1/session.proto");
        let comment = protocol.split_once("// Rule or reason:").unwrap().1;
        let list = comment.split_once(", or the id of a pressure rule").unwrap().0;
        assert_eq!(words(list), own);
    }
}
