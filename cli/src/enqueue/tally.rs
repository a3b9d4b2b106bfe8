//! What became of the lines of a file.
//!
//! Responsible for counting them, for telling of those that were not stored, and for the exit code. Bounded: of a file
//! that is refused throughout the first lines are told one by one, the others by number.

use std::collections::BTreeMap;

use serde::Serialize;
use tenure_client::{Error, Refusal};
use uuid::Uuid;

use crate::exit::{Exit, Failure, of_refusal};
use crate::{human, report};

/// Lines that are told one by one.
const TOLD: usize = 100;

/// The counts, in the order in which `-o json` shows them.
#[derive(Debug, Default, Serialize)]
pub(super) struct Tally {
    /// Names the run, for going on with it.
    run: String,
    pub(super) enqueued: u64,
    pub(super) deduplicated: u64,
    pub(super) refused: u64,
    /// What became of these lines is not known: the server stayed away.
    pub(super) unsent: u64,
    refused_by_reason: BTreeMap<String, u64>,
    /// The first of those that were refused or not sent.
    lines: Vec<Told>,
    #[serde(skip)]
    exit: Option<Exit>,
}

#[derive(Debug, Serialize)]
struct Told {
    line: u32,
    reason: String,
    message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_after_s: Option<f64>,
}

impl Tally {
    pub(super) fn new(run: Uuid) -> Self {
        Self { run: run.to_string(), ..Self::default() }
    }

    /// A line is no job. The words to tell of it, if it is told by itself.
    pub(super) fn malformed(&mut self, line: u32, mistake: String) -> Option<String> {
        self.refuse(line, "MALFORMED", mistake, None, Exit::BadInput)
    }

    /// The server refused a line.
    pub(super) fn refused(&mut self, line: u32, refusal: &Refusal) -> Option<String> {
        let reason =
            if refusal.reason.is_empty() { refusal.code.to_string() } else { refusal.reason.clone() };
        let after = refusal.retry_after.map(|after| after.as_secs_f64());
        self.refuse(line, &reason, refusal.message.clone(), after, of_refusal(refusal))
    }

    /// A line has no answer.
    pub(super) fn failed(&mut self, line: u32, error: &Error) -> Option<String> {
        if let Error::Refused(refusal) = error {
            return self.refused(line, refusal);
        }
        self.unsent += 1;
        // That the server is away outweighs everything: the rest of the file was not even tried.
        self.exit = Some(Failure::Client(error.clone()).exit());
        self.tell(line, "NO_ANSWER", report::chain(error), None)
    }

    /// Lines so far.
    pub(super) fn lines(&self) -> u64 {
        self.enqueued + self.deduplicated + self.refused + self.unsent
    }

    /// The code of the whole file: that of the first line that was not stored.
    pub(super) fn exit(&self) -> Exit {
        self.exit.unwrap_or(Exit::Ok)
    }

    /// `99,998 enqueued, 1 deduplicated, 1 refused`.
    pub(super) fn sentence(&self) -> String {
        let mut words = vec![format!("{} enqueued", self.enqueued)];
        for (count, word) in
            [(self.deduplicated, "deduplicated"), (self.refused, "refused"), (self.unsent, "not sent")]
        {
            if count > 0 {
                words.push(format!("{count} {word}"));
            }
        }
        words.join(", ")
    }

    /// `QUEUE_FULL: 312 lines`, for a file of which not every line is told.
    pub(super) fn by_reason(&self) -> Vec<String> {
        if self.refused <= TOLD as u64 {
            return Vec::new();
        }
        let of = |(reason, count): (&String, &u64)| format!("{reason}: {}", human::count(count, "line"));
        self.refused_by_reason.iter().map(of).collect()
    }

    fn refuse(
        &mut self,
        line: u32,
        reason: &str,
        message: String,
        retry_after_s: Option<f64>,
        exit: Exit,
    ) -> Option<String> {
        self.refused += 1;
        *self.refused_by_reason.entry(reason.to_owned()).or_default() += 1;
        self.exit.get_or_insert(exit);
        self.tell(line, reason, message, retry_after_s)
    }

    fn tell(
        &mut self,
        line: u32,
        reason: &str,
        message: String,
        retry_after_s: Option<f64>,
    ) -> Option<String> {
        if self.lines.len() >= TOLD {
            return None;
        }
        let mut words = format!("line {line}: {message} ({reason})");
        if let Some(after) =
            retry_after_s.and_then(|after| std::time::Duration::try_from_secs_f64(after).ok())
        {
            words = format!("{words}; retry_after: {}", human::length(after));
        }
        self.lines.push(Told { line, reason: reason.to_owned(), message, retry_after_s });
        Some(words)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_lines_are_told_and_all_are_counted() {
        let mut tally = Tally::default();
        let told = (1..=1_000).filter_map(|line| tally.malformed(line, "x".to_owned())).count();
        assert_eq!((told, tally.refused, tally.lines.len()), (TOLD, 1_000, TOLD));
        assert_eq!(tally.by_reason(), ["MALFORMED: 1000 lines"]);
        assert_eq!(tally.exit(), Exit::BadInput);
    }

    #[test]
    fn a_file_without_a_no_is_ok() {
        let tally = Tally { enqueued: 3, deduplicated: 1, ..Tally::default() };
        assert_eq!((tally.exit(), tally.sentence().as_str()), (Exit::Ok, "3 enqueued, 1 deduplicated"));
    }
}
