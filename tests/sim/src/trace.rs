//! The trace of a history: lines for people, and a hash by which two runs are compared.

use std::fmt::{self, Write as _};

/// What becomes of the lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Tracing {
    /// Nothing: the fastest.
    #[default]
    Off,
    /// They are hashed.
    Hashed,
    /// They are hashed and kept.
    Kept,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Trace {
    tracing: Tracing,
    hash: u64,
    line: String,
    text: String,
}

impl Trace {
    pub(crate) fn new(tracing: Tracing) -> Self {
        Self { tracing, hash: 0xcbf2_9ce4_8422_2325, line: String::new(), text: String::new() }
    }

    /// One line, at this moment, about this one.
    pub(crate) fn say(&mut self, now: u64, who: fmt::Arguments<'_>, what: fmt::Arguments<'_>) {
        if self.tracing == Tracing::Off {
            return;
        }
        self.line.clear();
        let (seconds, rest) = (now / 1_000_000, now % 1_000_000);
        let written = writeln!(self.line, "{seconds:>4}.{rest:06} {who} {what}");
        debug_assert!(written.is_ok(), "a String takes what is written into it");
        for byte in self.line.bytes() {
            self.hash = (self.hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3); // FNV-1a
        }
        if self.tracing == Tracing::Kept {
            self.text.push_str(&self.line);
        }
    }

    pub(crate) fn hash(&self) -> u64 {
        self.hash
    }

    pub(crate) fn into_text(self) -> String {
        self.text
    }
}

/// `say!(world, "who", "what {}", that)`.
macro_rules! say {
    ($world:expr, ($($who:tt)*), $($what:tt)*) => {
        $world.trace.say($world.now, format_args!($($who)*), format_args!($($what)*))
    };
}
pub(crate) use say;
