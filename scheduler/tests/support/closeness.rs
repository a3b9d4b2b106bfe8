//! How closely a world looks at its scheduler. Scripts and short runs have everything checked at every command. A long
//! run has far more steps if it does what costs most only at some of them: what is wrong then, an invariant or a row,
//! stays wrong for a while, so that the next close look finds it nearly as surely. That a grant passed nobody over is
//! seen only when it happens, and is looked at always, as is whatever the model of the store is strict about.

/// See the module.
#[derive(Debug, Clone)]
pub(crate) struct Closeness {
    /// One command of so many is looked at closely; 1: each.
    every: u32,
    /// Commands until the next one.
    left: u32,
    /// One of this turn was, so the commit is.
    turn: bool,
}

impl Default for Closeness {
    /// Everything, always.
    fn default() -> Self {
        Self { every: 1, left: 0, turn: false }
    }
}

impl Closeness {
    /// One command of so many.
    pub(crate) fn sparing(every: u32) -> Self {
        Self { every: every.max(1), left: 0, turn: false }
    }

    /// Whether the next command is to be looked at closely.
    pub(crate) fn begin(&mut self) -> bool {
        let closely = self.left == 0;
        self.left = self.left.checked_sub(1).unwrap_or(self.every - 1);
        self.turn |= closely;
        closely
    }

    /// The turn ends. Whether its commit is to be looked at closely.
    pub(crate) fn end(&mut self) -> bool {
        std::mem::take(&mut self.turn)
    }

    /// Something went wrong or is over: the next command is looked at closely, whatever its number.
    pub(crate) fn look_next(&mut self) {
        self.left = 0;
    }
}
