//! What a test job is told to do: a few words in its payload, one step a line.
//!
//! Responsible for the words and for reading them back. Not responsible for carrying them out (`bin/test-job.rs`).
//! Invariant: `Script::parse(&script.to_string())` is the script again.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// Steps, carried out in order. After the last one the job exits with 0.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Script {
    /// The steps.
    pub steps: Vec<Step>,
}

/// One step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Waits until the test opens the gate of this name. Gives up after half an hour, with exit code 99.
    Wait(String),
    /// Exits with 1 unless the gate is open already.
    Require(String),
    /// Opens a gate itself.
    Open(String),
    /// Sleeps for this many milliseconds.
    Sleep(u64),
    /// Exits with this code.
    Exit(u8),
    /// Exits with 1 while the number of the attempt is at most this.
    FailFirst(u32),
    /// From here on SIGTERM changes nothing.
    IgnoreTerm,
    /// Leaves a process behind that has a session of its own and no living parent.
    Daemon,
    /// Starts this many children that sleep until they are killed.
    Spawn(u32),
    /// Leaves a process behind that has cut every tie: a session of its own, no living parent, an empty environment, and no
    /// ear for SIGTERM.
    Escape,
    /// Tries to start this many processes; those that the host refuses are counted in a line on stderr. Then it fails.
    Bomb(u32),
    /// Writes this many bytes into files of its work directory.
    Fill(u64),
    /// Kills its agent and its shim, if those are its grandparent and its parent.
    KillAgent,
    /// Kills every agent of its node, again and again, and leaves its shim alone.
    Hunt,
    /// Writes this many bytes to stdout.
    Flood(u64),
    /// Writes this text as the result.
    Result(String),
    /// Writes this many bytes as the result, which [`pile`] makes.
    Pile(usize),
    /// Writes the value of this variable as the result; an empty one if it is not set.
    Tell(String),
    /// Runs `tenure attempt` with these words, and fails with its code.
    Attempt(String),
    /// Has children, waits for all of them without ending, and writes how they ended as the result. A family is
    /// `COUNT KIND STEP`: so many children of a kind, each with this one step.
    Park(String),
    /// The same, but it ends meanwhile, and comes back.
    Detach(String),
    /// Writes what stands in the file that this variable names as the result; nothing if it is not set.
    Show(String),
    /// Writes what those before it in its workflow said as the result, in order, as the worker of the scenarios does: each
    /// its text, or the length of a long one, or how it ended.
    Gather,
    /// Writes this text to stdout.
    Say(String),
    /// Writes this text to stderr.
    Print(String),
    /// Ends itself by this signal.
    Signal(i32),
    /// Waits until this signal has come, which it catches from here on. Gives up after a minute, with exit code 99.
    Heed(i32),
    /// If an earlier attempt left a checkpoint or a partial result, writes both as the result and exits with 0.
    TellLeft,
}

/// The bytes of a large result: no two places of it look alike, so that none can stand for another.
#[must_use]
pub fn pile(bytes: usize) -> Vec<u8> {
    let words = (0..bytes.div_ceil(8) as u64).map(|n| n.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let mut all: Vec<u8> = words.flat_map(u64::to_le_bytes).collect();
    all.truncate(bytes);
    all
}

impl Script {
    /// No steps: exits with 0 at once.
    pub fn new() -> Self {
        Self::default()
    }

    /// Waits until the test opens the gate.
    #[must_use]
    pub fn wait(self, gate: &str) -> Self {
        self.then(Step::Wait(gate.to_owned()))
    }

    /// Opens a gate.
    #[must_use]
    pub fn open(self, gate: &str) -> Self {
        self.then(Step::Open(gate.to_owned()))
    }

    /// Sleeps.
    #[must_use]
    pub fn sleep(self, length: Duration) -> Self {
        self.then(Step::Sleep(u64::try_from(length.as_millis()).unwrap_or(u64::MAX)))
    }

    /// Exits with a code.
    #[must_use]
    pub fn exit(self, code: u8) -> Self {
        self.then(Step::Exit(code))
    }

    /// Fails the first attempts.
    #[must_use]
    pub fn fail_first(self, attempts: u32) -> Self {
        self.then(Step::FailFirst(attempts))
    }

    /// Appends a step.
    #[must_use]
    pub fn then(mut self, step: Step) -> Self {
        self.steps.push(step);
        self
    }

    /// Reads a payload.
    ///
    /// # Errors
    /// The first line that is no step.
    pub fn parse(text: &str) -> Result<Self, String> {
        let steps = text.lines().filter(|line| !line.trim().is_empty()).map(Step::parse);
        Ok(Self { steps: steps.collect::<Result<_, _>>()? })
    }
}

impl Step {
    fn parse(line: &str) -> Result<Self, String> {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        fn number<T: FromStr>(rest: &str, line: &str) -> Result<T, String> {
            rest.parse().map_err(|_| format!("no number in step {line:?}"))
        }
        Ok(match word {
            "wait" => Self::Wait(rest.to_owned()),
            "require" => Self::Require(rest.to_owned()),
            "open" => Self::Open(rest.to_owned()),
            "sleep" => Self::Sleep(number(rest, line)?),
            "exit" => Self::Exit(number(rest, line)?),
            "fail-first" => Self::FailFirst(number(rest, line)?),
            "ignore-term" => Self::IgnoreTerm,
            "daemon" => Self::Daemon,
            "spawn" => Self::Spawn(number(rest, line)?),
            "escape" => Self::Escape,
            "bomb" => Self::Bomb(number(rest, line)?),
            "fill" => Self::Fill(number(rest, line)?),
            "kill-agent" => Self::KillAgent,
            "hunt" => Self::Hunt,
            "flood" => Self::Flood(number(rest, line)?),
            "result" => Self::Result(rest.to_owned()),
            "pile" => Self::Pile(number(rest, line)?),
            "tell" => Self::Tell(rest.to_owned()),
            "attempt" => Self::Attempt(rest.to_owned()),
            "park" => Self::Park(rest.to_owned()),
            "detach" => Self::Detach(rest.to_owned()),
            "show" => Self::Show(rest.to_owned()),
            "gather" => Self::Gather,
            "say" => Self::Say(rest.to_owned()),
            "print" => Self::Print(rest.to_owned()),
            "signal" => Self::Signal(number(rest, line)?),
            "heed" => Self::Heed(number(rest, line)?),
            "tell-left" => Self::TellLeft,
            _ => return Err(format!("unknown step {line:?}")),
        })
    }
}

impl fmt::Display for Script {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.steps.iter().try_for_each(|step| writeln!(f, "{step}"))
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Wait(gate) => write!(f, "wait {gate}"),
            Self::Require(gate) => write!(f, "require {gate}"),
            Self::Open(gate) => write!(f, "open {gate}"),
            Self::Sleep(millis) => write!(f, "sleep {millis}"),
            Self::Exit(code) => write!(f, "exit {code}"),
            Self::FailFirst(attempts) => write!(f, "fail-first {attempts}"),
            Self::IgnoreTerm => f.write_str("ignore-term"),
            Self::Daemon => f.write_str("daemon"),
            Self::Spawn(children) => write!(f, "spawn {children}"),
            Self::Escape => f.write_str("escape"),
            Self::Bomb(processes) => write!(f, "bomb {processes}"),
            Self::Fill(bytes) => write!(f, "fill {bytes}"),
            Self::KillAgent => f.write_str("kill-agent"),
            Self::Hunt => f.write_str("hunt"),
            Self::Flood(bytes) => write!(f, "flood {bytes}"),
            Self::Result(text) => write!(f, "result {text}"),
            Self::Pile(bytes) => write!(f, "pile {bytes}"),
            Self::Tell(name) => write!(f, "tell {name}"),
            Self::Attempt(words) => write!(f, "attempt {words}"),
            Self::Park(family) => write!(f, "park {family}"),
            Self::Detach(family) => write!(f, "detach {family}"),
            Self::Show(name) => write!(f, "show {name}"),
            Self::Gather => f.write_str("gather"),
            Self::Say(text) => write!(f, "say {text}"),
            Self::Print(text) => write!(f, "print {text}"),
            Self::Signal(signal) => write!(f, "signal {signal}"),
            Self::Heed(signal) => write!(f, "heed {signal}"),
            Self::TellLeft => f.write_str("tell-left"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_step_is_read_back_as_it_was_written() {
        let script = Script::new()
            .wait("go")
            .open("went")
            .then(Step::Require("open".to_owned()))
            .sleep(Duration::from_millis(30))
            .fail_first(2)
            .then(Step::IgnoreTerm)
            .then(Step::Daemon)
            .then(Step::Spawn(3))
            .then(Step::Escape)
            .then(Step::Bomb(200))
            .then(Step::Fill(1 << 30))
            .then(Step::KillAgent)
            .then(Step::Hunt)
            .then(Step::Flood(1 << 20))
            .then(Step::Result("a b".to_owned()))
            .then(Step::Pile(20_000_000))
            .then(Step::Tell("TRACEPARENT".to_owned()))
            .then(Step::Attempt("progress 40 half".to_owned()))
            .then(Step::Park("4 shell sleep 5".to_owned()))
            .then(Step::Detach("4 shell sleep 5".to_owned()))
            .then(Step::Show("TENURE_CHECKPOINT".to_owned()))
            .then(Step::Gather)
            .then(Step::Say("a word".to_owned()))
            .then(Step::Print("an error".to_owned()))
            .then(Step::Signal(6))
            .then(Step::Heed(10))
            .then(Step::TellLeft)
            .exit(7);
        assert_eq!(Script::parse(&script.to_string()), Ok(script));
    }

    #[test]
    fn what_is_no_step_is_refused() {
        assert!(Script::parse("sleep soon").is_err());
        assert!(Script::parse("dance").is_err());
        assert_eq!(Script::parse(""), Ok(Script::new()));
    }
}
