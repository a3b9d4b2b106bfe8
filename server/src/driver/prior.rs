//! What the batch names and memory does not hold: asked of the journal once a turn, and put into the commands, so that
//! the scheduler stays pure.

use std::collections::{BTreeMap, BTreeSet};

use tenure_scheduler::{
    Command, Enqueue, Finish, Job, JobId, RequeueMember, State, Statement, Workflow, WorkflowId,
};
use tenure_store::HeldKey;

use super::batch::Item;

/// Trees are no deeper. What a batch names may go in a circle.
const MOST_PARENTS: u8 = u8::MAX;

/// The question of one turn.
#[derive(Debug, Default)]
pub(super) struct Asked {
    pub(super) ids: Vec<JobId>,
    pub(super) keys: Vec<HeldKey>,
}

impl Asked {
    /// What these items need to know beyond the state.
    pub(super) fn by(items: &[Item], state: &State) -> Self {
        let mut ids = BTreeSet::new();
        let mut keys = BTreeSet::new();
        let batch = Batch::of(items);
        for item in items {
            match item.command() {
                Command::Enqueue(enqueue) => {
                    ids.insert(enqueue.job);
                    if let Some(key) = batch.held_key(enqueue, state)
                        && !state.knows_key(&key.tenant, &key.kind, &key.key)
                    {
                        keys.insert(key);
                    }
                }
                Command::Cancel { job, .. }
                | Command::Requeue { job, .. }
                | Command::Reprioritize { job, .. }
                | Command::Delete { job, .. }
                | Command::RunCron { job, .. } => {
                    ids.insert(*job);
                }
                Command::Report(report) => {
                    ids.insert(report.job);
                    ids.extend(judged(named_children(&report.statement), state));
                }
                Command::BeginWait(wait) => {
                    ids.insert(wait.lease.job);
                    ids.extend(judged(&wait.children, state));
                }
                Command::SubmitWorkflow(submit) => ids.extend(submit.jobs.iter().map(|enqueue| enqueue.job)),
                Command::RequeueMember(request) => ids.extend(members(request, state)),
                Command::Sweep { jobs, .. } => ids.extend(jobs.iter().map(|job| job.id)),
                Command::Apply { .. }
                | Command::PauseKind { .. }
                | Command::ResumeKind { .. }
                | Command::PauseSlot { .. }
                | Command::ResumeSlot { .. }
                | Command::SetCapacity { .. }
                | Command::Cordon { .. }
                | Command::Uncordon { .. }
                | Command::Drain { .. }
                | Command::Forget { .. }
                | Command::Hello(_)
                | Command::Heartbeat(_)
                | Command::NodeDraining { .. }
                | Command::SessionClosed { .. }
                | Command::SessionBlocked { .. }
                | Command::SetAside { .. }
                | Command::SetAsideCron { .. }
                | Command::PlanCron(_)
                | Command::SettleDeliveries { .. }
                | Command::Redeliver { .. }
                | Command::TestWebhook { .. }
                | Command::ResumeWebhook { .. }
                | Command::PauseCron { .. }
                | Command::ResumeCron { .. }
                | Command::CancelWorkflow { .. }
                | Command::Tick => {}
            }
        }
        ids.retain(|&id| !state.knows_job(id));
        Self { ids: ids.into_iter().collect(), keys: keys.into_iter().collect() }
    }

    /// The keys that jobs about to be requeued gave up, and that a job beyond the state may hold.
    pub(super) fn by_found(items: &[Item], state: &State) -> Self {
        let keys: BTreeSet<HeldKey> = items.iter().filter_map(|item| given_up(item.command())).collect();
        let unknown = keys.into_iter().filter(|key| !state.knows_key(&key.tenant, &key.kind, &key.key));
        Self { ids: Vec::new(), keys: unknown.collect() }
    }

    /// Whether memory holds everything.
    pub(super) fn is_empty(&self) -> bool {
        self.ids.is_empty() && self.keys.is_empty()
    }
}

/// Puts the answer into the commands that need it.
pub(super) fn fill(items: &mut [Item], state: &State, asked: &Asked, found: Vec<Job>) {
    let batch = Batch::of(items);
    let key = |item: &Item| {
        let Command::Enqueue(enqueue) = item.command() else { return None };
        batch.held_key(enqueue, state)
    };
    let keys: Vec<Option<HeldKey>> = items.iter().map(key).collect();
    let found: BTreeMap<JobId, Job> = found.into_iter().map(|job| (job.id, job)).collect();
    let by_key: BTreeMap<HeldKey, JobId> =
        found.values().filter_map(|job| Some((key_of(job)?, job.id))).collect();
    let get = |id: &JobId| found.get(id).cloned().map(Box::new);
    for (item, key) in items.iter_mut().zip(keys) {
        match item.command_mut() {
            Command::Enqueue(enqueue) => {
                enqueue.prior.by_id = get(&enqueue.job);
                enqueue.prior.by_key = key.and_then(|key| by_key.get(&key)).and_then(get);
            }
            Command::Cancel { job, prior, .. }
            | Command::Requeue { job, prior, .. }
            | Command::Reprioritize { job, prior, .. }
            | Command::Delete { job, prior, .. }
            | Command::RunCron { job, prior, .. } => *prior = get(job),
            Command::Report(report) => {
                report.prior = get(&report.job);
                if let Statement::Finished(Finish { detach: Some(detach), .. }) = &mut report.statement {
                    let known = detach.children.iter().filter_map(|id| found.get(id));
                    detach.prior = known.cloned().collect();
                }
            }
            Command::BeginWait(wait) => {
                let known = wait.children.iter().filter_map(|id| found.get(id));
                wait.prior = known.cloned().collect();
            }
            Command::SubmitWorkflow(submit) => {
                for enqueue in &mut submit.jobs {
                    enqueue.prior.by_id = get(&enqueue.job);
                }
            }
            Command::RequeueMember(request) => {
                let known = members(request, state).into_iter().filter_map(|id| found.get(&id).cloned());
                request.prior_jobs = known.collect();
            }
            // They were read a while ago; what counts is how they stand now. What is gone is left out; what memory
            // holds, the scheduler judges.
            Command::Sweep { jobs, .. } => {
                jobs.retain_mut(|job| match found.get(&job.id) {
                    Some(now) => {
                        *job = now.clone();
                        true
                    }
                    None => asked.ids.binary_search(&job.id).is_err(),
                });
            }
            Command::Apply { .. }
            | Command::PauseKind { .. }
            | Command::ResumeKind { .. }
            | Command::PauseSlot { .. }
            | Command::ResumeSlot { .. }
            | Command::SetCapacity { .. }
            | Command::Cordon { .. }
            | Command::Uncordon { .. }
            | Command::Drain { .. }
            | Command::Forget { .. }
            | Command::Hello(_)
            | Command::Heartbeat(_)
            | Command::NodeDraining { .. }
            | Command::SessionClosed { .. }
            | Command::SessionBlocked { .. }
            | Command::SetAside { .. }
            | Command::SetAsideCron { .. }
            | Command::PlanCron(_)
            | Command::SettleDeliveries { .. }
            | Command::Redeliver { .. }
            | Command::TestWebhook { .. }
            | Command::ResumeWebhook { .. }
            | Command::PauseCron { .. }
            | Command::ResumeCron { .. }
            | Command::CancelWorkflow { .. }
            | Command::Tick => {}
        }
    }
}

/// The workflows that these items are about and memory does not hold.
pub(super) fn workflows(items: &[Item], state: &State) -> Vec<WorkflowId> {
    let ids: BTreeSet<WorkflowId> = items.iter().filter_map(|item| workflow_of(item.command())).collect();
    ids.into_iter().filter(|id| !state.knows_workflow(*id)).collect()
}

/// Puts those that are stored into the commands that need them. Before [`Asked::by`]: they tell which jobs a command is
/// about.
pub(super) fn fill_workflows(items: &mut [Item], found: &[Workflow]) {
    for item in items {
        let id = workflow_of(item.command());
        let known = found.iter().find(|workflow| Some(workflow.id) == id).cloned().map(Box::new);
        if known.is_none() {
            continue;
        }
        if let Command::SubmitWorkflow(submit) = item.command_mut() {
            submit.prior = known;
        } else if let Command::CancelWorkflow { prior, .. } = item.command_mut() {
            *prior = known;
        } else if let Command::RequeueMember(request) = item.command_mut() {
            request.prior = known;
        }
    }
}

fn workflow_of(command: &Command) -> Option<WorkflowId> {
    if let Command::SubmitWorkflow(submit) = command {
        Some(submit.id)
    } else if let Command::CancelWorkflow { workflow, .. } = command {
        Some(*workflow)
    } else if let Command::RequeueMember(request) = command {
        Some(request.workflow)
    } else {
        None
    }
}

/// The jobs that a requeue of a member is about.
fn members(request: &RequeueMember, state: &State) -> Vec<JobId> {
    let known = state.workflow(request.workflow).or(request.prior.as_deref());
    known.map(|workflow| State::members_behind(workflow, request.place)).unwrap_or_default()
}

/// The children that an execution named which ended in order to wait for them.
fn named_children(statement: &Statement) -> &[JobId] {
    match statement {
        Statement::Finished(Finish { detach: Some(detach), .. }) => &detach.children,
        Statement::Finished(_)
        | Statement::Accepted
        | Statement::Started { .. }
        | Statement::Progress { .. }
        | Statement::Checkpoint { .. }
        | Statement::Reaped
        | Statement::Returned(_) => &[],
    }
}

/// Those that the scheduler looks at: it refuses a wait for more unseen, so that nobody needs to read their rows.
fn judged<'a>(named: &'a [JobId], state: &State) -> &'a [JobId] {
    if state.may_wait_for(named.len()) { named } else { &[] }
}

/// Tells the requeues whose key is held by one of these.
pub(super) fn fill_taken(items: &mut [Item], holders: &[Job]) {
    let held: BTreeSet<HeldKey> = holders.iter().filter_map(key_of).collect();
    for item in items {
        let taken = given_up(item.command()).is_some_and(|key| held.contains(&key));
        if let Command::Requeue { key_taken, .. } = item.command_mut() {
            *key_taken = taken;
        }
    }
}

/// The key that a job about to be requeued gave up. One that memory holds was not final before this turn: it is not
/// requeued, or its key is known.
fn given_up(command: &Command) -> Option<HeldKey> {
    let Command::Requeue { prior: Some(job), .. } = command else { return None };
    let key = job.dedupe_key.clone().filter(|_| !job.dedupe_held)?;
    Some(HeldKey { tenant: job.tenant.clone(), kind: job.kind.clone(), key })
}

/// The enqueues of one turn: a parent may be enqueued in the turn of its child, and tells the tenant of that.
struct Batch<'a>(BTreeMap<JobId, &'a Enqueue>);

impl<'a> Batch<'a> {
    fn of(items: &'a [Item]) -> Self {
        let mut enqueues = BTreeMap::new();
        for item in items {
            if let Command::Enqueue(enqueue) = item.command() {
                enqueues.entry(enqueue.job).or_insert(&**enqueue);
            }
        }
        Self(enqueues)
    }

    /// The key that an enqueue would hold, or that a job beyond the state may hold.
    fn held_key(&self, enqueue: &Enqueue, state: &State) -> Option<HeldKey> {
        let key = enqueue.dedupe_key.clone()?;
        let mut of = enqueue;
        for _ in 0..MOST_PARENTS {
            let parent = of.parent.filter(|parent| of.tenant.is_none() && !state.knows_job(*parent));
            let Some(parent) = parent.and_then(|parent| self.0.get(&parent)) else { break };
            of = parent;
        }
        Some(HeldKey { tenant: state.tenant_of(of).clone(), kind: enqueue.kind.clone(), key })
    }
}

fn key_of(job: &Job) -> Option<HeldKey> {
    let key = job.dedupe_key.clone().filter(|_| job.dedupe_held)?;
    Some(HeldKey { tenant: job.tenant.clone(), kind: job.kind.clone(), key })
}

#[cfg(test)]
mod tests {
    use tenure_scheduler::{
        BeginWait, Detach, Durable, Epoch, FencingToken, FinishedHow, LeaseName, Limits, Mono, NodeName, Now,
        Ordinal, Report, SessionId, WaitPolicy, Wall,
    };
    use uuid::Uuid;

    use super::*;

    const MOST: u32 = 3;

    fn ids(count: u32) -> Vec<JobId> {
        (1..=count).map(|n| JobId(Uuid::from_u128(n.into()))).collect()
    }

    fn parent() -> JobId {
        JobId(Uuid::from_u128(99))
    }

    fn detach(children: u32) -> Command {
        let detach = Detach {
            children: ids(children),
            policy: WaitPolicy::All,
            max_wait: None,
            same_node: false,
            prior: Vec::new(),
        };
        let finish = Finish { detach: Some(Box::new(detach)), ..Finish::new(FinishedHow::Detached) };
        Command::Report(Box::new(Report {
            node: NodeName::new("n1"),
            session: SessionId(1),
            seq: None,
            seen: Ordinal(0),
            job: parent(),
            token: FencingToken(1),
            statement: Statement::Finished(finish),
            prior: None,
        }))
    }

    fn park(children: u32) -> Command {
        let lease = LeaseName { node: NodeName::new("n1"), job: parent(), token: FencingToken(1) };
        Command::BeginWait(Box::new(BeginWait {
            lease,
            wait_epoch: 1,
            children: ids(children),
            policy: WaitPolicy::All,
            max_wait: None,
            prior: Vec::new(),
        }))
    }

    #[test]
    fn children_of_a_wait_that_will_be_refused_are_not_read() {
        let now = Now { mono: Mono::default(), wall: Wall(0) };
        let limits = Limits { children: MOST, ..Limits::default() };
        let state = State::load(Epoch(1), limits, Durable::default(), now);
        for command in [detach, park] {
            let asked = |children| Asked::by(&[Item::Own(command(children))], &state).ids;
            let mut all = ids(MOST);
            all.push(parent());
            assert_eq!(asked(MOST), all);
            assert_eq!(asked(MOST + 1), [parent()]);
        }
    }
}
