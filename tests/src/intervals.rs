//! The oracle: what the jobs wrote down, swept for what must never be.
//!
//! Every execution of a test job writes `start`, and `end` unless it is killed, with its job, token, pid and
//! CLOCK_BOOTTIME. At its start it also takes locks that its whole tree shares: one of its job, one per unit of each
//! slot. A lock that it cannot have is written down as a problem: the kernel saw two executions of one job, or a slot
//! over its capacity. That holds for executions that were killed, too, whose end no clock saw exactly.
//! Not responsible for idle slots (`idle.rs`).
//! Invariant: every violation names the executions that prove it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::Path;

use anyhow::{Context as _, anyhow};

use crate::clock::Moment;

/// Who wrote a line, and when.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// The job.
    pub job: String,
    /// The fencing token.
    pub token: u64,
    /// The number of the attempt.
    pub attempt: u32,
    /// The process.
    pub pid: u32,
    /// When.
    pub at: Moment,
    /// The kind.
    pub kind: String,
    /// The node.
    pub node: String,
}

/// What a job of a kind takes of one slot, and how much there is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Need {
    /// `anthropic`, or `browser@mini-1` for a node slot.
    pub slot: String,
    /// Units taken.
    pub amount: u32,
    /// Units there are.
    pub capacity: u32,
}

/// One execution.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    /// Its start.
    pub start: Stamp,
    /// When its command ended by itself. None: it was killed, or it runs.
    pub end: Option<Moment>,
    /// Its exit code, if it ended by itself.
    pub exit: Option<u8>,
    /// The units that it locked, as `slot#unit`.
    pub units: Vec<String>,
    /// The locks that it could not have.
    pub problems: Vec<String>,
    /// It goes on after it has waited without ending: a part of an execution whose part before has ended.
    pub resumed: bool,
}

/// Everything that was written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Log {
    /// Executions, by start.
    pub runs: Vec<Run>,
    /// Processes that jobs left behind or started beside themselves.
    pub children: Vec<Stamp>,
}

impl Need {
    /// Reads the form that [`Need`] is displayed in, separated by blanks; `-` is none.
    ///
    /// # Errors
    /// The part that is none.
    pub fn parse_all(text: &str) -> Result<Vec<Self>, String> {
        text.split_whitespace().filter(|part| *part != "-").map(Self::parse).collect()
    }

    fn parse(text: &str) -> Result<Self, String> {
        let parts = || {
            let (slot, numbers) = text.split_once('=')?;
            let (amount, capacity) = numbers.split_once('/')?;
            Some(Self {
                slot: slot.to_owned(),
                amount: amount.parse().ok()?,
                capacity: capacity.parse().ok()?,
            })
        };
        parts().ok_or_else(|| format!("no need: {text:?}"))
    }
}

impl fmt::Display for Need {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}/{}", self.slot, self.amount, self.capacity)
    }
}

impl fmt::Display for Stamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { job, token, attempt, pid, at, kind, node } = self;
        write!(f, "job={job} token={token} attempt={attempt} pid={pid} at={} kind={kind} node={node}", at.0)
    }
}

impl Log {
    /// Reads the file that the jobs write. A file that is not there is empty.
    ///
    /// # Errors
    /// If it cannot be read, or a line is none of ours.
    pub fn read(path: &Path) -> anyhow::Result<Self> {
        match std::fs::read_to_string(path) {
            Ok(text) => Self::parse(&text),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Self::default()),
            Err(error) => Err(error).with_context(|| format!("cannot read {}", path.display())),
        }
    }

    /// Reads lines.
    ///
    /// # Errors
    /// The first line that is none of ours.
    pub fn parse(text: &str) -> anyhow::Result<Self> {
        let mut log = Self::default();
        for line in text.lines() {
            log.take(line).ok_or_else(|| anyhow!("no line of the interval log: {line:?}"))?;
        }
        log.runs.sort_by_key(|run| (run.start.at, run.start.token));
        Ok(log)
    }

    fn take(&mut self, line: &str) -> Option<()> {
        let (what, rest) = line.split_once(' ')?;
        let fields: BTreeMap<&str, &str> =
            rest.split_whitespace().map(|field| field.split_once('=')).collect::<Option<_>>()?;
        let stamp = Stamp {
            job: (*fields.get("job")?).to_owned(),
            token: fields.get("token")?.parse().ok()?,
            attempt: fields.get("attempt")?.parse().ok()?,
            pid: fields.get("pid")?.parse().ok()?,
            at: Moment(fields.get("at")?.parse().ok()?),
            kind: (*fields.get("kind")?).to_owned(),
            node: (*fields.get("node")?).to_owned(),
        };
        match what {
            "start" => {
                let (units, problems) = (items(fields.get("slots")?), items(fields.get("problems")?));
                self.runs.push(Run { start: stamp, end: None, exit: None, units, problems, resumed: false });
            }
            // From here on it has no slots.
            "park" => self.open(&stamp)?.end = Some(stamp.at),
            "unpark" => {
                let (units, problems) = (items(fields.get("slots")?), items(fields.get("problems")?));
                self.runs.push(Run { start: stamp, end: None, exit: None, units, problems, resumed: true });
            }
            "end" => {
                let exit = fields.get("exit")?.parse().ok();
                let run = self.open(&stamp)?;
                run.end = Some(stamp.at);
                run.exit = exit;
            }
            "child" => self.children.push(stamp),
            _ => return None,
        }
        Some(())
    }

    /// The execution that wrote this, if it has not written its end.
    fn open(&mut self, stamp: &Stamp) -> Option<&mut Run> {
        let same = |run: &&mut Run| run.start.token == stamp.token && run.start.pid == stamp.pid;
        self.runs.iter_mut().filter(|run| run.end.is_none()).find(same)
    }

    /// The executions of one job, by start.
    pub fn of<'a>(&'a self, job: &'a str) -> impl Iterator<Item = &'a Run> {
        self.runs.iter().filter(move |run| run.start.job == job)
    }

    /// Everything that must never be.
    pub fn violations(&self) -> Vec<String> {
        let mut found: Vec<String> = self.lock_problems().collect();
        found.extend(self.token_problems());
        found.extend(self.overlaps());
        found.extend(self.shared_units());
        found
    }

    fn lock_problems(&self) -> impl Iterator<Item = String> {
        let runs = self.runs.iter().filter(|run| !run.problems.is_empty());
        runs.map(|run| format!("{} at the start of {}", run.problems.join(", "), run.start))
    }

    /// A token starts at most one process, and of two executions of a job the later one has the greater token.
    fn token_problems(&self) -> Vec<String> {
        let mut found = Vec::new();
        let mut tokens = BTreeSet::new();
        let mut newest: BTreeMap<&str, &Stamp> = BTreeMap::new();
        for Run { start, .. } in self.runs.iter().filter(|run| !run.resumed) {
            if !tokens.insert(start.token) {
                found.push(format!("token {} started more than one process: {start}", start.token));
            }
            if let Some(before) = newest.insert(&start.job, start)
                && before.token >= start.token
            {
                found.push(format!("an older token started after a newer one: {before}; {start}"));
            }
        }
        found
    }

    /// No execution of a job starts before the one before has written its end.
    fn overlaps(&self) -> Vec<String> {
        let mut last: BTreeMap<&str, &Run> = BTreeMap::new();
        let mut found = Vec::new();
        for run in &self.runs {
            if let Some(before) = last.insert(&run.start.job, run)
                && before.end.is_some_and(|end| end > run.start.at)
            {
                found.push(format!("two executions of one job at once: {}; {}", before.start, run.start));
            }
        }
        found
    }

    /// No unit of a slot is had by two executions at once, as far as they wrote their ends.
    fn shared_units(&self) -> Vec<String> {
        let mut last: BTreeMap<&str, &Run> = BTreeMap::new();
        let mut found = Vec::new();
        for run in &self.runs {
            for unit in &run.units {
                if let Some(before) = last.insert(unit, run)
                    && before.end.is_some_and(|end| end > run.start.at)
                {
                    found.push(format!("{unit} is had twice: {}; {}", before.start, run.start));
                }
            }
        }
        found
    }
}

fn items(text: &str) -> Vec<String> {
    text.split(',').filter(|item| !item.is_empty() && *item != "-").map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(what: &str, job: &str, token: u64, at: u64, more: &str) -> String {
        format!("{what} job={job} token={token} attempt=1 pid={token} at={at} kind=k node=n {more}")
    }

    fn start(job: &str, token: u64, at: u64, units: &str) -> String {
        line("start", job, token, at, &format!("slots={units} problems=-"))
    }

    fn end(job: &str, token: u64, at: u64) -> String {
        line("end", job, token, at, "exit=0")
    }

    fn violations(lines: &[String]) -> Vec<String> {
        Log::parse(&lines.join("\n")).unwrap().violations()
    }

    #[test]
    fn executions_one_after_the_other_are_lawful() {
        let lines = [
            start("a", 1, 10, "s#0"),
            start("b", 2, 11, "s#1"),
            end("a", 1, 20),
            start("a", 3, 20, "s#0"),
            end("b", 2, 25),
            end("a", 3, 30),
        ];
        assert!(violations(&lines).is_empty(), "{:?}", violations(&lines));
        let log = Log::parse(&lines.join("\n")).unwrap();
        assert_eq!(log.of("a").count(), 2);
        assert_eq!(log.runs[0].end, Some(Moment(20)));
        assert_eq!(log.runs[1].units, ["s#1"]);
    }

    #[test]
    fn two_executions_of_one_job_at_once_are_seen_by_the_clock_and_by_the_lock() {
        let by_clock = [start("a", 1, 10, "-"), start("a", 2, 15, "-"), end("a", 1, 20), end("a", 2, 30)];
        assert_eq!(violations(&by_clock).len(), 1);
        let by_lock = [start("a", 1, 10, "-"), line("start", "a", 2, 15, "slots=- problems=overlap")];
        assert!(violations(&by_lock)[0].starts_with("overlap at the start of job=a token=2"));
    }

    #[test]
    fn a_slot_over_its_capacity_is_seen() {
        let twice = [start("a", 1, 10, "s#0"), start("b", 2, 12, "s#0"), end("a", 1, 13), end("b", 2, 14)];
        assert_eq!(violations(&twice).len(), 1);
        let none_left = [start("a", 1, 10, "s#0"), line("start", "b", 2, 15, "slots=- problems=over:s")];
        assert_eq!(violations(&none_left).len(), 1);
    }

    #[test]
    fn an_older_token_after_a_newer_one_and_a_token_used_twice_are_seen() {
        let older = [start("a", 2, 10, "-"), end("a", 2, 11), start("a", 1, 12, "-"), end("a", 1, 13)];
        assert_eq!(violations(&older).len(), 1);
        let twice = [start("a", 1, 10, "-"), end("a", 1, 11), start("b", 1, 12, "-")];
        assert_eq!(violations(&twice).len(), 1);
    }

    #[test]
    fn a_process_that_waits_has_no_slots_and_one_that_goes_on_has_them_again() {
        let unpark = |at, units: &str| line("unpark", "a", 1, at, &format!("slots={units} problems=-"));
        let lawful = [
            start("a", 1, 10, "s#0"),
            line("park", "a", 1, 12, ""),
            start("b", 2, 13, "s#0"),
            end("b", 2, 14),
            unpark(15, "s#0"),
            end("a", 1, 16),
        ];
        assert!(violations(&lawful).is_empty(), "{:?}", violations(&lawful));
        let mut early = lawful.clone();
        early[4] = unpark(13, "s#0");
        assert_eq!(violations(&early).len(), 1);
        assert!(Log::parse(&unpark(1, "-")).is_ok());
        assert!(Log::parse(&line("park", "a", 1, 12, "")).is_err(), "nothing runs");
    }

    #[test]
    fn a_killed_execution_has_no_end_and_is_no_violation() {
        let lines = [start("a", 1, 10, "s#0"), start("a", 2, 50, "s#0"), end("a", 2, 60)];
        assert!(violations(&lines).is_empty());
    }

    #[test]
    fn a_line_that_is_none_of_ours_is_refused() {
        assert!(Log::parse("start job=a").is_err());
        assert!(Log::parse("nonsense").is_err());
        assert!(Log::parse(&end("a", 1, 3)).is_err(), "an end without a start");
    }

    #[test]
    fn a_need_is_read_back_as_it_was_written() {
        let need = Need { slot: "browser@n1".to_owned(), amount: 1, capacity: 2 };
        assert_eq!(Need::parse_all(&format!("{need} {need}")), Ok(vec![need.clone(), need]));
        assert_eq!(Need::parse_all("-"), Ok(Vec::new()));
        assert!(Need::parse_all("browser").is_err());
    }
}
