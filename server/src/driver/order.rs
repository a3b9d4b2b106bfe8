//! What a turn consists of: timers and placements come after what nodes have said, for silence is judged by it.
//!
//! Pure. Invariant: neither a flood of words of nodes nor a run of single commands puts a Tick off for ever.

/// Turns that a Tick may be put off because more input of nodes waits.
const MOST_TICKLESS: u32 = 3;

/// The same where each turn is one command: as many as one turn takes otherwise.
const MOST_TICKLESS_ALONE: u32 = 1000;

/// What is known before a turn.
#[derive(Debug, Clone, Copy)]
pub(super) struct Waiting {
    /// One command at a time, or a Tick: then it is known what failed.
    pub(super) careful: bool,
    /// Whether timers and placements may run at all.
    pub(super) may_tick: bool,
    /// Turns since the last Tick.
    pub(super) tickless: u32,
    /// Nothing was collected.
    pub(super) empty: bool,
    /// What was collected has words of nodes.
    pub(super) nodes: bool,
    /// More of nodes waits than was collected.
    pub(super) more: bool,
}

/// Which of the collected commands are applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Taken {
    All,
    First,
    None,
}

impl Waiting {
    /// Which commands the turn takes, and whether it ends with a Tick.
    pub(super) fn decide(self) -> (Taken, bool) {
        if !self.careful {
            return (Taken::All, self.may_tick && (!self.more || self.tickless >= MOST_TICKLESS));
        }
        let heard = !self.nodes && !self.more || self.tickless >= MOST_TICKLESS_ALONE;
        // One command and a Tick in turn, once nodes were heard.
        if self.may_tick && (self.empty || self.tickless > 0 && heard) {
            (Taken::None, true)
        } else {
            (Taken::First, false)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const IDLE: Waiting =
        Waiting { careful: false, may_tick: true, tickless: 0, empty: true, nodes: false, more: false };

    #[test]
    fn a_usual_turn_ticks_unless_more_of_nodes_waits() {
        let busy = Waiting { empty: false, nodes: true, ..IDLE };
        assert_eq!(busy.decide(), (Taken::All, true));
        assert_eq!(Waiting { more: true, ..busy }.decide(), (Taken::All, false));
        assert_eq!(Waiting { more: true, tickless: MOST_TICKLESS, ..busy }.decide(), (Taken::All, true));
        assert_eq!(Waiting { may_tick: false, ..busy }.decide(), (Taken::All, false));
    }

    #[test]
    fn a_careful_turn_hears_what_nodes_said_before_it_judges_silence() {
        let careful = Waiting { careful: true, empty: false, ..IDLE };
        for (nodes, more) in [(true, false), (false, true), (true, true)] {
            for tickless in [0, 1, 17, MOST_TICKLESS_ALONE - 1] {
                let waiting = Waiting { nodes, more, tickless, ..careful };
                assert_eq!(waiting.decide(), (Taken::First, false), "{waiting:?}");
            }
            let flood = Waiting { nodes, more, tickless: MOST_TICKLESS_ALONE, ..careful };
            assert_eq!(flood.decide(), (Taken::None, true));
        }
    }

    #[test]
    fn careful_turns_of_callers_alternate_with_ticks() {
        let careful = Waiting { careful: true, empty: false, ..IDLE };
        assert_eq!(careful.decide(), (Taken::First, false));
        assert_eq!(Waiting { tickless: 1, ..careful }.decide(), (Taken::None, true));
        assert_eq!(Waiting { tickless: 1, may_tick: false, ..careful }.decide(), (Taken::First, false));
        assert_eq!(Waiting { empty: true, ..careful }.decide(), (Taken::None, true));
    }
}
