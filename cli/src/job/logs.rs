//! `tenure job logs`: what the executions of a job print.
//!
//! Invariants: into a pipe or file the bytes of the job go as they are; onto a terminal only text, line ends, tabs and
//! colours, whatever the job printed; what is said about them goes to stderr.

mod terminal;

use tenure_client::proto::{LogAttempt, LogChunk, LogStream, ReadLogResponse, read_log_response::Said};
use tenure_client::{Client, LogEntry, LogOptions};

use self::terminal::Cleaner;
use crate::exit::{Exit, Failure};
use crate::human;
use crate::output::{Output, colour_is_welcome, note};

/// What of it is wanted.
#[derive(Debug, clap::Args)]
pub(crate) struct LogsArgs {
    /// Its id.
    pub(super) job: String,
    /// Goes on until the job is final, from one attempt to the next, whichever node runs it.
    #[arg(short, long)]
    follow: bool,
    /// Only this attempt, of the newest round. Default: the one that runs, else the newest.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    attempt: Option<u32>,
    /// The execution of this token, however old; with --follow it goes on from there. `tenure job attempts -o wide` shows them.
    #[arg(long, value_name = "N", conflicts_with = "attempt", value_parser = clap::value_parser!(u64).range(1..))]
    token: Option<u64>,
    /// Only standard output.
    #[arg(long, conflicts_with = "stderr")]
    stdout: bool,
    /// Only standard error.
    #[arg(long)]
    stderr: bool,
    /// Begins so many lines before the end of each stream.
    #[arg(long, value_name = "LINES", value_parser = clap::value_parser!(u32).range(0..=100_000))]
    tail: Option<u32>,
    /// Lets control characters through to a terminal: what the job printed may then do anything to it.
    #[arg(long)]
    raw: bool,
}

/// Prints it.
pub(super) async fn run(
    id: &str,
    args: &LogsArgs,
    client: &Client,
    output: &Output,
) -> Result<Exit, Failure> {
    let stream = match (args.stdout, args.stderr) {
        (true, _) => LogStream::Stdout,
        (_, true) => LogStream::Stderr,
        (false, false) => LogStream::Unspecified,
    };
    let LogsArgs { token, attempt, follow, tail, .. } = *args;
    let options = LogOptions { token, attempt, follow, stream, tail_lines: tail };
    let cleans = output.is_terminal() && !args.raw;
    let mut cleaners = [Cleaner::new(colour_is_welcome()), Cleaner::new(colour_is_welcome())];
    let mut log = client.log(id, options);
    let mut token = None;
    let ended = loop {
        let entry = match log.next().await {
            Ok(Some(entry)) => entry,
            Ok(None) => break Ok(Exit::Ok),
            Err(error) => break Err(error.into()),
        };
        if output.is_data() {
            output.message_line(&response(entry))?;
            continue;
        }
        match entry {
            LogEntry::Attempt(attempt) if output.is_name() => {
                if token.replace(attempt.token) != Some(attempt.token) {
                    output.line(&attempt.token.to_string())?;
                }
            }
            LogEntry::Chunk(_) if output.is_name() => {}
            LogEntry::Attempt(attempt) => {
                if cleans {
                    finish(&mut cleaners, output)?;
                }
                let again = token.replace(attempt.token) == Some(attempt.token);
                note(header(&attempt, again));
            }
            LogEntry::Chunk(chunk) => {
                if chunk.dropped > 0 {
                    note(missing(&chunk));
                }
                let [stdout, stderr] = &mut cleaners;
                let cleaner = if chunk.stream() == LogStream::Stderr { stderr } else { stdout };
                if cleans {
                    output.bytes(cleaner.clean(&chunk.data).as_bytes())?;
                } else {
                    output.bytes(&chunk.data)?;
                }
            }
        }
    };
    if cleans {
        finish(&mut cleaners, output)?;
    }
    ended
}

/// What was held back, and the end of every colour.
fn finish(cleaners: &mut [Cleaner], output: &Output) -> Result<(), Failure> {
    cleaners.iter_mut().try_for_each(|cleaner| output.bytes(cleaner.finish().as_bytes()))
}

fn response(entry: LogEntry) -> ReadLogResponse {
    let said = match entry {
        LogEntry::Attempt(attempt) => Said::Attempt(attempt),
        LogEntry::Chunk(chunk) => Said::Chunk(chunk),
    };
    ReadLogResponse { said: Some(said) }
}

/// `== attempt 2 on mini-1, token 1099511627778 ==`. `again`: more is said of the same one.
fn header(attempt: &LogAttempt, again: bool) -> String {
    let note = human::clean(&attempt.note);
    if again && !note.is_empty() {
        return format!("== {note} ==");
    }
    let node = match attempt.node.as_str() {
        "" => String::new(),
        node => format!(" on {}", human::clean(node)),
    };
    let ended = if attempt.ended { ", ended" } else { "" };
    let note = if note.is_empty() { String::new() } else { format!(": {note}") };
    format!("== attempt {}{node}, token {}{ended}{note} ==", attempt.attempt, attempt.token)
}

fn missing(chunk: &LogChunk) -> String {
    let stream = if chunk.stream() == LogStream::Stderr { "stderr" } else { "stdout" };
    format!("== {} bytes of {stream} are missing here: they were not kept ==", chunk.dropped)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_name_attempt_and_node_and_paint_nothing() {
        let attempt =
            LogAttempt { token: 9, attempt: 2, node: "n\u{1b}1".to_owned(), ..LogAttempt::default() };
        assert_eq!(header(&attempt, false), "== attempt 2 on n\\u{1b}1, token 9 ==");
        let note = "its node is not connected".to_owned();
        let attempt = LogAttempt { ended: true, note, node: String::new(), ..attempt };
        assert_eq!(header(&attempt, false), "== attempt 2, token 9, ended: its node is not connected ==");
        assert_eq!(header(&attempt, true), "== its node is not connected ==");
        let chunk = LogChunk { dropped: 12, stream: LogStream::Stderr.into(), ..LogChunk::default() };
        assert_eq!(missing(&chunk), "== 12 bytes of stderr are missing here: they were not kept ==");
    }
}
