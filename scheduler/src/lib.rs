//! The scheduler of Tenure: it decides everything and does nothing.
//!
//! [`State::apply`] takes a [`Command`] and the present as an argument, and gives [`Event`]s (what happened, already
//! applied) and [`Effect`]s (what the outside is to be told after the commit), or a [`Refusal`] that leaves no trace.
//! There is no I/O, no clock, no randomness and no hash-map order here: the same commands give the same events and
//! effects, byte for byte.
//!
//! A turn of the driver: apply every command of a batch, then [`Command::Tick`]; [`State::take_changes`] and commit
//! them with the bytes that travel beside; [`State::committed`]; release the effects. Anything that goes wrong with
//! the commit drops this state; [`State::load`] makes a new one from the rows.
//!
//! Reading order: `ids, time` → `rate, slots, node, selector, kind, cron, tenant, job, family, workflow, webhook, lease` → `command, event,
//! effect, refusal, deferral, rows, view` → `state` → `step` and `step/*` → `place` and `place/*` → `explain, health`,
//! `invariants`.

mod budget;
mod command;
mod cron;
mod deferral;
mod effect;
mod event;
mod explain;
mod family;
mod health;
mod ids;
mod invariants;
mod job;
mod kind;
mod lease;
mod node;
mod place;
mod rate;
mod refusal;
mod retry;
mod rows;
mod selector;
mod slots;
mod sorted;
mod state;
mod step;
mod tenant;
mod time;
mod view;
mod webhook;
mod workflow;

pub use budget::{Allowance, Budget, MOST_COUNTERS, MOST_USAGE, OnExhausted, Spent, Usage, Window};
pub use command::{
    BeginWait, Command, DueResult, Enqueue, Finish, FinishedHow, Heartbeat, Held, Hello, LeaseName, Prior,
    ProducerLimits, Report, RequeueMember, Return, Statement, Submit, Throttled,
};
pub use cron::{
    CronEntry, CronJob, CronPause, CronPlan, CronPolicy, Fired, INSTANT_LABEL, MOST_CAUGHT_UP, MissedFiring,
    MissedPolicy,
};
pub use deferral::Deferral;
pub use effect::{Effect, Grant, Message, Reply, ReportKind, Resume, Stored, Verdict};
pub use event::{AttemptEnd, Event};
pub use explain::Explaining;
pub use family::{
    Child, ChildEnd, ChildWait, Detach, Detached, OnParent, Parked, WaitAnswer, WaitPolicy, WaitVerdict,
};
pub use ids::{
    ConcurrencyKey, CounterName, CronName, DedupeKey, Epoch, FencingToken, Fingerprint, InvalidName, JobId,
    KindName, NodeName, Ordinal, Producer, Sequence, SessionId, SlotName, Tenant, WebhookName, WorkflowId,
    is_name,
};
pub use invariants::{
    NAMES as INVARIANTS, Violation,
    slices::{Checked, Checking},
};
pub use job::{Attempt, Job, JobState, MAX_WAITS, Outcome, ScheduledCause, TraceContext, Wait};
pub use kind::{Concurrency, DedupePolicy, Fleet, Kind, KindPolicy, PausePolicy, Placement, RetryPolicy};
pub use lease::{
    ANSWER_WITHIN, FIRST_LEASE, Lease, Phase, Progress, RevokeReason, SHORTEST_LEASE, Stage, expiry,
    first_lease, start_window,
};
pub use node::{Capacity, ClosedGroup, Group, Host, Node, Pressure};
pub use place::{
    ClassId,
    earmarks::{Dropped, Earmark, Holder as EarmarkHolder, Rank as EarmarkRank},
};
pub use rate::RateLimit;
pub use refusal::{ImpossibleNeed, LostCause, Refusal, bounded_text};
pub use rows::{Changes, CheckpointPut, ClassEntry, ClassRow, Durable, JobChange, JobRows, ResultPut};
pub use selector::{Condition, Preferences, Requirement, Selector};
pub use slots::{Count, Ledger, Needs, Pause, Reservation, Scope, Shortage, Slot};
pub use state::{Limits, State, breaker::Fallen};
pub use step::Applied;
pub use tenant::{MOST_WEIGHT, TenantPolicy};
pub use time::{Mono, Now, Wall, micros};
pub use view::{
    BackoffView, Bracket, DeferralView, EarmarkView, Explanation, KindHealth, LineAhead, LiveView,
    NodeExplanation, NodeGroup, NodeState, NodeView, QueueSignal, SlotExplanation, SlotHolder, SlotTotal,
    SlotView, Snapshot, TenantView, WaitView,
};
pub use webhook::{
    About, Delivery, DeliveryFailure, DeliveryId, DeliveryState, DueDelivery, Ending, FAILED_KEPT,
    MOST_FAILED, MOST_TOLD_AT_ONCE, MOST_TRIES, MOST_WAITING, MOST_WEBHOOKS, NewDelivery, Subject, TRIED_FOR,
    Tried, Webhook, WebhookPolicy, WebhookView, Webhooks,
};
pub use workflow::{
    Chord, Gate, InvalidShape, MOST_MEMBERS, MOST_NESTING, MemberOf, OnDeadline, Opened, Opening, Part,
    Place, Rule, Shape, SynthesisPolicy, Workflow, WorkflowState,
};
