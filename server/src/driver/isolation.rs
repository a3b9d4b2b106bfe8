//! Poison: a command, timer or placement whose commit a constraint refuses. It is a bug of ours, and the same input
//! would meet it again after the reload, and again.
//!
//! Responsible for finding what it was and keeping it from coming back, so that nothing can keep a leader reloading:
//! - For a while after such a reload the driver takes one command at a time. What fails alone is poison: a caller is
//!   answered, a report is remembered and answered BROKEN when its node repeats it, a Hello is refused for a while.
//! - Timers and placements of a Tick that failed alone are told apart by halves: the jobs and cron entries that
//!   the Tick was about are suspects; all but half of them are set aside in the reloaded state; if that fails again, the
//!   half holds the culprit, else the rest does. One is set aside for good only if a Tick about it alone has failed.
//!
//! Pure: time comes as an argument. Invariant: what is remembered is bounded.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use tenure_scheduler::{Command, CronName, Event, FencingToken, JobId, NodeName, ReportKind};

/// How long one command is taken at a time. Nodes reconnect within 5 s, and bring their reports again.
const CAREFUL: Duration = Duration::from_secs(10);

/// How long half of the suspects must behave to be cleared: nodes must be back for placements to recur.
const TRIAL: Duration = Duration::from_secs(10);

/// How long the Hello of a node is refused.
const QUARANTINE: Duration = Duration::from_secs(60);

/// Reports, nodes and suspects remembered, each. The lowest leave first.
const MOST: usize = 1024;

/// Reloads by poison closer together than this wait longer and longer.
const CALM: Duration = Duration::from_secs(60);

/// What a turn consisted of that failed.
#[derive(Debug)]
pub(super) enum Tried {
    /// More than one command: nobody knows which it was.
    Many,
    /// One report.
    Report(FencingToken, ReportKind),
    /// One Hello.
    Hello(NodeName),
    /// One other command; its caller or session has been told.
    Command,
    /// Timers and placements, about these.
    Tick(Vec<Suspect>),
}

/// What a Tick was about, and what can be set aside.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Suspect {
    /// A stored job.
    Job(JobId),
    /// A cron entry. The job of a firing that failed is none: it was never stored, and the next try has another one.
    Cron(CronName),
}

impl Suspect {
    /// What leaves it alone until an operator looks.
    pub(super) fn set_aside(self) -> Command {
        match self {
            Self::Job(job) => Command::SetAside { job },
            Self::Cron(entry) => Command::SetAsideCron { entry },
        }
    }

    /// Whom an operator's command takes care of, once it is stored.
    pub(super) fn freed_by(command: &Command) -> Option<Self> {
        if let Command::Requeue { job, .. } | Command::Delete { job, validate_only: false, .. } = command {
            Some(Self::Job(*job))
        } else if let Command::ResumeCron { entry } = command {
            Some(Self::Cron(entry.clone()))
        } else {
            None
        }
    }
}

/// What is known of poison.
#[derive(Debug, Default)]
pub(super) struct Isolation {
    /// One command at a time until then, by the steady clock.
    careful_until: Option<Duration>,
    reports: BTreeMap<FencingToken, Vec<ReportKind>>,
    nodes: BTreeMap<NodeName, Duration>,
    aside: BTreeSet<Suspect>,
    trial: Option<Trial>,
    /// Reloads by poison with no calm between, and the last of them.
    row: u32,
    last: Option<Duration>,
}

/// Suspects under trial.
#[derive(Debug)]
struct Trial {
    /// How many suspects may be timed and placed.
    tried: usize,
    /// Suspects that are set aside meanwhile.
    rest: Vec<Suspect>,
    /// No suspects any more, and set aside until the hunt is over.
    parked: Vec<Suspect>,
    /// When the tried ones are cleared.
    until: Duration,
}

/// What a trial that is over asks for.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum TrialEnd {
    /// Nothing: it goes on, or there is none.
    None,
    /// A reload, so that those who were set aside meanwhile are free again, or tried in turn.
    Reload,
}

impl Isolation {
    /// Whether one command is to be taken at a time.
    pub(super) fn is_careful(&self, steady: Duration) -> bool {
        self.trial.is_some() || self.careful_until.is_some_and(|until| steady < until)
    }

    /// A turn failed by a fault of ours. The answer is how long to wait before the reload.
    pub(super) fn failed(&mut self, steady: Duration, tried: Tried) -> Duration {
        self.careful_until = Some(steady + CAREFUL);
        match tried {
            Tried::Many | Tried::Command => {}
            Tried::Report(token, kind) => {
                self.reports.entry(token).or_default().push(kind);
                while self.reports.len() > MOST {
                    self.reports.pop_first();
                }
            }
            Tried::Hello(node) => {
                self.nodes.insert(node, steady + QUARANTINE);
                while self.nodes.len() > MOST {
                    self.nodes.pop_first();
                }
            }
            Tried::Tick(about) => self.tick_failed(steady, about),
        }
        self.row = match self.last {
            Some(last) if steady < last + CALM => self.row.saturating_add(1),
            Some(_) | None => 0,
        };
        self.last = Some(steady);
        if self.row == 0 { Duration::ZERO } else { Duration::from_millis(50 << self.row.min(7)) }
    }

    /// Everything that the Tick was about is suspect. During a trial that is the tried half, the rest being set aside;
    /// the rest is no longer suspect then, but stays aside until the hunt is over, so as not to muddle it.
    fn tick_failed(&mut self, steady: Duration, mut about: Vec<Suspect>) {
        about.sort_unstable();
        about.dedup();
        let parked = self.trial.take().map_or_else(Vec::new, |trial| [trial.parked, trial.rest].concat());
        if let [only] = &about[..] {
            self.aside.insert(only.clone());
            while self.aside.len() > MOST {
                self.aside.pop_first();
            }
        } else {
            // About nobody: nothing can be set aside; the waits before reloads grow.
            self.begin(steady, about, parked);
        }
    }

    fn begin(&mut self, steady: Duration, mut suspects: Vec<Suspect>, parked: Vec<Suspect>) {
        if suspects.is_empty() {
            return;
        }
        let rest = suspects.split_off(suspects.len().div_ceil(2));
        self.trial = Some(Trial { tried: suspects.len(), rest, parked, until: steady + TRIAL });
    }

    /// Looks whether the trial is over: the tried ones behaved. The rest is suspect then.
    pub(super) fn judge(&mut self, steady: Duration) -> TrialEnd {
        let Some(trial) = self.trial.take_if(|trial| trial.until <= steady) else { return TrialEnd::None };
        tracing::info!(cleared = trial.tried, suspects = trial.rest.len(), "timers and placements behaved");
        if trial.rest.is_empty() && trial.parked.is_empty() {
            return TrialEnd::None;
        }
        self.begin(steady, trial.rest, trial.parked);
        TrialEnd::Reload
    }

    /// Who is to be set aside in a state that was just loaded.
    pub(super) fn set_aside(&mut self, steady: Duration) -> Vec<Suspect> {
        if let Some(trial) = &mut self.trial {
            trial.until = steady + TRIAL;
        }
        let suspects = self.trial.iter().flat_map(|trial| trial.rest.iter().chain(&trial.parked));
        self.aside.iter().chain(suspects).cloned().collect()
    }

    /// An operator took care of it.
    pub(super) fn release(&mut self, suspect: &Suspect) {
        self.aside.remove(suspect);
    }

    /// Whether this report failed alone before.
    pub(super) fn is_broken(&self, token: FencingToken, kind: ReportKind) -> bool {
        self.reports.get(&token).is_some_and(|kinds| kinds.contains(&kind))
    }

    /// Whether the Hello of this node failed alone a short while ago.
    pub(super) fn is_quarantined(&mut self, steady: Duration, node: &NodeName) -> bool {
        self.nodes.retain(|_, until| steady < *until);
        self.nodes.contains_key(node)
    }
}

/// What durable events are about: the suspects of a Tick that failed. For a job that a cron entry has enqueued among them,
/// and that the Tick may have placed at once, the entry stands.
pub(super) fn suspects_of(events: &[Event]) -> Vec<Suspect> {
    let fired = |event: &Event| {
        if let Event::CronFired { entry, job, .. } = event { Some((*job, entry.clone())) } else { None }
    };
    let fired: BTreeMap<JobId, CronName> = events.iter().filter_map(fired).collect();
    let suspect = |event: &Event| {
        if let Event::CronMissed { entry, .. } = event {
            return Some(Suspect::Cron(entry.clone()));
        }
        let job = job_of(event)?;
        Some(fired.get(&job).map_or(Suspect::Job(job), |entry| Suspect::Cron(entry.clone())))
    };
    events.iter().filter_map(suspect).collect()
}

fn job_of(event: &Event) -> Option<JobId> {
    match event {
        Event::Enqueued(job) | Event::Requeued(job) => Some(job.id),
        Event::Granted { lease, .. } => Some(lease.job),
        Event::AttemptEnded(end) | Event::LossReplaced(end) => Some(end.job),
        Event::Ready(job)
        | Event::Unblocked(job)
        | Event::WaitOver(job)
        | Event::Parked { job, .. }
        | Event::Unparked { job, .. }
        | Event::CancelRequested { job, .. }
        | Event::Ended { job, .. }
        | Event::Reprioritized { job, .. }
        | Event::Deleted(job)
        | Event::Checkpointed { job, .. }
        | Event::CronFired { job, .. }
        | Event::ResultDropped { job, .. } => Some(*job),
        Event::KindPut(_)
        | Event::KindRemoved(_)
        | Event::WorkflowSubmitted(_)
        | Event::WorkflowOpened { .. }
        | Event::WorkflowCancelRequested { .. }
        | Event::WorkflowEnded { .. }
        | Event::WorkflowRequeued(_)
        | Event::WorkflowDeleted(_)
        | Event::KindPaused { .. }
        | Event::SlotPut(_)
        | Event::SlotRemoved(_)
        | Event::TenantPut { .. }
        | Event::TenantRemoved(_)
        | Event::CronPut(_)
        | Event::WebhookPut(_)
        | Event::WebhookRemoved(_)
        | Event::WebhookGone { .. }
        | Event::DeliveryAdded(_)
        | Event::DeliveryChanged(_)
        | Event::DeliveryRemoved { .. }
        | Event::DeliveryDropped { .. }
        | Event::CronRemoved(_)
        | Event::CronPaused { .. }
        | Event::CronMissed { .. }
        | Event::CronPlanned(_)
        | Event::CronUnplanned(_)
        | Event::LeaseUnreaped(_)
        | Event::LeaseGone(_)
        | Event::SlotsFreed(_)
        | Event::LeaseOrphaned(_)
        | Event::NodePut(_)
        | Event::NodeForgotten(_)
        | Event::SessionOpened { .. }
        | Event::SessionClosed { .. }
        | Event::NodeHeard { .. }
        | Event::NodeSuspected(_)
        | Event::NodeLeaving(_)
        | Event::NodePressed { .. }
        | Event::SessionBlocked { .. }
        | Event::MessageSent { .. }
        | Event::Phased { .. }
        | Event::Progressed { .. }
        | Event::Renewed { .. }
        | Event::Spared { .. }
        | Event::Revoked { .. }
        | Event::Wants(_)
        | Event::Deferred { .. }
        | Event::Masked { .. }
        | Event::Unmasked { .. }
        | Event::Struck { .. }
        | Event::BackoffOver { .. }
        | Event::Earmarked(_)
        | Event::EarmarkDropped { .. }
        | Event::SetAside(_)
        | Event::CronSetAside(_)
        | Event::WarmedUp
        | Event::NotThrottled { .. }
        | Event::BudgetTurned(_)
        | Event::Refilled(_)
        | Event::TimelinesSaved(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    const S: Duration = Duration::from_secs(1);

    fn jobs(n: u128) -> Vec<Suspect> {
        (0..n).map(|n| Suspect::Job(JobId(Uuid::from_u128(n)))).collect()
    }

    /// Lives through reloads with one poisonous job, which fails every Tick unless it is set aside. What behaved is
    /// committed and due no more.
    fn hunt(mut due: Vec<Suspect>, poison: &Suspect) -> (BTreeSet<Suspect>, u32) {
        let mut isolation = Isolation::default();
        let mut now = Duration::ZERO;
        for reloads in 0..50 {
            let aside = isolation.set_aside(now);
            if aside.contains(poison) {
                due.retain(|job| aside.contains(job));
                now += TRIAL;
                if isolation.judge(now) == TrialEnd::None {
                    assert_eq!(
                        due,
                        isolation.aside.iter().cloned().collect::<Vec<_>>(),
                        "all others are free"
                    );
                    return (isolation.aside, reloads);
                }
            } else {
                let about = due.iter().filter(|&job| !aside.contains(job)).cloned().collect();
                isolation.failed(now, Tried::Tick(about));
            }
        }
        panic!("it never ends");
    }

    #[test]
    fn halving_finds_the_one_job_and_frees_the_others() {
        let mut all = jobs(100);
        all.push(Suspect::Cron(CronName::new("nightly")));
        for poison in [&all[0], &all[31], &all[50], &all[100]] {
            let (aside, reloads) = hunt(all.clone(), poison);
            assert_eq!(aside, BTreeSet::from([poison.clone()]));
            assert!(reloads <= 16, "{reloads}");
        }
    }

    #[test]
    fn a_job_that_behaves_when_it_is_tried_is_not_set_aside() {
        let mut isolation = Isolation::default();
        isolation.failed(S, Tried::Tick(jobs(4)));
        let mut now = S;
        for _ in 0..10 {
            isolation.set_aside(now);
            now += TRIAL;
            isolation.judge(now); // nothing fails
        }
        assert!(isolation.set_aside(now).is_empty());
        assert!(!isolation.is_careful(now));
    }

    #[test]
    fn reports_and_nodes_that_failed_alone_are_remembered() {
        let mut isolation = Isolation::default();
        let (token, node) = (FencingToken(7), NodeName::new("n1"));
        isolation.failed(S, Tried::Report(token, ReportKind::Finished));
        isolation.failed(S, Tried::Hello(node.clone()));
        assert!(isolation.is_broken(token, ReportKind::Finished));
        assert!(!isolation.is_broken(token, ReportKind::Reaped));
        assert!(isolation.is_quarantined(2 * S, &node));
        assert!(!isolation.is_quarantined(S + QUARANTINE, &node));
    }

    #[test]
    fn reloads_in_a_row_wait_longer_and_a_calm_one_does_not() {
        let mut isolation = Isolation::default();
        let waits: Vec<_> = (0..12).map(|_| isolation.failed(S, Tried::Many)).collect();
        assert_eq!(waits[0], Duration::ZERO);
        assert!(waits.windows(2).all(|pair| pair[0] <= pair[1]));
        assert_eq!(waits[11], Duration::from_millis(6400));
        assert_eq!(isolation.failed(2 * S + CALM, Tried::Many), Duration::ZERO);
    }
}
