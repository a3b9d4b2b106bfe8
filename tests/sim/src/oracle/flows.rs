//! What must hold of workflows: nobody begins before those before it, a synthesis has one success at the most, it is handed
//! what was declared, in order, and nothing of it vanishes.

use std::collections::BTreeSet;

use tenure_scheduler::{
    Changes, ChildEnd, Event, JobId, JobState, MemberOf, Reply, Stage, SynthesisPolicy, Wall, Workflow,
    WorkflowState,
};

use crate::{
    flows::{Behind, Flow},
    server::Role,
    world::World,
};

/// Grants that were looked at, by token: each when its rows became durable.
pub(crate) type Looked = BTreeSet<u64>;

impl World {
    /// A commit became durable: whoever of a workflow was granted by it may run, by the rows as they stand at that moment.
    pub(crate) fn oracle_rows(&mut self, changes: &Changes) {
        let granted = changes.leases_put.iter().filter(|lease| lease.stage == Stage::Granted);
        let new: Vec<(u64, JobId)> = granted.map(|lease| (lease.token.0, lease.job)).collect();
        for (token, job) in new {
            if !self.oracle.looked.insert(token) {
                continue;
            }
            let Some(of) = self.db.tables.jobs.get(&job).and_then(|job| job.workflow) else { continue };
            if let Err(why) = self.may_run(of) {
                self.violated(format!("member {} of {}: {why}", of.place, of.workflow));
            }
        }
    }

    fn may_run(&self, of: MemberOf) -> Result<(), String> {
        let flow = self.flows.get(&of.workflow).ok_or("nobody submitted its workflow")?;
        let row = self.db.tables.workflow(of.workflow).ok_or("its workflow is not stored")?;
        if row.state.is_final() {
            return Err(format!("begins in a workflow that is {}", row.state.name()));
        }
        let Some(behind) = flow.behind(of.place) else { return Ok(()) };
        self.is_handed(behind, &row, of.place)?;
        let ends: Vec<Option<ChildEnd>> = behind.inputs.iter().map(|input| row.end(*input)).collect();
        let all = ends.len();
        let ended = ends.iter().flatten().count();
        let succeeded = ends.iter().filter(|end| **end == Some(ChildEnd::Succeeded)).count();
        let opened = row.shape.place(of.place).and_then(|place| row.opened.get(&place.after?));
        let partial = opened.is_some_and(|opened| opened.partial);
        let by_deadline = partial && behind.rule.deadline.is_some();
        let may = match behind.rule.policy {
            SynthesisPolicy::All => succeeded == all || (by_deadline && succeeded > 0),
            SynthesisPolicy::AtLeast(wanted) => succeeded >= wanted as usize && (ended == all || by_deadline),
            SynthesisPolicy::Any => succeeded > 0,
            SynthesisPolicy::Always => ended == all || by_deadline,
        };
        if !may && !flow.overruled {
            return Err(format!("begins before those before it: {:?} of {ends:?}", behind.rule));
        }
        Ok(())
    }

    /// What a member would read now: those that were declared, in that order, and what succeeded with its result.
    fn is_handed(&self, behind: &Behind, row: &Workflow, place: u32) -> Result<(), String> {
        let handed = row.inputs(place).ok_or("is handed nothing")?;
        let order: Vec<JobId> = handed.iter().map(|(job, _)| *job).collect();
        let declared: Vec<JobId> = behind.inputs.iter().map(|input| row.id.member(*input)).collect();
        if order != declared {
            return Err(format!("is handed {order:?}, not {declared:?}"));
        }
        let succeeded = handed.iter().filter(|(_, end)| *end == Some(ChildEnd::Succeeded));
        let mut rows = succeeded.filter_map(|(job, _)| self.db.tables.jobs.get(job));
        match rows.find(|job| !self.db.tables.result(job.id, job.token)) {
            Some(job) => Err(format!("is handed the end of {}, which has no result", job.id)),
            None => Ok(()),
        }
    }

    /// What a leader decides: no gate opens on less than it wants before its deadline.
    pub(super) fn gates_decided(&mut self, index: usize, events: &[Event]) {
        let Role::Leading(leader) = &self.servers[index].role else { return };
        let now = Wall(self.servers[index].clock.wall(self.now));
        let early = events.iter().find_map(|event| {
            let Event::WorkflowOpened { workflow, gate, opened } = event else { return None };
            let row = leader.state.workflow(*workflow)?;
            let rule = row.shape.gate(*gate)?.rule;
            let due = rule.deadline.map_or(Wall::MAX, |length| row.began_at.after(length));
            let early = opened.partial && !opened.missing.is_empty() && due > now;
            early.then(|| format!("gate {gate} of {workflow} opens {:?} too early", due.since(now)))
        });
        if let Some(early) = early {
            self.violated(early);
        }
    }

    /// A leader answers the cancel of a workflow: none of its members begins any more, unless somebody takes it back.
    pub(crate) fn oracle_cancelled_workflow(&mut self, reply: &Reply) {
        let Reply::Workflow { workflow, .. } = reply else { return };
        let Some(flow) = self.flows.get(&workflow.id).filter(|flow| !flow.overruled) else { return };
        for place in flow.places() {
            if let Some(job) = self.db.tables.jobs.get(&flow.id.member(place)) {
                self.oracle.cancelled.entry(job.id).or_insert((job.round, job.token));
            }
        }
    }

    /// At the end of everything.
    pub(super) fn flows_end(&mut self) {
        let wrong = self.flows.values().find_map(|flow| {
            let why = self.has_ended_well(flow).err()?;
            Some(format!("workflow {}: {why}", flow.id))
        });
        if let Some(wrong) = wrong {
            self.violated(wrong);
        }
    }

    fn has_ended_well(&self, flow: &Flow) -> Result<(), String> {
        let Some(row) = self.db.tables.workflow(flow.id) else {
            let kept = flow.places().find(|place| self.db.tables.jobs.contains_key(&flow.id.member(*place)));
            return kept.map_or(Ok(()), |place| Err(format!("member {place} is stored without it")));
        };
        let good = |place: &u32| row.end(*place) == Some(ChildEnd::Succeeded);
        if flow.outs.iter().all(good) != matches!(row.state, WorkflowState::Succeeded { .. }) {
            return Err(format!("is {} with {:?}", row.state.name(), row.ends));
        }
        if matches!(row.state, WorkflowState::Cancelled { .. }) && !flow.cancelled {
            return Err("is cancelled, and nobody asked for that".to_owned());
        }
        for place in flow.places() {
            let successes = self.db.tables.successes(flow.id.member(place));
            if successes > 1 || (successes == 1) != good(&place) {
                return Err(format!("member {place} succeeded {successes} times, and {:?}", row.end(place)));
            }
        }
        if flow.cancelled || flow.overruled || flow.hasty {
            return Ok(());
        }
        flow.places().try_for_each(|place| self.ran_or_not(flow, &row, place))
    }

    /// Where nobody interferes and nobody hurries: who was to run did, and who was not did not.
    fn ran_or_not(&self, flow: &Flow, row: &Workflow, place: u32) -> Result<(), String> {
        let was_to_run = flow.behind(place).is_none_or(|behind| {
            let good = behind.inputs.iter().filter(|input| row.end(**input) == Some(ChildEnd::Succeeded));
            let good = good.count();
            match behind.rule.policy {
                SynthesisPolicy::All => good == behind.inputs.len(),
                SynthesisPolicy::AtLeast(wanted) => good >= wanted as usize,
                SynthesisPolicy::Any => good > 0,
                SynthesisPolicy::Always => true,
            }
        });
        let job = self.db.tables.jobs.get(&flow.id.member(place)).ok_or("a member is gone")?;
        let skipped = matches!(job.state, JobState::Cancelled { .. });
        // Whoever waits for others may become stale before it is known whether it is to run.
        let excused = !was_to_run && matches!(job.state, JobState::Expired { .. });
        if was_to_run == skipped && !excused {
            return Err(format!("member {place} was to run: {was_to_run}, and is {}", job.state.name()));
        }
        Ok(())
    }
}
