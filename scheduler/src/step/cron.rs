//! Cron entries: what is due of their timetables, and what operators do to them.

use std::sync::Arc;

use crate::{
    cron::{self, CronEntry, CronPause, CronPlan, CronState, Due, MissedFiring},
    effect::Reply,
    event::Event,
    ids::{CronName, JobId, Producer},
    job::Job,
    refusal::{Refusal, bounded_text, nearest},
    step::{
        Step,
        enqueue::{Ahead, check},
    },
    time::Wall,
};

impl Step<'_> {
    /// What is known of a timetable. It may have changed since it was asked for; then it is asked for again.
    pub(super) fn plan_cron(&mut self, plan: CronPlan) {
        let fits = self.state.crons.get(&plan.entry).is_some_and(|cron| {
            let policy = &cron.entry.policy;
            (&policy.when, &policy.zone, cron.entry.last_instant) == (&plan.when, &plan.zone, plan.after)
        });
        if fits {
            self.emit(Event::CronPlanned(Box::new(plan)));
        }
    }

    /// The timer of an entry: it may be too early, which sets it anew.
    pub(super) fn due_cron(&mut self, name: &CronName) {
        let Some(cron) = self.state.crons.get(name) else { return };
        let Some(due) = cron.due(self.now.wall) else {
            return self.emit(Event::CronUnplanned(name.clone()));
        };
        if due.is_empty() {
            self.state.await_cron(name);
        }
        for due in due {
            match due {
                Due::Fire(instant) => self.fire(name, instant),
                Due::Miss { first, last, count, reason } => {
                    let message = if reason == cron::COALESCED {
                        "a later firing stands for it"
                    } else {
                        "nobody fired it in time"
                    };
                    self.miss(name, (first, last), count, (reason, message));
                }
            }
        }
    }

    fn fire(&mut self, name: &CronName, instant: Wall) {
        let id = cron::job_id(self.now.wall, self.state.next_sequence());
        match self.cron_job(name, id, Some(instant)) {
            Ok(job) => self.emit_fired(name, job, Some(instant)),
            Err(refusal) => {
                let message = refusal.to_string();
                self.miss(name, (instant, instant), 1, (refusal.reason(), &message));
            }
        }
    }

    fn emit_fired(&mut self, name: &CronName, job: Job, instant: Option<Wall>) {
        let id = job.id;
        self.emit(Event::Enqueued(Box::new(job)));
        self.emit(Event::CronFired { entry: name.clone(), instant, job: id });
        self.notify(id);
    }

    fn miss(&mut self, entry: &CronName, (first, last): (Wall, Wall), count: u64, why: (&'static str, &str)) {
        let (reason, message) = (why.0.into(), bounded_text(why.1));
        let missed = MissedFiring { first, last, count, reason, message, at: self.now.wall };
        self.emit(Event::CronMissed { entry: entry.clone(), missed: Box::new(missed) });
    }

    /// The job of an entry, if nothing refuses it.
    fn cron_job(&self, name: &CronName, id: JobId, instant: Option<Wall>) -> Result<Job, Refusal> {
        let entry = self.cron(name)?;
        let unknown = || Refusal::KindNotFound { kind: entry.policy.kind.clone(), nearest: Vec::new() };
        let kind = self.state.kinds.get(&entry.policy.kind).ok_or_else(unknown)?;
        check(self.state, self.now, kind, &entry.job(id, instant, &kind.kind.policy), Ahead::default())
    }

    pub(super) fn pause_cron(&mut self, name: &CronName, by: Arc<str>) -> Result<(), Refusal> {
        let changed = self.cron(name)?.paused.is_none();
        if changed {
            let pause = CronPause { by, since: self.now.wall };
            self.emit(Event::CronPaused { entry: name.clone(), pause: Some(pause) });
        }
        self.reply_cron(name, changed)
    }

    /// One that is paused fires nothing as it is.
    pub(super) fn set_aside_cron(&mut self, name: &CronName) -> Result<(), Refusal> {
        if !self.cron_state(name)?.is_paused() {
            self.emit(Event::CronSetAside(name.clone()));
        }
        Ok(())
    }

    pub(super) fn resume_cron(&mut self, name: &CronName) -> Result<(), Refusal> {
        let changed = self.cron_state(name)?.is_paused();
        if changed {
            self.emit(Event::CronPaused { entry: name.clone(), pause: None });
        }
        self.reply_cron(name, changed)
    }

    /// A job of the entry now, whatever its timetable says and whether it is paused. Under the same id it is the same call.
    pub(super) fn run_cron(
        &mut self,
        name: &CronName,
        id: JobId,
        prior: Option<&Job>,
    ) -> Result<(), Refusal> {
        self.cron(name)?;
        if let Ok(first) = self.find(id, prior) {
            if first.producer != Producer::of_cron(name) {
                return Err(Refusal::JobIdReused { job: id });
            }
            self.reply(Reply::Enqueued { job: Box::new(first), deduplicated: true });
            return Ok(());
        }
        let job = self.cron_job(name, id, None)?;
        self.emit_fired(name, job.clone(), None);
        self.reply(Reply::Enqueued { job: Box::new(job), deduplicated: false });
        Ok(())
    }

    fn reply_cron(&mut self, name: &CronName, changed: bool) -> Result<(), Refusal> {
        let entry = Box::new(self.cron_state(name)?.shown());
        self.reply(Reply::Cron { entry, changed });
        Ok(())
    }

    fn cron(&self, name: &CronName) -> Result<&CronEntry, Refusal> {
        self.cron_state(name).map(|cron| &cron.entry)
    }

    fn cron_state(&self, name: &CronName) -> Result<&CronState, Refusal> {
        self.state.crons.get(name).ok_or_else(|| Refusal::CronNotFound {
            entry: name.clone(),
            nearest: nearest(name.as_str(), self.state.crons.keys(), |name| name.as_str()),
        })
    }
}
