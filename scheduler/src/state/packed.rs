//! A job that waits, in few bytes: what it has in common with others is held once, what few jobs have is held apart.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use super::{JobEntry, Stand};
use crate::{
    family::{Detached, OnParent},
    ids::{
        ConcurrencyKey, DedupeKey, FencingToken, Fingerprint, JobId, KindName, NodeName, Producer, Sequence,
        Tenant,
    },
    job::{Job, JobState, Outcome, TraceContext, Wait},
    place::{ClassId, timeline::Joined},
    selector::{Preferences, Selector},
    slots::Needs,
    time::{Now, Wall},
    workflow::MemberOf,
};

/// When so many are held in common, those that no job has any more are let go.
const SWEPT_AT: usize = 1024;

/// See the module. The id is the key under which it is held.
#[derive(Debug, Clone)]
pub(super) struct Packed {
    common: Arc<Common>,
    /// None: as of a job that was enqueued, is queued in its class since then, and nothing else.
    rest: Option<Box<Rest>>,
    /// Shared, since many jobs may wait for one key.
    concurrency_key: Option<Arc<ConcurrencyKey>>,
    sequence: Sequence,
    fingerprint: Fingerprint,
    since: Now,
    /// Of a class, where in its timeline it joined, and the size of a payload: what is larger has a rest.
    class: u32,
    joined: (u32, u32),
    payload_size: u32,
    priority: i8,
}

/// What many jobs have in common.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Common {
    tenant: Tenant,
    producer: Producer,
    kind: KindName,
    needs: Option<Needs>,
    selector: Selector,
    prefer: Preferences,
    labels: BTreeMap<String, String>,
    hard_time_limit: Option<Duration>,
    soft_time_limit: Option<Duration>,
    on_parent_cancel: OnParent,
    on_parent_lost: OnParent,
}

/// What packed jobs share.
#[derive(Debug, Clone, Default)]
pub(super) struct Shared {
    common: Each<Common>,
    keys: Each<ConcurrencyKey>,
}

/// Each value once.
#[derive(Debug, Clone)]
struct Each<T> {
    all: BTreeSet<Arc<T>>,
    /// How many there were after the last sweep.
    swept: usize,
}

/// What few jobs have, or had.
#[derive(Debug, Clone, PartialEq)]
struct Rest {
    state: JobState,
    version: u64,
    dedupe_key: Option<DedupeKey>,
    dedupe_held: bool,
    parent: Option<JobId>,
    root: JobId,
    depth: u8,
    children: u32,
    trace: Option<Arc<TraceContext>>,
    payload_size: u64,
    round: u32,
    counters: [u32; 4],
    token: FencingToken,
    last_outcome: Option<Outcome>,
    last_node: Option<NodeName>,
    granted_at: Option<Wall>,
    started_at: Option<Wall>,
    cancel_requested: bool,
    created_at: Wall,
    stale_at: Option<Wall>,
    reason: Option<Arc<str>>,
    waits: Vec<Wait>,
    detached: Option<Box<Detached>>,
    workflow: Option<MemberOf>,
    stand: Stand,
    joined: Joined,
}

impl<T> Default for Each<T> {
    fn default() -> Self {
        Self { all: BTreeSet::new(), swept: 0 }
    }
}

impl<T: Ord> Each<T> {
    fn get(&mut self, value: T) -> Arc<T> {
        if let Some(known) = self.all.get(&value) {
            return known.clone();
        }
        if self.all.len() >= SWEPT_AT.max(2 * self.swept) {
            self.all.retain(|known| Arc::strong_count(known) > 1);
            self.swept = self.all.len();
        }
        let value = Arc::new(value);
        self.all.insert(value.clone());
        value
    }
}

impl Rest {
    /// That of a plain job, of which nothing but its place, its size and its times is known.
    fn plain(id: JobId, since: Now, class: u32, joined: (u32, u32), payload_size: u32) -> Self {
        Self {
            state: JobState::Queued { since: since.wall },
            version: 1,
            dedupe_key: None,
            dedupe_held: false,
            parent: None,
            root: id,
            depth: 0,
            children: 0,
            trace: None,
            payload_size: payload_size.into(),
            round: 1,
            counters: [0; 4],
            token: FencingToken::NONE,
            last_outcome: None,
            last_node: None,
            granted_at: None,
            started_at: None,
            cancel_requested: false,
            created_at: since.wall,
            stale_at: None,
            reason: None,
            waits: Vec::new(),
            detached: None,
            workflow: None,
            stand: Stand::Class(ClassId(class.into())),
            joined: Joined { number: joined.0.into(), tries: joined.1.into(), at: since },
        }
    }
}

impl Packed {
    /// When it came to wait where it waits.
    pub(super) fn since(&self) -> Now {
        self.since
    }

    pub(super) fn new(entry: JobEntry, shared: &mut Shared) -> Self {
        // Every field is named: a new one does not compile before it is packed.
        let JobEntry { job, stand, joined, since } = entry;
        let Job {
            id,
            sequence,
            tenant,
            producer,
            kind,
            state,
            version,
            priority,
            needs,
            selector,
            prefer,
            labels,
            dedupe_key,
            dedupe_held,
            fingerprint,
            hard_time_limit,
            soft_time_limit,
            parent,
            on_parent_cancel,
            on_parent_lost,
            root,
            depth,
            children,
            trace,
            payload_size,
            round,
            failures,
            losses,
            returns,
            returns_in_row,
            token,
            last_outcome,
            left_result: _, // none of a job that waits
            last_node,
            granted_at,
            started_at,
            cancel_requested,
            created_at,
            stale_at,
            reason,
            waits,
            detached,
            concurrency_key,
            workflow,
        } = job;
        let small = |number: u64| u32::try_from(number).unwrap_or(u32::MAX);
        let class = match stand {
            Stand::Class(ClassId(class)) => small(class),
            Stand::NotReaped | Stand::Broken | Stand::Nowhere => 0,
        };
        let places = (small(joined.number), small(joined.tries));
        let size = small(payload_size);
        let rest = Rest {
            state,
            version,
            dedupe_key,
            dedupe_held,
            parent,
            root,
            depth,
            children,
            trace,
            payload_size,
            round,
            counters: [failures, losses, returns, returns_in_row],
            token,
            last_outcome,
            last_node,
            granted_at,
            started_at,
            cancel_requested,
            created_at,
            stale_at,
            reason,
            waits,
            detached,
            workflow,
            stand,
            joined,
        };
        let is_plain = rest == Rest::plain(id, since, class, places, size);
        let common = Common {
            tenant,
            producer,
            kind,
            needs,
            selector,
            prefer,
            labels,
            hard_time_limit,
            soft_time_limit,
            on_parent_cancel,
            on_parent_lost,
        };
        Self {
            common: shared.common.get(common),
            rest: (!is_plain).then(|| Box::new(rest)),
            concurrency_key: concurrency_key.map(|key| shared.keys.get(key)),
            sequence,
            fingerprint,
            since,
            class,
            joined: places,
            payload_size: size,
            priority,
        }
    }

    pub(super) fn unpack(&self, id: JobId) -> JobEntry {
        let Common {
            tenant,
            producer,
            kind,
            needs,
            selector,
            prefer,
            labels,
            hard_time_limit,
            soft_time_limit,
            on_parent_cancel,
            on_parent_lost,
        } = (*self.common).clone();
        let plain = || Rest::plain(id, self.since, self.class, self.joined, self.payload_size);
        let rest = self.rest.as_deref().cloned().unwrap_or_else(plain);
        let [failures, losses, returns, returns_in_row] = rest.counters;
        let job = Job {
            id,
            sequence: self.sequence,
            tenant,
            producer,
            kind,
            state: rest.state,
            version: rest.version,
            priority: self.priority,
            needs,
            selector,
            prefer,
            labels,
            dedupe_key: rest.dedupe_key,
            dedupe_held: rest.dedupe_held,
            fingerprint: self.fingerprint,
            hard_time_limit,
            soft_time_limit,
            parent: rest.parent,
            on_parent_cancel,
            on_parent_lost,
            root: rest.root,
            depth: rest.depth,
            children: rest.children,
            trace: rest.trace,
            payload_size: rest.payload_size,
            round: rest.round,
            failures,
            losses,
            returns,
            returns_in_row,
            token: rest.token,
            last_outcome: rest.last_outcome,
            left_result: None, // of a job that waits
            last_node: rest.last_node,
            granted_at: rest.granted_at,
            started_at: rest.started_at,
            cancel_requested: rest.cancel_requested,
            created_at: rest.created_at,
            stale_at: rest.stale_at,
            reason: rest.reason,
            waits: rest.waits,
            detached: rest.detached,
            workflow: rest.workflow,
            concurrency_key: self.concurrency_key.as_deref().cloned(),
        };
        JobEntry { job, stand: rest.stand, joined: rest.joined, since: self.since }
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;
    use crate::{
        command::{Command, Enqueue},
        ids::Epoch,
        kind::{Concurrency, Fleet, KindPolicy},
        rows::Durable,
        state::{Limits, State},
        time::Mono,
    };

    /// What a leader makes of such a job.
    fn entry(key: Option<&str>, priority: Option<i8>, delay: Option<Duration>) -> (JobId, JobEntry) {
        let now = Now { mono: Mono(1), wall: Wall(1_790_769_600_000_000) };
        let mut state = State::load(Epoch(1), Limits::default(), Durable::default(), now);
        let (id, kind) = (JobId(Uuid::from_u128(7)), KindName::new("chat"));
        let concurrency = Some(Concurrency { key: "account".into(), limit: 1 });
        let policy = KindPolicy { concurrency, ..KindPolicy::default() };
        let fleet = Fleet { kinds: [(kind.clone(), policy)].into(), ..Fleet::default() };
        state.apply(now, Command::Apply { fleet: Box::new(fleet), validate_only: false }).unwrap();
        let enqueue = Enqueue {
            concurrency_key: key.map(ConcurrencyKey::new),
            priority,
            delay,
            ..Enqueue::new(id, kind, Tenant::new("default"))
        };
        state.apply(now, Command::Enqueue(Box::new(enqueue))).unwrap();
        let entry = state.jobs.get(&id).unwrap().clone();
        (id, entry)
    }

    #[test]
    fn a_queued_job_is_small_and_the_same_again_with_a_key_of_its_kind_too() {
        let mut shared = Shared::default();
        for key in [None, Some("a"), Some("b")] {
            let (id, entry) = entry(key, Some(9), None);
            let packed = Packed::new(entry.clone(), &mut shared);
            assert!(packed.rest.is_none(), "{key:?}");
            let again = packed.unpack(id);
            assert_eq!((&again.job, again.stand, again.since), (&entry.job, entry.stand, entry.since));
            assert_eq!(again.job.concurrency_key.as_ref().map(ConcurrencyKey::as_str), key);
        }
        assert!(size_of::<Packed>() <= 104, "{} bytes", size_of::<Packed>());
    }

    #[test]
    fn what_jobs_share_is_held_once_and_let_go() {
        let mut shared = Shared::default();
        let one = |shared: &mut Shared, key: &str| Packed::new(entry(Some(key), None, None).1, shared);
        let kept: Vec<Packed> = (0..3).map(|_| one(&mut shared, "same")).collect();
        assert_eq!((shared.keys.all.len(), shared.common.all.len()), (1, 1));
        (0..2 * SWEPT_AT).for_each(|n| drop(one(&mut shared, &n.to_string())));
        assert!(shared.keys.all.len() <= SWEPT_AT, "{} keys", shared.keys.all.len());
        assert!(shared.keys.all.contains(&ConcurrencyKey::new("same")) && kept.len() == 3);
    }

    #[test]
    fn what_else_a_job_has_is_kept_beside_it() {
        let (id, entry) = entry(Some("a"), None, Some(Duration::from_secs(9)));
        let packed = Packed::new(entry.clone(), &mut Shared::default());
        assert!(packed.rest.is_some());
        assert_eq!(packed.unpack(id).job, entry.job);
    }
}
