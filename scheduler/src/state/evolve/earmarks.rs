//! What events do to earmarks, and to those who find less or more free by them.

use crate::{
    deferral::Deferral,
    place::earmarks::{Dropped, Earmark, Holder, LATE},
    state::{Due, State},
    time::{Mono, Now},
};

impl State {
    pub(super) fn earmarked(&mut self, earmark: &Earmark, now: Now) {
        if let Holder::Class(id) = earmark.holder {
            let late = Mono(earmark.by.after(LATE).0.saturating_add(1));
            self.timers.at(late, Due::Reserve(id));
            // What a younger one is kept is free for it from now on.
            if let Some(class) = self.classes.get_mut(id)
                && class
                    .failed
                    .as_ref()
                    .is_some_and(|failed| matches!(failed.reason, Deferral::Earmarked { .. }))
            {
                class.failed = None;
                self.earmarks.tell();
            }
        }
        self.earmarks.insert(earmark.clone());
        self.rivals_of(earmark, now);
    }

    pub(super) fn earmark_dropped(&mut self, holder: Holder, why: Dropped, now: Now) {
        let Some(earmark) = self.earmarks.remove(holder) else { return };
        if let Holder::Class(id) = holder {
            self.timers.at(now.mono, Due::Reserve(id));
        }
        if why.is_gain() {
            self.gain(&earmark.units);
            self.gained.insert(earmark.node);
            self.earmarks.tell();
        }
    }
}
