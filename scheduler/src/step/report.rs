//! Reports: what a node says of one lease. Every one is checked against token, node and session; a stale one changes
//! nothing, but for freeing what an unreaped lease still charges.

use std::{sync::Arc, time::Duration};

use crate::{
    command::{Finish, FinishedHow, Report, Return, Statement},
    effect::{Message, ReportKind, Stored, Verdict},
    event::Event,
    job::{Job, JobState, Outcome},
    lease::{Phase, RevokeReason, Stage},
    refusal::{LostCause, Refusal, bounded_text},
    state::Stand,
    step::{
        Step,
        outcome::{End, How},
        text,
    },
};

/// A node that returned a class is not offered it for this long, unless it says otherwise.
const MASK_FOR: Duration = Duration::from_secs(30);

/// Rules of returns that say nothing of the node's room: it goes away or was cut off, the grant came too late, or the
/// server itself wanted it back.
const GOES_AWAY: [&str; 6] = ["draining", "cut_off", "stale", "revoked", "superseded", "terminated"];

/// No node may ask for a longer mask.
const MOST_MASK: Duration = Duration::from_secs(3600);

impl Step<'_> {
    pub(super) fn report(&mut self, report: Report) -> Result<(), Refusal> {
        self.check_session(&report.node, report.session)?;
        self.emit(Event::NodeHeard { node: report.node.clone(), seq: report.seq, seen: report.seen });
        match &report.statement {
            Statement::Accepted => self.progressed(&report, Phase::Accepted, Duration::ZERO),
            Statement::Started { elapsed } => self.progressed(&report, Phase::Started, *elapsed),
            Statement::Progress { percent, message } => {
                self.progressed(&report, Phase::Started, Duration::ZERO);
                self.gets_on(&report, *percent, message);
            }
            Statement::Checkpoint { size } => self.checkpoint(&report, *size),
            Statement::Finished(finish) => {
                let verdict = self.finished(&report, finish);
                self.stored(&report, ReportKind::Finished, verdict);
            }
            Statement::Reaped => {
                let verdict = self.reaped(&report);
                self.stored(&report, ReportKind::Reaped, verdict);
            }
            Statement::Returned(returned) => {
                let verdict = self.returned(&report, returned);
                self.stored(&report, ReportKind::Returned, verdict);
            }
        }
        Ok(())
    }

    fn stored(&mut self, report: &Report, kind: ReportKind, verdict: Verdict) {
        let job = self.find(report.job, report.prior.as_deref()).ok();
        let job_state = job.map(|job| job.state.name());
        self.send(
            &report.node,
            Message::Stored(Stored { token: report.token, report: kind, verdict, job_state }),
        );
    }

    /// The lease that a report is about, if it is this node's and the job matches.
    fn stage(&self, report: &Report) -> Option<Stage> {
        let entry = self.state.leases.get(&report.token)?;
        let own = entry.lease.node == report.node && entry.lease.job == report.job;
        own.then_some(entry.lease.stage)
    }

    fn progressed(&mut self, report: &Report, phase: Phase, elapsed: Duration) {
        let orphaned = self.state.leases.get(&report.token).is_some_and(|entry| entry.lease.orphaned);
        match self.stage(report) {
            Some(Stage::Granted) if !orphaned => self.phase(report.token, phase, elapsed),
            Some(Stage::Finished) => {}
            Some(Stage::Granted | Stage::Unreaped) | None => {
                let leases = vec![(report.token, RevokeReason::NotLive)];
                self.send(&report.node, Message::Revoke { leases });
            }
        }
    }

    /// What a running attempt says of how it gets on.
    fn gets_on(&mut self, report: &Report, percent: u8, message: &Arc<str>) {
        let orphaned = self.state.leases.get(&report.token).is_some_and(|entry| entry.lease.orphaned);
        if self.stage(report) == Some(Stage::Granted) && !orphaned {
            let (token, percent, message) = (report.token, percent.min(100), bounded_text(message));
            self.emit(Event::Progressed { token, percent, message });
            self.notify(report.job);
        }
    }

    /// A checkpoint of a running execution is kept, that of another one is not.
    fn checkpoint(&mut self, report: &Report, size: u64) {
        self.progressed(report, Phase::Started, Duration::ZERO);
        let live = self.state.leases.get(&report.token).filter(|entry| !entry.lease.orphaned);
        if live.is_some() && self.stage(report) == Some(Stage::Granted) {
            self.emit(Event::Checkpointed { job: report.job, token: report.token, size });
        }
    }

    fn finished(&mut self, report: &Report, finish: &Finish) -> Verdict {
        let mut end = self.end_of(report, finish);
        if self.state.leases.get(&report.token).is_some_and(|entry| entry.watch.spooled) {
            end.how = How::Gone; // Its node said so in its Hello; no `reaped` is to come.
        }
        match self.stage(report) {
            Some(Stage::Granted) => {
                let throttle = self.heeded(report.token, finish);
                end.retry_after = end.retry_after.max(throttle.as_ref().map(|said| said.retry_after));
                self.end(report.token, end);
                self.throttle(throttle);
                Verdict::Stored
            }
            Some(Stage::Finished) => Verdict::Stored,
            Some(Stage::Unreaped) | None => self.late(report, end),
        }
    }

    /// What a node's words mean: its order of the server decides what a killed job is.
    fn end_of(&self, report: &Report, finish: &Finish) -> End {
        let token = report.token;
        if finish.how == FinishedHow::Detached {
            return self.detached(report, finish);
        }
        let revoked = self.state.leases.get(&token).and_then(|entry| entry.watch.revoked);
        let outcome = match finish.how {
            FinishedHow::Succeeded => Outcome::Succeeded,
            FinishedHow::Failed => Outcome::Failed,
            FinishedHow::FailedPermanent => Outcome::FailedPermanent,
            FinishedHow::TimedOut => Outcome::TimedOut,
            FinishedHow::Stalled => Outcome::Stalled,
            FinishedHow::Revoked if revoked == Some(RevokeReason::Cancelled) => Outcome::Cancelled,
            FinishedHow::Revoked => Outcome::Returned,
            FinishedHow::Lost => Outcome::Lost,
            FinishedHow::Detached => Outcome::Detached,
        };
        End {
            cause: bounded_text(&finish.cause),
            error: bounded_text(&finish.error),
            exit_code: finish.exit_code,
            retry_after: finish.retry_after,
            usage: finish.usage.clone(),
            keep_result: finish.has_result,
            partial: finish.partial,
            checkpoint: finish.checkpoint,
            ..End::new(outcome, How::Ended)
        }
    }

    /// A finished report whose lease is over: the newest one of a job that was not granted again is still heard.
    fn late(&mut self, report: &Report, end: End) -> Verdict {
        let Ok(job) = self.find(report.job, report.prior.as_deref()) else {
            return Verdict::LeaseLost(LostCause::StaleToken);
        };
        if job.token != report.token || job.last_node.as_ref() != Some(&report.node) {
            return Verdict::LeaseLost(LostCause::StaleToken);
        }
        if job.detached.as_ref().is_some_and(|detached| detached.token == report.token) {
            return Verdict::Stored; // A duplicate: it detached.
        }
        match (job.last_outcome, &job.state) {
            // Its loss is taken back, unless somebody set the job aside or it is final meanwhile.
            (
                Some(Outcome::Lost | Outcome::Returned),
                JobState::Scheduled { .. } | JobState::Queued { .. },
            ) if self.state.jobs.get(&job.id).is_some_and(|entry| entry.stand != Stand::Broken) => {
                self.late_and_newest(&job, end)
            }
            (Some(Outcome::Lost | Outcome::Returned) | None, JobState::Cancelled { .. }) => {
                Verdict::LeaseLost(LostCause::Cancelled)
            }
            (Some(Outcome::Lost | Outcome::Returned) | None, _) => Verdict::LeaseLost(LostCause::Expired),
            // It was cancelled, and its lease ended without a word from its node.
            (Some(Outcome::Cancelled), _) if self.stage(report) == Some(Stage::Unreaped) => {
                Verdict::LeaseLost(LostCause::Cancelled)
            }
            // A duplicate of what is stored.
            (
                Some(
                    Outcome::Succeeded
                    | Outcome::Failed
                    | Outcome::FailedPermanent
                    | Outcome::TimedOut
                    | Outcome::Stalled
                    | Outcome::Detached
                    | Outcome::Cancelled,
                ),
                _,
            ) => Verdict::Stored,
        }
    }

    /// Its outcome replaces the loss. One that tells no more than was taken for granted replaces nothing.
    fn late_and_newest(&mut self, job: &Job, end: End) -> Verdict {
        let was_lost = job.last_outcome == Some(Outcome::Lost);
        match end.outcome {
            Outcome::Lost if was_lost => Verdict::Stored,
            Outcome::Returned if was_lost => Verdict::LeaseLost(LostCause::Expired),
            Outcome::Returned => Verdict::Stored,
            Outcome::Succeeded
            | Outcome::Failed
            | Outcome::FailedPermanent
            | Outcome::TimedOut
            | Outcome::Stalled
            | Outcome::Lost
            | Outcome::Detached
            | Outcome::Cancelled => {
                self.replace_loss(job, end);
                Verdict::Stored
            }
        }
    }

    fn reaped(&mut self, report: &Report) -> Verdict {
        match self.stage(report) {
            Some(Stage::Finished | Stage::Unreaped) => self.emit(Event::LeaseGone(report.token)),
            Some(Stage::Granted) => self.end(
                report.token,
                End {
                    cause: text("reaped"),
                    error: text("its processes are gone and nobody knows how it ended"),
                    ..End::new(Outcome::Lost, How::Gone)
                },
            ),
            None if self.state.leases.contains_key(&report.token) => {
                return Verdict::LeaseLost(LostCause::StaleToken);
            }
            None => {} // Gone already: nothing is left to free.
        }
        Verdict::Stored
    }

    fn returned(&mut self, report: &Report, returned: &Return) -> Verdict {
        match self.stage(report) {
            Some(Stage::Granted) => {
                let cancelled = self.state.leases.get(&report.token).and_then(|entry| entry.watch.revoked)
                    == Some(RevokeReason::Cancelled);
                let may_expire = self.state.job(report.job).is_some_and(Job::may_expire);
                let outcome = if cancelled { Outcome::Cancelled } else { Outcome::Returned };
                self.end(
                    report.token,
                    End {
                        cause: bounded_text(&returned.rule),
                        error: return_text(returned),
                        keep_result: returned.has_result && returned.started,
                        partial: returned.has_result,
                        checkpoint: returned.checkpoint,
                        stale: &*returned.rule == "stale" && !returned.started && may_expire,
                        usage: returned.usage.clone(),
                        ..End::new(outcome, How::Gone)
                    },
                );
                self.mask(report, returned);
                Verdict::Stored
            }
            Some(Stage::Finished) => {
                self.emit(Event::LeaseGone(report.token));
                Verdict::Stored
            }
            Some(Stage::Unreaped) => {
                self.emit(Event::LeaseGone(report.token));
                Verdict::LeaseLost(LostCause::Expired)
            }
            None => self.late_return(report),
        }
    }

    /// Whether a return that nothing waits for any more was stored before.
    fn late_return(&self, report: &Report) -> Verdict {
        let job: Option<Job> = self.find(report.job, report.prior.as_deref()).ok();
        let newest = job.filter(|job| job.token == report.token);
        match newest.and_then(|job| job.last_outcome) {
            Some(Outcome::Returned | Outcome::Cancelled) => Verdict::Stored,
            Some(
                Outcome::Succeeded
                | Outcome::Failed
                | Outcome::FailedPermanent
                | Outcome::TimedOut
                | Outcome::Stalled
                | Outcome::Detached
                | Outcome::Lost,
            ) => Verdict::LeaseLost(LostCause::Expired),
            None => Verdict::LeaseLost(LostCause::StaleToken),
        }
    }

    /// The node said no: it is not offered this class again for a while. Not so when it only goes away itself.
    fn mask(&mut self, report: &Report, returned: &Return) {
        if returned.started || GOES_AWAY.contains(&&*returned.rule) {
            return;
        }
        // The job may wait elsewhere (for a back-off); the others of its class are not offered there either.
        let job = self.state.job(report.job).filter(|job| !job.state.is_final());
        let class = job.and_then(|job| self.state.class_key(job));
        let Some(class) = class.and_then(|key| self.state.classes.find(&key)) else { return };
        let length = returned.retry_after.unwrap_or(MASK_FOR).min(MOST_MASK);
        self.emit(Event::Masked {
            node: report.node.clone(),
            class,
            job: report.job,
            rule: bounded_text(&returned.rule),
            generation: returned.generation,
            until: self.now.mono.after(length),
        });
    }
}

fn return_text(returned: &Return) -> Arc<str> {
    if returned.threshold == 0.0 && returned.observed == 0.0 {
        return bounded_text(&format!("returned by its node: {}", returned.rule));
    }
    bounded_text(&format!(
        "returned by its node: {} ({} against {})",
        returned.rule, returned.observed, returned.threshold
    ))
}
