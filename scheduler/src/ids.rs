//! Typed names and numbers. A text that came from outside becomes one of these only through `parse`.

use std::{cmp::Ordering, fmt, str::FromStr, sync::Arc};

use uuid::Uuid;

/// The identity of a job: a UUID v7, made by its producer or by the server.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct JobId(pub Uuid);

/// As their bytes are ordered, which as numbers are two words: tables of jobs are searched by it all the time.
impl Ord for JobId {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.as_u128().cmp(&other.0.as_u128())
    }
}

impl PartialOrd for JobId {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Display for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.hyphenated().fmt(f)
    }
}

impl fmt::Debug for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for JobId {
    type Err = uuid::Error;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Uuid::try_parse(text).map(Self)
    }
}

/// The identity of a workflow: a UUID v7, made by its producer. The ids of its members are derived from it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WorkflowId(pub Uuid);

impl WorkflowId {
    /// The id of the job at a place: a UUID v7 of the same millisecond. Those of one workflow differ, and sort by their
    /// places; whoever knows the id of a workflow knows those of its members.
    #[must_use]
    pub fn member(self, place: u32) -> JobId {
        let (high, low) = self.0.as_u64_pair();
        let mixed = crate::retry::hash(JobId(self.0), 0x77_6f_72_6b);
        // The time, the version and 12 bits; the variant, 14 bits of the place and 48 of the workflow.
        let high = (high & !0xffff) | 0x7000 | (mixed >> 52);
        let low = (0b10 << 62) | (u64::from(place & 0x3fff) << 48) | ((mixed ^ low) & 0xffff_ffff_ffff);
        JobId(Uuid::from_u64_pair(high, low))
    }
}

impl fmt::Display for WorkflowId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.hyphenated().fmt(f)
    }
}

impl fmt::Debug for WorkflowId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for WorkflowId {
    type Err = uuid::Error;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Uuid::try_parse(text).map(Self)
    }
}

/// A name that breaks the rule `[a-z0-9._-]{1,63}`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no name: use 1 to 63 of a-z, 0-9, dot, underscore and hyphen")]
pub struct InvalidName(pub String);

/// Whether a text may name a kind, slot, node, tenant or producer.
#[must_use]
pub fn is_name(text: &str) -> bool {
    (1..=63).contains(&text.len())
        && text
            .bytes()
            .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'.' | b'_' | b'-'))
}

macro_rules! text_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Arc<str>);

        impl $name {
            /// Takes a text that is known to be valid: from our own rows, or checked before.
            #[must_use]
            pub fn new(text: impl Into<Arc<str>>) -> Self {
                Self(text.into())
            }

            /// The text.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

macro_rules! name_id {
    ($(#[$doc:meta])* $name:ident) => {
        text_id!($(#[$doc])* $name);

        impl $name {
            /// Takes a text from outside.
            ///
            /// # Errors
            /// If it breaks the rule for names.
            pub fn parse(text: &str) -> Result<Self, InvalidName> {
                if is_name(text) { Ok(Self(text.into())) } else { Err(InvalidName(text.chars().take(80).collect())) }
            }
        }
    };
}

name_id!(
    /// The name of a kind.
    KindName
);
name_id!(
    /// The name of a slot.
    SlotName
);
name_id!(
    /// The name of a cron entry.
    CronName
);
name_id!(
    /// The name of a webhook.
    WebhookName
);
/// What the slot of a kind begins with; no declared slot can.
const OF_KIND: &str = "kind:";
/// What the slot of a cron entry, and the producer of its jobs, begins with; no other slot or producer can.
const OF_CRON: &str = "cron:";

impl SlotName {
    /// The slot that limits how many jobs of a kind run.
    #[must_use]
    pub fn of_kind(kind: &KindName) -> Self {
        Self(format!("{OF_KIND}{kind}").into())
    }

    /// Whether it is the slot of a kind, which no fleet file, job or node can name.
    #[must_use]
    pub fn is_of_kind(&self) -> bool {
        self.0.starts_with(OF_KIND)
    }

    /// The slot that lets one job of a cron entry run at once.
    #[must_use]
    pub fn of_cron(entry: &CronName) -> Self {
        Self(format!("{OF_CRON}{entry}").into())
    }

    /// The cron entry whose slot it is. No fleet file, job or node can name one.
    #[must_use]
    pub fn cron_entry(&self) -> Option<&str> {
        self.0.strip_prefix(OF_CRON)
    }

    /// As [`SlotName::parse`], or the slot of a kind or of a cron entry: what an operator may pause and change.
    ///
    /// # Errors
    /// If it breaks the rule for names.
    pub fn parse_any(text: &str) -> Result<Self, InvalidName> {
        if let Some(kind) = text.strip_prefix(OF_KIND) {
            return KindName::parse(kind).map(|kind| Self::of_kind(&kind));
        }
        match text.strip_prefix(OF_CRON) {
            Some(entry) => CronName::parse(entry).map(|entry| Self::of_cron(&entry)),
            None => Self::parse(text),
        }
    }
}

name_id!(
    /// The name of a node.
    NodeName
);
name_id!(
    /// Whose work a job is.
    Tenant
);
name_id!(
    /// Who enqueued a job.
    Producer
);

impl Producer {
    /// Who enqueues the jobs of a cron entry. Nobody else can have that name.
    #[must_use]
    pub fn of_cron(entry: &CronName) -> Self {
        Self(format!("{OF_CRON}{entry}").into())
    }

    /// The cron entry that it stands for.
    #[must_use]
    pub fn cron_entry(&self) -> Option<&str> {
        self.0.strip_prefix(OF_CRON)
    }
}

name_id!(
    /// What usage is counted in: tokens, pages, cents.
    CounterName
);
text_id!(
    /// What a job shares with others that may not all run at once: see [`Concurrency`](crate::Concurrency). 1 to 256 bytes.
    ConcurrencyKey
);
text_id!(
    /// The business identity of a job, unique per (tenant, kind) while held. At most 255 bytes, checked at the edge.
    DedupeKey
);

/// The leadership number. It rises with every takeover.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Epoch(pub u64);

impl fmt::Display for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// How many bits of a fencing token or sequence number count within its epoch.
const COUNT_BITS: u32 = 40;

/// One number per grant, unique and only growing: `epoch << 40 | n`. It is the identity of the lease. It fits a
/// signed 64-bit column for the first eight million epochs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct FencingToken(pub u64);

impl FencingToken {
    /// Never granted.
    pub const NONE: Self = Self(0);

    /// The `n`th grant of an epoch.
    #[must_use]
    pub fn mint(epoch: Epoch, n: u64) -> Self {
        Self(epoch.0 << COUNT_BITS | n)
    }

    /// The epoch in which it was granted.
    #[must_use]
    pub fn epoch(self) -> Epoch {
        Epoch(self.0 >> COUNT_BITS)
    }

    /// Which grant of its epoch it was.
    #[must_use]
    pub fn count(self) -> u64 {
        self.0 & ((1 << COUNT_BITS) - 1)
    }
}

impl fmt::Display for FencingToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.epoch().0, self.count())
    }
}

/// The order of enqueues, over all epochs: `epoch << 40 | n`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Sequence(pub u64);

impl Sequence {
    /// The `n`th enqueue of an epoch.
    #[must_use]
    pub fn mint(epoch: Epoch, n: u64) -> Self {
        Self(epoch.0 << COUNT_BITS | n)
    }
}

/// One live stream of one agent, numbered by the server since its start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct SessionId(pub u64);

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The place of one message among all that the scheduler sent on one session, from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Ordinal(pub u64);

/// What makes two enqueues under one `job_id` the same: a SHA-256 of kind, payload, content type and dedupe key.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fingerprint(pub [u8; 32]);

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, ..] = self.0;
        write!(f, "{a:02x}{b:02x}{c:02x}{d:02x}…")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_a_charset_and_a_length() {
        assert!(is_name("site.qa-2_x"));
        for bad in ["", "Site", "a b", "ä", "a/b", &"x".repeat(64)] {
            assert!(KindName::parse(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn tokens_grow_over_epochs() {
        let last = FencingToken::mint(Epoch(1), (1 << COUNT_BITS) - 1);
        let next = FencingToken::mint(Epoch(2), 1);
        assert!(last < next);
        assert_eq!((next.epoch(), next.count()), (Epoch(2), 1));
        assert_eq!(next.to_string(), "2.1");
    }
}
