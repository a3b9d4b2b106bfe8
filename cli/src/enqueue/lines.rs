//! A file of jobs: one JSON text on each line, read as it comes.
//!
//! Invariant: the ids that lines get are those of their run and their number, so that the same run of the same file is
//! the same jobs; a file that was changed in between is refused as such by the server, and never doubled.

use std::io;
use std::os::fd::AsFd;
use std::path::Path;

use tenure_client::proto::JobSpec;
use tokio::fs::File;
use tokio::io::{AsyncBufRead, AsyncBufReadExt, BufReader};
use uuid::Uuid;

use crate::json;

/// Bytes of one line. A payload of 256 KiB takes 342 KiB there.
const MOST_LINE: usize = 1024 * 1024;
/// Bytes read at once.
const BUFFER: usize = 64 * 1024;

/// The lines of a file or of stdin.
pub(crate) struct Lines {
    reader: Box<dyn AsyncBufRead + Unpin>,
    /// What has been read of the present line.
    partial: Vec<u8>,
    /// It is longer than a line may be: its rest is skipped.
    too_long: bool,
    number: u32,
    bytes: u64,
}

/// One line that is not blank.
#[derive(Debug, PartialEq)]
pub(crate) struct Line {
    /// From 1.
    pub(crate) number: u32,
    /// The job, or what is wrong with the line.
    pub(crate) job: Result<Box<JobSpec>, String>,
}

impl Lines {
    /// Opens a file; `-` is stdin. Its size, if it has one.
    pub(crate) async fn open(path: &Path) -> io::Result<(Self, Option<u64>)> {
        if path.as_os_str() == "-" {
            let stdin = std::fs::File::from(io::stdin().as_fd().try_clone_to_owned()?);
            return Ok((Self::new(BufReader::with_capacity(BUFFER, File::from_std(stdin))), None));
        }
        let file = File::open(path).await?;
        let metadata = file.metadata().await?;
        let size = metadata.is_file().then_some(metadata.len());
        Ok((Self::new(BufReader::with_capacity(BUFFER, file)), size))
    }

    fn new(reader: impl AsyncBufRead + Unpin + 'static) -> Self {
        Self { reader: Box::new(reader), partial: Vec::new(), too_long: false, number: 0, bytes: 0 }
    }

    /// Bytes read so far.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The next line that is not blank; none at the end. Cancel-safe: what was read of a line stays.
    pub(crate) async fn next(&mut self) -> io::Result<Option<Line>> {
        loop {
            let read = self.reader.fill_buf().await?;
            let at_end = read.is_empty();
            let newline = read.iter().position(|&byte| byte == b'\n');
            let (part, used) = match newline {
                Some(at) => (read.get(..at).unwrap_or_default(), at + 1),
                None => (read, read.len()),
            };
            if self.partial.len() + part.len() > MOST_LINE {
                self.too_long = true;
                self.partial.clear();
            } else if !self.too_long {
                self.partial.extend_from_slice(part);
            }
            self.reader.consume(used);
            self.bytes += used as u64;
            if newline.is_none() && !at_end {
                continue;
            }
            let line = self.whole();
            if line.is_some() || at_end {
                return Ok(line);
            }
        }
    }

    /// The present line is whole; none if it is blank.
    fn whole(&mut self) -> Option<Line> {
        self.number = self.number.saturating_add(1);
        let too_long = std::mem::take(&mut self.too_long);
        let bytes = std::mem::take(&mut self.partial);
        let job = if too_long {
            Err(format!("is longer than {MOST_LINE} bytes"))
        } else {
            match std::str::from_utf8(&bytes) {
                Err(_) => Err("is no UTF-8".to_owned()),
                Ok(text) if text.trim().is_empty() => return None,
                Ok(text) => check(text),
            }
        };
        Some(Line { number: self.number, job })
    }
}

/// What can be told without a server.
fn check(text: &str) -> Result<Box<JobSpec>, String> {
    let spec = json::job_spec(text.trim())?;
    if spec.kind.is_empty() {
        return Err("kind: is required".to_owned());
    }
    if !spec.job_id.is_empty() && Uuid::try_parse(&spec.job_id).is_err() {
        return Err("jobId: is no UUID with hyphens".to_owned());
    }
    Ok(Box::new(spec))
}

/// A fresh run.
pub(super) fn new_run() -> Uuid {
    Uuid::now_v7()
}

/// The name of a run as it was printed.
pub(super) fn run_id(text: &str) -> Result<Uuid, String> {
    let run = Uuid::try_parse(text).ok().filter(|run| run.get_version_num() == 7);
    run.ok_or_else(|| "write the run as it was printed, a UUID v7".to_owned())
}

/// The id of the job on a line of a run: a UUID v7 with the time of the run, then the number of the line, then what the
/// run has of randomness, spread by the number. So ids of a run rise with the lines, those of two runs differ, and the
/// last 8 digits of any two of a run differ: people name jobs by these.
pub(super) fn job_id(run: Uuid, line: u32) -> Uuid {
    const TIME: u128 = !0 << 80;
    const RANDOM_BITS: u32 = 42;
    const RANDOM: u128 = (1 << RANDOM_BITS) - 1;
    // Odd, so that no two numbers of 32 bits meet in the last 32 bits.
    const SPREAD: u128 = 0x9e37_79b9_7f4a_7c15;
    let (high, low) = (u128::from(line >> 20), u128::from(line & 0xf_ffff));
    let run = run.as_u128();
    let end = run.wrapping_add(u128::from(line) * SPREAD) & RANDOM;
    Uuid::from_u128(run & TIME | 7 << 76 | high << 64 | 0b10 << 62 | low << RANDOM_BITS | end)
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn read(text: &'static [u8]) -> Vec<Line> {
        let mut lines = Lines::new(BufReader::with_capacity(7, text));
        let mut all = Vec::new();
        while let Some(line) = lines.next().await.unwrap() {
            all.push(line);
        }
        assert_eq!(lines.bytes(), text.len() as u64);
        all
    }

    #[tokio::test]
    async fn blank_lines_count_and_the_last_needs_no_newline() {
        let lines = read(b"{\"kind\":\"a\"}\n\n  \r\n{\"kind\":\"b\",\"priority\":-3}").await;
        let jobs: Vec<_> = lines.iter().map(|line| (line.number, line.job.as_ref().unwrap())).collect();
        assert_eq!((jobs[0].0, jobs[0].1.kind.as_str()), (1, "a"));
        assert_eq!((jobs[1].0, jobs[1].1.kind.as_str(), jobs[1].1.priority), (4, "b", Some(-3)));
        assert_eq!(jobs.len(), 2);
    }

    #[tokio::test]
    async fn each_mistake_is_of_its_line_and_says_what_it_is() {
        let lines = read(
            b"{\"kind\":\"a\",\"prio\":1}\n{}\nnot json\n{\"kind\":\"a\",\"jobId\":\"x\"}\n\xff\n{\"kind\":\"a\"} {}\n",
        )
        .await;
        let words = ["prio", "kind: is required", "", "jobId", "UTF-8", "trailing"];
        assert_eq!(lines.len(), words.len());
        for ((line, word), number) in lines.iter().zip(words).zip(1..) {
            assert_eq!(line.number, number);
            let mistake = line.job.as_ref().unwrap_err();
            assert!(mistake.contains(word), "{number}: {mistake}");
        }
    }

    #[tokio::test]
    async fn a_line_without_end_takes_no_memory_and_the_next_one_is_read() {
        let mut text = vec![b'x'; 3 * MOST_LINE];
        text.extend_from_slice(b"\n{\"kind\":\"a\"}\n");
        let lines = read(text.leak()).await;
        assert!(lines[0].job.as_ref().unwrap_err().contains("longer"));
        assert_eq!((lines[1].number, lines[1].job.is_ok()), (2, true));
    }

    #[test]
    fn the_ids_of_a_run_are_the_same_each_time_and_rise_with_its_lines() {
        let (run, other) = (new_run(), new_run());
        let mut last = Uuid::nil();
        for line in [1, 2, 3, 0xf_ffff, 0x10_0000, u32::MAX] {
            let id = job_id(run, line);
            assert_eq!(id, job_id(run, line));
            assert_ne!(id, job_id(other, line));
            assert_eq!((id.get_version_num(), id.get_variant()), (7, uuid::Variant::RFC4122));
            assert!(last < id);
            last = id;
        }
        let ends: std::collections::BTreeSet<u32> = (0..100_000)
            .map(|line| job_id(run, line).as_fields().3[4..].try_into().map(u32::from_be_bytes).unwrap())
            .collect();
        assert_eq!(ends.len(), 100_000, "the last 8 digits tell them apart");
        assert_eq!(run_id(&run.to_string()), Ok(run));
        run_id("x").unwrap_err();
        run_id("00000000-0000-4000-8000-000000000000").unwrap_err();
    }
}
