//! `tenure enqueue --file`: the lines of a file in batches, a few of them on their way at once.
//!
//! Responsible for the bounds: of batches on their way, and of lines that wait for their `retry_after`; while either is
//! reached nothing more is read. Not responsible for what a line is (`lines.rs`).
//! Invariant: a line has one id from its reading on, however often it is sent.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use tenure_client::{Client, Enqueued, Error, NewJob, Refusal};
use tenure_proto::limits;
use tokio::task::JoinSet;
use uuid::Uuid;

use super::lines::{Line, Lines, job_id, new_run};
use super::tally::Tally;
use crate::clock;
use crate::exit::{Exit, Failure, of_refusal};
use crate::output::{Output, note};

/// Batches on their way. More would only wait in the server.
const MOST_FLYING: usize = 4;
/// Lines that wait for their `retry_after`. Beyond, nothing more is read until some were answered.
const MOST_WAITING: usize = 4_000;
/// A batch that is not full is sent after this long: its lines may come from a slow program.
const FULL_WITHIN: Duration = Duration::from_millis(200);

/// What to do with which file.
pub(super) struct Options {
    pub(super) file: PathBuf,
    /// Of a run that broke off.
    pub(super) run: Option<Uuid>,
    pub(super) dry_run: bool,
    /// How long a line that is refused for now is tried again.
    pub(super) retry_for: Duration,
}

/// A line on its way into the store.
struct Item {
    line: u32,
    job: NewJob,
    /// Not tried any more after this; none before its first refusal.
    give_up: Option<Instant>,
}

type Answers = Vec<(Item, Result<Enqueued, Error>)>;

struct Run<'a> {
    options: Options,
    run: Uuid,
    client: &'a Client,
    output: &'a Output,
    lines: Lines,
    at_end: bool,
    batch: Vec<Item>,
    batch_bytes: usize,
    /// When the batch is sent as it is.
    batch_due: Option<Instant>,
    flying: JoinSet<Answers>,
    /// Refused for now, by when to try them again and their lines.
    waiting: BTreeMap<(Instant, u32), Item>,
    tally: Tally,
    /// The server is away: nothing more is sent.
    away: bool,
    bar: ProgressBar,
}

/// Enqueues the jobs of a file, or checks it.
pub(super) async fn run(options: Options, client: &Client, output: &Output) -> Result<Exit, Failure> {
    let run = options.run.unwrap_or_else(new_run);
    let opened = Lines::open(&options.file).await;
    let (lines, size) = opened.map_err(|source| Failure::Read { path: options.file.clone(), source })?;
    if !options.dry_run && options.run.is_none() {
        note(format!("run {run}: should this break off, the same command with --run {run} goes on"));
    }
    let mut this = Run {
        run,
        client,
        output,
        lines,
        at_end: false,
        batch: Vec::new(),
        batch_bytes: 0,
        batch_due: None,
        flying: JoinSet::new(),
        waiting: BTreeMap::new(),
        tally: Tally::new(run),
        away: false,
        bar: bar(size),
        options,
    };
    let ended = if this.options.dry_run { this.check().await } else { this.send_all().await };
    this.bar.finish_and_clear();
    ended?;
    this.report()
}

impl Run<'_> {
    /// Reads every line and sends none.
    async fn check(&mut self) -> Result<(), Failure> {
        while let Some(line) = self.lines.next().await.map_err(|source| self.unreadable(source))? {
            match line.job {
                Ok(_) => self.tally.enqueued += 1,
                Err(mistake) => {
                    let words = self.tally.malformed(line.number, mistake);
                    self.tell(words);
                }
            }
            self.show();
        }
        Ok(())
    }

    async fn send_all(&mut self) -> Result<(), Failure> {
        enum Input {
            Line(std::io::Result<Option<Line>>),
            Answered(Option<Result<Answers, tokio::task::JoinError>>),
            Due,
        }
        loop {
            self.take_due();
            self.depart();
            let reads = !self.at_end && !self.away && !self.is_full() && self.waiting.len() < MOST_WAITING;
            if !reads && self.flying.is_empty() && self.waiting.is_empty() && self.batch.is_empty() {
                return Ok(());
            }
            let due = self.next_due();
            let input = tokio::select! {
                biased;
                answered = self.flying.join_next(), if !self.flying.is_empty() => Input::Answered(answered), // cancel-safe
                line = self.lines.next(), if reads => Input::Line(line), // cancel-safe
                () = tokio::time::sleep_until(due.unwrap_or_else(clock::mono).into()), if due.is_some() => Input::Due, // cancel-safe
            };
            match input {
                Input::Line(line) => {
                    let line = line.map_err(|source| self.unreadable(source))?;
                    self.at_end = line.is_none();
                    line.into_iter().for_each(|line| self.read(line));
                }
                Input::Answered(Some(Ok(answers))) => self.answered(answers)?,
                Input::Answered(Some(Err(panicked))) => {
                    return Err(Failure::Component { what: "sending a batch", source: panicked.into() });
                }
                Input::Answered(None) | Input::Due => {}
            }
            self.show();
        }
    }

    /// Puts a line into the batch.
    fn read(&mut self, line: Line) {
        match line.job {
            Ok(mut spec) => {
                if spec.job_id.is_empty() {
                    spec.job_id = job_id(self.run, line.number).to_string();
                }
                self.add(Item { line: line.number, job: NewJob::from(*spec), give_up: None });
            }
            Err(mistake) => {
                let words = self.tally.malformed(line.number, mistake);
                self.tell(words);
            }
        }
    }

    fn add(&mut self, item: Item) {
        self.batch_bytes += item.job.size();
        self.batch.push(item);
        self.batch_due.get_or_insert_with(|| clock::after(FULL_WITHIN));
    }

    /// Puts lines whose time has come into the batch.
    fn take_due(&mut self) {
        let now = clock::mono();
        while !self.is_full() {
            let first = self.waiting.first_entry().filter(|first| self.away || first.key().0 <= now);
            let Some(first) = first else { break };
            let item = first.remove();
            self.add(item);
        }
    }

    fn is_full(&self) -> bool {
        self.batch.len() >= limits::BATCH_JOBS || self.batch_bytes >= limits::BATCH_BYTES
    }

    /// Sends the batch if it is time, and there is room.
    fn depart(&mut self) {
        if self.away {
            // Nobody is there to answer: what was read is told as not sent.
            self.tally.unsent += std::mem::take(&mut self.batch).len() as u64;
            self.batch_bytes = 0;
            self.batch_due = None;
            return;
        }
        let due = self.at_end || self.batch_due.is_some_and(|due| due <= clock::mono());
        if self.batch.is_empty() || !(due || self.is_full()) || self.flying.len() >= MOST_FLYING {
            return;
        }
        let items = std::mem::take(&mut self.batch);
        self.batch_bytes = 0;
        self.batch_due = None;
        let client = self.client.clone();
        self.flying.spawn(async move {
            let jobs: Vec<NewJob> = items.iter().map(|item| item.job.clone()).collect();
            items.into_iter().zip(client.enqueue_batch(&jobs).await).collect()
        });
    }

    /// When something is to be done though nothing comes in.
    fn next_due(&self) -> Option<Instant> {
        let batch = self.batch_due.filter(|_| self.flying.len() < MOST_FLYING);
        let again = self.waiting.first_key_value().map(|(&(at, _), _)| at).filter(|_| !self.is_full());
        batch.into_iter().chain(again).min()
    }

    fn answered(&mut self, answers: Answers) -> Result<(), Failure> {
        for (item, answer) in answers {
            match answer {
                Ok(enqueued) => {
                    let count = if enqueued.deduplicated {
                        &mut self.tally.deduplicated
                    } else {
                        &mut self.tally.enqueued
                    };
                    *count += 1;
                    if self.output.is_name() {
                        self.output.line(&enqueued.job.id)?;
                    }
                }
                Err(error) => self.refused(item, &error),
            }
        }
        Ok(())
    }

    /// A line that is refused for now waits, within its bounds; any other is told.
    fn refused(&mut self, mut item: Item, error: &Error) {
        if let Some(wait) = error.refusal().and_then(for_now) {
            let give_up = *item.give_up.get_or_insert_with(|| clock::after(self.options.retry_for));
            let again = clock::after(wait);
            if again <= give_up && !self.away {
                self.waiting.insert((again, item.line), item);
                return;
            }
        }
        self.away |= !matches!(error, Error::Refused(_));
        let words = self.tally.failed(item.line, error);
        self.tell(words);
    }

    fn report(&mut self) -> Result<Exit, Failure> {
        if self.output.is_data() {
            self.output.value(&self.tally)?;
        }
        self.tally.by_reason().iter().for_each(note);
        if self.options.dry_run {
            let (good, bad) = (self.tally.enqueued, self.tally.refused);
            note(format!("{good} lines are jobs, {bad} are not (--dry-run)"));
        } else {
            note(self.tally.sentence());
        }
        if self.away {
            let (line, run) = (self.tally.lines(), self.run);
            note(format!(
                "next: the same command with --run {run}, once the server is there; {line} lines were read"
            ));
        }
        Ok(self.tally.exit())
    }

    fn tell(&self, words: Option<String>) {
        if let Some(words) = words {
            self.bar.suspend(|| note(words));
        }
    }

    fn show(&self) {
        self.bar.set_position(self.lines.bytes());
        if !self.bar.is_hidden() {
            self.bar.set_message(self.tally.sentence());
        }
    }

    fn unreadable(&self, source: std::io::Error) -> Failure {
        Failure::Read { path: self.options.file.clone(), source }
    }
}

/// When a refused line may be tried again, if waiting is what it needs.
fn for_now(refusal: &Refusal) -> Option<Duration> {
    (of_refusal(refusal) == Exit::RefusedForNow).then_some(refusal.retry_after).flatten()
}

/// On stderr, and only there where it is a terminal.
fn bar(size: Option<u64>) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(size, ProgressDrawTarget::stderr_with_hz(10));
    let template = match size {
        Some(_) => "{wide_bar} {percent:>3} %  {msg}  {elapsed} of {duration}",
        None => "{spinner} {bytes}  {msg}  {elapsed}",
    };
    ProgressStyle::with_template(template)
        .map_or_else(|_| ProgressBar::hidden(), |style| bar.with_style(style))
}
