//! What the executions of a job print, through changes of node and restarts of the server.
//!
//! Invariant: of one stream of one execution the places only rise; what is missing between two pieces is told with the
//! second.

use std::time::Duration;

use tenure_proto::v1::{
    LogAttempt, LogChunk, LogPlace, LogStream, ReadLogRequest, ReadLogResponse, read_log_response::Said,
};
use tokio::time::Instant;
use tonic::Streaming;

use crate::retry::{random, rpc};
use crate::{Client, Error, Refusal, clock};

/// What one reader wants. Default: all that there is of the execution that runs, else of the newest.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogOptions {
    /// Begins with the execution of this token, such as an earlier one of the same attempt or of an earlier round; ends with it
    /// unless it follows. Not together with `attempt`.
    pub token: Option<u64>,
    /// Only executions of this attempt, from 1.
    pub attempt: Option<u32>,
    /// Goes on until the job is final, from one execution to the next.
    pub follow: bool,
    /// Unspecified: both.
    pub stream: LogStream,
    /// Of the first execution only so many last lines of each stream, at most 100,000.
    pub tail_lines: Option<u32>,
}

/// One thing that a log says.
#[derive(Clone, Debug, PartialEq)]
pub enum LogEntry {
    /// What follows is of this execution. Said again when there is more to say of it.
    Attempt(LogAttempt),
    /// A piece of what it printed.
    Chunk(LogChunk),
}

/// The log of one job. Made by [`Client::log`].
///
/// ```no_run
/// # use std::io::Write as _;
/// # use tenure_client::{LogEntry, LogOptions};
/// # async fn example(client: &tenure_client::Client) -> Result<(), Box<dyn std::error::Error>> {
/// let options = LogOptions { follow: true, ..LogOptions::default() };
/// let mut log = client.log("0199a5b2-7c00-7000-8000-000000000000", options);
/// while let Some(entry) = log.next().await? {
///     if let LogEntry::Chunk(chunk) = entry {
///         std::io::stdout().write_all(&chunk.data)?;
///     }
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Log {
    client: Client,
    request: ReadLogRequest,
    stream: Option<Streaming<ReadLogResponse>>,
    /// The place of the server that it is of.
    server: usize,
    /// What was said of the present execution last.
    told: Option<LogAttempt>,
    at_end: bool,
    broken: Option<Broken>,
}

/// Since the stream last said anything.
#[derive(Debug)]
struct Broken {
    since: Instant,
    times: u32,
}

impl Client {
    /// Reads what the executions of a job print: live from the node of the one that runs, of those that have ended the end
    /// that was kept.
    ///
    /// A reader that is slow loses what the node keeps no longer, and is told how much (`dropped`); it holds up nobody. The
    /// bytes are the job's, in any encoding or in none: nothing of them is cleaned for a terminal.
    pub fn log(&self, job_id: impl Into<String>, options: LogOptions) -> Log {
        let LogOptions { token, attempt, follow, stream, tail_lines } = options;
        let request = ReadLogRequest {
            job_id: job_id.into(),
            token: token.unwrap_or_default(),
            attempt,
            follow,
            stream: stream.into(),
            place: None,
            tail_lines,
        };
        Log {
            client: self.clone(),
            request,
            stream: None,
            server: 0,
            told: None,
            at_end: false,
            broken: None,
        }
    }
}

impl Log {
    /// What is said next; none at the end. Waits for as long as nothing is printed.
    ///
    /// Goes on where it stood through a restart of the server and a change of the leader, as far as the retry policy
    /// reaches. Cancel-safe: a call that is dropped loses nothing, and after an error the same call goes on where it stood.
    ///
    /// # Errors
    /// JOB_NOT_FOUND, also if the job is deleted meanwhile; LOG_NOT_FOUND if there is no such execution; LOG_UNAVAILABLE if
    /// it runs, cannot be read, and nobody follows it; NOT_ALLOWED once the caller is denied; TOO_MANY_WATCHES.
    pub async fn next(&mut self) -> Result<Option<LogEntry>, Error> {
        while !self.at_end {
            let message = self.stream().await?.message().await;
            match message {
                Ok(Some(ReadLogResponse { said })) => {
                    self.broken = None;
                    if let Some(entry) = said.and_then(|said| self.heard(said)) {
                        return Ok(Some(entry));
                    }
                }
                Ok(None) => {
                    self.stream = None;
                    self.at_end = true;
                }
                Err(status) => {
                    self.stream = None;
                    let refusal = Refusal::from_status(&status);
                    if !refusal.is_unavailable() {
                        return Err(Error::Refused(Box::new(refusal)));
                    }
                    self.client.servers.move_on(self.server);
                    self.pause(refusal).await?;
                }
            }
        }
        Ok(None)
    }

    /// Keeps the place, so that another stream goes on there. None: it was said before.
    fn heard(&mut self, said: Said) -> Option<LogEntry> {
        match said {
            Said::Attempt(attempt) => {
                if self.request.token != attempt.token {
                    self.request.token = attempt.token;
                    // Until a piece comes, what was asked for of the first execution still is.
                    if self.told.is_some() {
                        (self.request.place, self.request.tail_lines) = (Some(LogPlace::default()), None);
                    }
                } else if self.told.as_ref() == Some(&attempt) {
                    return None;
                }
                self.told = Some(attempt.clone());
                Some(LogEntry::Attempt(attempt))
            }
            Said::Chunk(chunk) => {
                let place = self.request.place.get_or_insert_default();
                let end = chunk.offset.saturating_add(chunk.data.len() as u64);
                match chunk.stream() {
                    LogStream::Stdout => place.stdout_offset = end,
                    LogStream::Stderr => place.stderr_offset = end,
                    // Of a newer server; it says nothing that could be placed.
                    LogStream::Unspecified => return None,
                }
                self.request.tail_lines = None;
                Some(LogEntry::Chunk(chunk))
            }
        }
    }

    async fn stream(&mut self) -> Result<&mut Streaming<ReadLogResponse>, Error> {
        let stream = match self.stream.take() {
            Some(stream) => stream,
            None => {
                let opened = rpc!(self.client, jobs.read_log, self.request.clone()).await?;
                self.server = opened.server;
                opened.value
            }
        };
        Ok(self.stream.insert(stream))
    }

    /// Waits before the stream is opened anew. The opening has retries of its own: these are for streams that open and
    /// break without a word.
    async fn pause(&mut self, last: Refusal) -> Result<(), Error> {
        let policy = self.client.options.retry.clone();
        let broken = self.broken.get_or_insert_with(|| Broken { since: clock::now(), times: 0 });
        broken.times += 1;
        let waited = clock::now().saturating_duration_since(broken.since);
        let backoff = policy.backoff(broken.times, last.retry_after, random());
        if policy.give_up_after == Duration::ZERO || waited + backoff >= policy.give_up_after {
            let (endpoint, tries) = (self.client.endpoint.clone(), broken.times);
            self.broken = None;
            return Err(Error::Unavailable { endpoint, tries, waited, last: Box::new(last) });
        }
        tracing::debug!(job.id = self.request.job_id, error = %last, "the log broke, opening it anew");
        tokio::time::sleep(backoff).await;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log() -> Log {
        let options = LogOptions { tail_lines: Some(3), follow: true, ..LogOptions::default() };
        Client::connect("http://127.0.0.1:1").unwrap().log("j", options)
    }

    fn attempt(token: u64, note: &str) -> Said {
        Said::Attempt(LogAttempt { token, note: note.to_owned(), ..LogAttempt::default() })
    }

    fn chunk(stream: LogStream, offset: u64, data: &'static [u8]) -> Said {
        Said::Chunk(LogChunk { stream: stream.into(), offset, data: data.into(), dropped: 0 })
    }

    #[tokio::test]
    async fn another_stream_goes_on_behind_the_last_piece_of_each_stream() {
        let mut log = log();
        assert!(log.heard(attempt(7, "")).is_some());
        assert_eq!((log.request.token, log.request.place, log.request.tail_lines), (7, None, Some(3)));
        assert!(log.heard(chunk(LogStream::Stdout, 100, b"abc")).is_some());
        assert!(log.heard(chunk(LogStream::Stderr, 5, b"")).is_some());
        let place = LogPlace { stdout_offset: 103, stderr_offset: 5 };
        assert_eq!((log.request.place, log.request.tail_lines), (Some(place), None));
        // After a break the same is said again, and is no news; a note is.
        assert_eq!(log.heard(attempt(7, "")), None);
        assert!(log.heard(attempt(7, "its node is not connected")).is_some());
        assert!(log.heard(attempt(8, "")).is_some());
        assert_eq!((log.request.token, log.request.place), (8, Some(LogPlace::default())));
    }
}
