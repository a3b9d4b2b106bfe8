//! Webhooks: who is told when a job or a workflow ends, and what waits to be told.
//!
//! Responsible for which ends a webhook wants, and for when a delivery that failed is tried again or given up. Not for
//! sending, signing or the words of what is sent: the server does that, after the commit. Invariant: a delivery is stored
//! in the commit that makes its subject final, under an id that stays the same however often it is tried.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::Arc,
    time::Duration,
};

use uuid::Uuid;

use crate::{
    ids::{Epoch, JobId, KindName, WebhookName, WorkflowId},
    job::{Job, JobState},
    kind::RetryPolicy,
    retry,
    time::Wall,
    workflow::{Workflow, WorkflowState},
};

/// Webhooks that a fleet file may declare.
pub const MOST_WEBHOOKS: usize = 64;

/// Deliveries of one webhook that wait. What ends beyond that is not told to it, and counted.
pub const MOST_WAITING: usize = 10_000;

/// New deliveries of one command, to all webhooks together. What else ends by it is not told, and counted. A parent may
/// have as many descendants as this, which end with it: to one webhook all of that is told.
pub const MOST_TOLD_AT_ONCE: usize = 10_000;

/// Deliveries of one webhook that failed for good and are kept to be looked at. The oldest go first.
pub const MOST_FAILED: usize = 1000;

/// How often a delivery is tried.
pub const MOST_TRIES: u32 = 100;

/// For how long a delivery is tried.
pub const TRIED_FOR: Duration = Duration::from_secs(3 * 86_400);

/// For how long a delivery that failed for good is kept.
pub const FAILED_KEPT: Duration = Duration::from_secs(7 * 86_400);

/// The longest that a receiver may put off the next try.
const LONGEST_RETRY_AFTER: Duration = Duration::from_secs(3600);

/// How tries are spaced: 1 s, 2 s, 4 s …, at most an hour, each up to a fifth shorter or longer.
const RETRY: RetryPolicy = RetryPolicy::Exponential {
    initial: Duration::from_secs(1),
    factor_permille: 2000,
    max: Duration::from_secs(3600),
    jitter_permille: 200,
};

/// No wait between two tries is longer: an hour and a fifth.
pub(crate) const LONGEST_WAIT: Duration = Duration::from_secs(3600 + 3600 / 5);

const COUNT_BITS: u32 = 40;

/// The identity of a delivery: `epoch << 40 | n`, the `n`th of that epoch. It stays the same over all tries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct DeliveryId(pub u64);

impl DeliveryId {
    /// The `n`th delivery of an epoch.
    #[must_use]
    pub fn mint(epoch: Epoch, n: u64) -> Self {
        Self(epoch.0 << COUNT_BITS | n)
    }
}

impl fmt::Display for DeliveryId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.0 >> COUNT_BITS, self.0 & ((1 << COUNT_BITS) - 1))
    }
}

/// How something ended, as a webhook may want to hear of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Ending {
    /// It succeeded.
    Succeeded,
    /// It failed for good.
    Dead,
    /// Somebody cancelled it.
    Cancelled,
    /// It was too old to be started. Jobs only.
    Expired,
}

impl Ending {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Succeeded, Self::Dead, Self::Cancelled, Self::Expired];

    /// The word for it: that of the state.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Succeeded => "succeeded",
            Self::Dead => "dead",
            Self::Cancelled => "cancelled",
            Self::Expired => "expired",
        }
    }

    /// By its word.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|ending| ending.name() == text)
    }

    /// That of a job; none: it is live.
    #[must_use]
    pub fn of_job(state: &JobState) -> Option<Self> {
        match state {
            JobState::Succeeded { .. } => Some(Self::Succeeded),
            JobState::Dead { .. } => Some(Self::Dead),
            JobState::Cancelled { .. } => Some(Self::Cancelled),
            JobState::Expired { .. } => Some(Self::Expired),
            JobState::Scheduled { .. }
            | JobState::Blocked { .. }
            | JobState::Queued { .. }
            | JobState::Running
            | JobState::Waiting { .. } => None,
        }
    }

    /// That of a workflow; none: it is live.
    #[must_use]
    pub fn of_workflow(state: WorkflowState) -> Option<Self> {
        match state {
            WorkflowState::Running => None,
            WorkflowState::Succeeded { .. } => Some(Self::Succeeded),
            WorkflowState::Dead { .. } => Some(Self::Dead),
            WorkflowState::Cancelled { .. } => Some(Self::Cancelled),
        }
    }
}

/// What the fleet file says of a webhook.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WebhookPolicy {
    /// Where to: `https` only, without user and password. At most 2,048 bytes.
    pub url: Arc<str>,
    /// The name under which the server's own file has the secret. The secret itself is never here.
    pub secret: Arc<str>,
    /// The ends that it wants. Not empty.
    pub events: BTreeSet<Ending>,
    /// The kinds whose jobs it wants to hear of; none: of all.
    pub kinds: Option<BTreeSet<KindName>>,
    /// It wants to hear of workflows, too.
    pub workflows: bool,
}

impl WebhookPolicy {
    fn wants_job(&self, job: &Job, ending: Ending) -> bool {
        self.events.contains(&ending) && self.kinds.as_ref().is_none_or(|kinds| kinds.contains(&job.kind))
    }

    fn wants_workflow(&self, ending: Ending) -> bool {
        self.workflows && self.events.contains(&ending)
    }
}

/// A declared webhook.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Webhook {
    /// Its name.
    pub name: WebhookName,
    /// As in the fleet file.
    pub policy: WebhookPolicy,
    /// Since when its receiver says that it is gone (410): nothing is sent until an operator resumes it, or the fleet file
    /// says something else of it.
    pub gone: Option<Wall>,
}

/// What a delivery is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum About {
    /// A job ended.
    Job(JobId, Ending),
    /// A workflow ended.
    Workflow(WorkflowId, Ending),
    /// Nothing: an operator wants to see whether it arrives.
    Test,
}

impl About {
    /// The type of the event: `job.succeeded`, `workflow.dead`, `webhook.test`.
    #[must_use]
    pub fn event(self) -> String {
        match self {
            Self::Job(_, ending) => format!("job.{}", ending.name()),
            Self::Workflow(_, ending) => format!("workflow.{}", ending.name()),
            Self::Test => "webhook.test".to_owned(),
        }
    }

    /// The id of the job or workflow.
    #[must_use]
    pub fn subject(self) -> Option<Uuid> {
        match self {
            Self::Job(job, _) => Some(job.0),
            Self::Workflow(workflow, _) => Some(workflow.0),
            Self::Test => None,
        }
    }

    /// The inverse of the two above; none: it makes no sense.
    #[must_use]
    pub fn parse(event: &str, subject: Option<Uuid>) -> Option<Self> {
        match (event.split_once('.')?, subject) {
            (("job", ending), Some(id)) => Some(Self::Job(JobId(id), Ending::parse(ending)?)),
            (("workflow", ending), Some(id)) => Some(Self::Workflow(WorkflowId(id), Ending::parse(ending)?)),
            (("webhook", "test"), None) => Some(Self::Test),
            _ => None,
        }
    }
}

/// How a delivery stands. One that arrived has no row any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeliveryState {
    /// It is sent, or tried again, from then on.
    Waiting {
        /// Not before.
        next: Wall,
    },
    /// It is not tried any more, unless an operator wants that.
    Failed {
        /// Since when.
        at: Wall,
    },
}

/// A row of the outbox, without the body, which travels beside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delivery {
    /// Its identity.
    pub id: DeliveryId,
    /// To whom.
    pub webhook: WebhookName,
    /// About what.
    pub about: About,
    /// When it was made: with the commit that made its subject final.
    pub created_at: Wall,
    /// From then on it is tried, for [`TRIED_FOR`]: its making, or an operator's wish.
    pub since: Wall,
    /// How often it was tried since then.
    pub tries: u32,
    /// How it stands.
    pub state: DeliveryState,
    /// Why the last try failed, for people. At most 256 bytes; nothing that the receiver said is in it but its status.
    pub error: Option<Arc<str>>,
}

impl Delivery {
    pub(crate) fn new(id: DeliveryId, webhook: WebhookName, about: About, now: Wall) -> Self {
        let state = DeliveryState::Waiting { next: now };
        Self { id, webhook, about, created_at: now, since: now, tries: 0, state, error: None }
    }

    /// After a try that failed.
    #[must_use]
    pub(crate) fn after_failure(&self, failure: &DeliveryFailure, now: Wall) -> Self {
        let tries = self.tries.saturating_add(1);
        let over = tries >= MOST_TRIES || now.since(self.since) >= TRIED_FOR;
        let state = if over {
            DeliveryState::Failed { at: now }
        } else {
            let wait = retry::backoff(&RETRY, JobId(Uuid::from_u128(u128::from(self.id.0))), tries);
            let asked = failure.retry_after.unwrap_or_default().min(LONGEST_RETRY_AFTER);
            DeliveryState::Waiting { next: now.after(wait.max(asked)) }
        };
        Self { tries, state, error: Some(failure.error.clone()), ..self.clone() }
    }

    /// Given up without another try.
    #[must_use]
    pub(crate) fn given_up(&self, now: Wall) -> Self {
        Self { state: DeliveryState::Failed { at: now }, ..self.clone() }
    }

    /// As if it were new, since an operator wants that.
    #[must_use]
    pub(crate) fn again(&self, now: Wall) -> Self {
        Self { since: now, tries: 0, state: DeliveryState::Waiting { next: now }, ..self.clone() }
    }
}

/// A new delivery with what it tells: the body is made of that as it stands in this commit.
#[derive(Debug, Clone, PartialEq)]
pub struct NewDelivery {
    /// The row.
    pub delivery: Delivery,
    /// What it tells.
    pub subject: Subject,
}

/// What a new delivery tells.
#[derive(Debug, Clone, PartialEq)]
pub enum Subject {
    /// Of a job that ended. One for all webhooks that are told of it.
    Job(Arc<Job>),
    /// Of a workflow that ended. As well.
    Workflow(Arc<Workflow>),
    /// Nothing.
    Test,
}

/// Why a try failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeliveryFailure {
    /// For people.
    pub error: Arc<str>,
    /// The receiver asks for this long a wait. More than an hour counts as one.
    pub retry_after: Option<Duration>,
    /// The receiver says that it is gone: nothing more is sent to it.
    pub gone: bool,
}

/// What became of a try. None of the failure: it arrived.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tried {
    /// Of which delivery.
    pub delivery: DeliveryId,
    /// How it failed.
    pub failure: Option<DeliveryFailure>,
}

/// A delivery that is due, with where it goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DueDelivery {
    /// Which.
    pub delivery: Delivery,
    /// Where to.
    pub url: Arc<str>,
    /// The name of the secret.
    pub secret: Arc<str>,
}

/// A webhook with its figures.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WebhookView {
    /// As stored.
    pub webhook: Webhook,
    /// Deliveries that wait.
    pub waiting: u64,
    /// Since when the oldest of them waits.
    pub oldest: Option<Wall>,
    /// Deliveries that failed for good and are kept.
    pub failed: u64,
    /// When the newest of those failed.
    pub failed_at: Option<Wall>,
    /// Ends that were not told to it since this leader began, since too much waited or ended at once.
    pub dropped: u64,
    /// When the newest of those was not told.
    pub dropped_at: Option<Wall>,
}

/// What a fleet file declares: by name.
pub type Webhooks = BTreeMap<WebhookName, WebhookPolicy>;

/// Which webhooks want to hear of it.
pub(crate) fn wanted<'a>(
    webhooks: impl Iterator<Item = &'a Webhook>,
    subject: &Subject,
) -> Vec<(WebhookName, About)> {
    let about = match subject {
        Subject::Job(job) => Ending::of_job(&job.state).map(|ending| About::Job(job.id, ending)),
        Subject::Workflow(workflow) => {
            Ending::of_workflow(workflow.state).map(|ending| About::Workflow(workflow.id, ending))
        }
        Subject::Test => None,
    };
    let Some(about) = about else { return Vec::new() };
    let wants = |webhook: &&Webhook| match (about, subject) {
        (About::Job(_, ending), Subject::Job(job)) => webhook.policy.wants_job(job, ending),
        (About::Workflow(_, ending), _) => webhook.policy.wants_workflow(ending),
        (About::Job(..) | About::Test, _) => false,
    };
    webhooks.filter(wants).map(|webhook| (webhook.name.clone(), about)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn delivery() -> Delivery {
        let id = DeliveryId::mint(Epoch(3), 7);
        Delivery::new(id, WebhookName::new("ci"), About::Test, Wall(0))
    }

    fn failure(retry_after: Option<Duration>) -> DeliveryFailure {
        DeliveryFailure { error: "status 500".into(), retry_after, gone: false }
    }

    fn next(delivery: &Delivery) -> Option<Wall> {
        match delivery.state {
            DeliveryState::Waiting { next } => Some(next),
            DeliveryState::Failed { .. } => None,
        }
    }

    #[test]
    fn tries_are_spaced_ever_further_up_to_an_hour_and_end() {
        let (mut now, mut at) = (Wall(0), delivery());
        let mut waits = Vec::new();
        while next(&at).is_some() {
            at = at.after_failure(&failure(None), now);
            let Some(then) = next(&at) else { break };
            waits.push(then.since(now).as_secs_f64());
            now = then;
        }
        for (wait, want) in waits.iter().zip([1.0, 2.0, 4.0, 8.0, 16.0]) {
            assert!((want * 0.8..=want * 1.2).contains(wait), "{wait} s instead of about {want} s");
        }
        assert!(waits.iter().all(|wait| *wait <= 3600.0 * 1.2));
        assert!(now.since(Wall(0)) >= Duration::from_secs(2 * 86_400), "it is tried for days");
        assert!(now.since(Wall(0)) <= TRIED_FOR + Duration::from_secs(2 * 3600));
        assert!(waits.windows(2).any(|pair| pair[0] != pair[1]), "jitter");
        assert_eq!(next(&at.again(now)), Some(now), "an operator may want it again");
    }

    #[test]
    fn a_receiver_may_put_a_try_off_but_not_for_longer_than_an_hour() {
        let asked = |seconds| delivery().after_failure(&failure(Some(Duration::from_secs(seconds))), Wall(0));
        assert_eq!(next(&asked(90)), Some(Wall(90_000_000)));
        assert_eq!(next(&asked(1_000_000)), Some(Wall(3_600_000_000)));
    }

    #[test]
    fn an_event_and_its_subject_are_read_back_as_they_were_written() {
        let id = Uuid::from_u128(5);
        let ends = Ending::ALL.into_iter();
        let all = ends.flat_map(|e| [About::Job(JobId(id), e), About::Workflow(WorkflowId(id), e)]);
        for about in all.chain([About::Test]) {
            assert_eq!(About::parse(&about.event(), about.subject()), Some(about));
        }
        for (event, subject) in [("job.running", Some(id)), ("job.dead", None), ("webhook.test", Some(id))] {
            assert_eq!(About::parse(event, subject), None);
        }
    }
}
