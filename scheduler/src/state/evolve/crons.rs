//! What events do to cron entries.

use crate::{
    cron::{Ahead, CronEntry, CronPause, CronPlan, CronState, Fired, MissedFiring},
    ids::{CronName, JobId},
    state::{Due, State},
    time::{Now, Wall},
};

impl State {
    /// An entry is declared, or declared anew. What is known of its timetable stays true unless that changed.
    pub(super) fn cron_put(&mut self, entry: &CronEntry) {
        let known = self.crons.get(&entry.name);
        self.dirty.cron(&entry.name, known.is_some());
        let ahead = known.filter(|known| known.entry.last_instant == entry.last_instant);
        let ahead = ahead.and_then(|known| known.ahead.clone());
        let aside = known.and_then(|known| known.aside.clone());
        self.crons.insert(entry.name.clone(), CronState { entry: entry.clone(), ahead, aside });
        self.follow_cron(&entry.name);
    }

    pub(super) fn cron_removed(&mut self, name: &CronName) {
        self.dirty.cron(name, self.crons.remove(name).is_some());
        self.unplanned.remove(name);
    }

    /// What came while it was paused never fires.
    pub(super) fn cron_paused(&mut self, name: &CronName, pause: Option<&CronPause>, now: Now) {
        let Some(cron) = self.crons.get_mut(name) else { return };
        if pause.is_none() {
            cron.entry.last_instant = cron.entry.last_instant.max(now.wall);
            cron.ahead = None;
            cron.aside = None;
        }
        cron.entry.paused = pause.cloned();
        self.dirty.cron(name, true);
        self.follow_cron(name);
    }

    /// Nothing of it is stored: its row may be what cannot be written.
    pub(super) fn cron_set_aside(&mut self, name: &CronName, now: Now) {
        let Some(cron) = self.crons.get_mut(name) else { return };
        cron.set_aside(now.wall);
        self.follow_cron(name);
    }

    pub(super) fn cron_planned(&mut self, plan: &CronPlan) {
        let Some(cron) = self.crons.get_mut(&plan.entry) else { return };
        cron.ahead = Some(Ahead { instants: plan.instants.iter().copied().collect(), ends: plan.ends });
        self.unplanned.remove(&plan.entry);
        self.await_cron(&plan.entry);
    }

    pub(super) fn cron_unplanned(&mut self, name: &CronName) {
        let Some(cron) = self.crons.get_mut(name) else { return };
        cron.ahead = None;
        self.follow_cron(name);
    }

    pub(super) fn cron_fired(&mut self, name: &CronName, instant: Option<Wall>, job: JobId, now: Now) {
        let Some(cron) = self.crons.get_mut(name) else { return };
        cron.entry.fired = cron.entry.fired.saturating_add(1);
        cron.entry.last_fired = Some(Fired { instant, at: now.wall, job });
        if let Some(instant) = instant {
            cron.settle(instant);
        }
        self.dirty.cron(name, true);
        self.follow_cron(name);
    }

    pub(super) fn cron_missed(&mut self, name: &CronName, missed: &MissedFiring) {
        let Some(cron) = self.crons.get_mut(name) else { return };
        cron.settle(missed.last);
        cron.entry.remember(missed.clone());
        self.dirty.cron(name, true);
        self.follow_cron(name);
    }

    /// More of its timetable may have to be known, or the next instant is another one.
    pub(crate) fn follow_cron(&mut self, name: &CronName) {
        let Some(cron) = self.crons.get(name) else { return };
        if cron.is_unplanned() {
            self.unplanned.insert(name.clone());
        } else {
            self.unplanned.remove(name);
        }
        self.await_cron(name);
    }

    /// Sets the timer of the next instant.
    pub(crate) fn await_cron(&mut self, name: &CronName) {
        if let Some(at) = self.crons.get(name).and_then(CronState::next_due) {
            self.timers.at_wall(at, Due::Cron(name.clone()));
        }
    }

    /// Entries of whose timetables more has to be known, at most so many: whose plans are to be said.
    pub fn unplanned_crons(&self, most: usize) -> impl Iterator<Item = &CronEntry> {
        let unplanned = self.unplanned.iter().filter_map(|name| self.crons.get(name));
        unplanned.map(|cron| &cron.entry).take(most)
    }

    /// A declared entry, as it is stored.
    #[must_use]
    pub fn cron(&self, name: &CronName) -> Option<&CronEntry> {
        self.crons.get(name).map(|cron| &cron.entry)
    }

    /// All declared entries, by name, as people see them: one of which a firing could not be stored is paused.
    pub fn crons(&self) -> impl Iterator<Item = CronEntry> {
        self.crons.values().map(CronState::shown)
    }
}
