//! Bounded capture of what a command prints: the first 256 KiB and the last 1 MiB of each stream.
//!
//! Responsible for the files in the attempt directory, the counters, and the last lines that explain a failure. Not
//! responsible for reading the pipes in time: that is the shim's loop; nor for who reads the files meanwhile
//! (`output/follow.rs`).
//! Invariants: a write waits for nothing but the local disk, and a disk that is full loses output, never the job; the name
//! of each file says where in the stream it begins, and what stands in it has no hole.

mod follow;

use std::collections::VecDeque;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use serde::{Deserialize, Serialize};

pub(crate) use self::follow::{Follow, Piece, end_of};

/// The head of each stream that is kept, in bytes. A longer `stdout` is no inline result.
pub const HEAD_BYTES: u64 = 256 * 1024;
/// The tail of each stream that is kept, in bytes. Up to twice as much stands on the disk.
pub const TAIL_BYTES: u64 = 1024 * 1024;
/// Files of a tail, those that a refusing disk cut short included.
const MOST_SEGMENTS: usize = 8;
/// The longest error text, in bytes.
pub const ERROR_BYTES: usize = 4 * 1024;

/// One of the two streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

/// What became of one stream.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Captured {
    /// Bytes that the command wrote.
    pub bytes: u64,
    /// Whether some of them were not kept: there were too many, or the disk was full. A stream of at most
    /// [`HEAD_BYTES`] that is not truncated is whole in its head.
    pub truncated: bool,
}

/// Reads the kept head of a stream: its first [`HEAD_BYTES`], all of it if it was not longer. A stream that
/// wrote nothing is empty.
pub fn read_head(dir: &Path, stream: Stream) -> io::Result<Vec<u8>> {
    let mut head = Vec::new();
    append(&mut head, &stream.path(dir, 0))?;
    Ok(head)
}

/// Reads the kept tail of a stream: what came after the head, at most its last [`TAIL_BYTES`].
pub fn read_tail(dir: &Path, stream: Stream) -> io::Result<Vec<u8>> {
    let mut tail = Vec::new();
    for start in stream.segments(dir)?.into_iter().filter(|start| *start > 0) {
        append(&mut tail, &stream.path(dir, start))?;
    }
    let limit = usize::try_from(TAIL_BYTES).unwrap_or(usize::MAX);
    tail.drain(..tail.len().saturating_sub(limit));
    Ok(tail)
}

impl Stream {
    fn name(self) -> &'static str {
        match self {
            Self::Stdout => "stdout",
            Self::Stderr => "stderr",
        }
    }

    /// The file that begins with this byte of the stream.
    fn path(self, dir: &Path, start: u64) -> PathBuf {
        let stream = self.name();
        dir.join(if start == 0 { format!("{stream}.head") } else { format!("{stream}.tail.{start}") })
    }

    /// Where the files of the stream begin, in order. Those of a shim before this version are told by their head alone: the
    /// names of the others do not say where they belong.
    fn segments(self, dir: &Path) -> io::Result<Vec<u64>> {
        let mut starts = Vec::new();
        let entries = match fs::read_dir(dir) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(starts),
            entries => entries?,
        };
        for entry in entries {
            let name = entry?.file_name();
            let part = name.to_str().and_then(|name| name.strip_prefix(self.name())?.strip_prefix('.'));
            match part {
                Some("head") => starts.push(0),
                Some(part) => {
                    starts.extend(part.strip_prefix("tail.").and_then(|start| start.parse::<u64>().ok()))
                }
                None => {}
            }
        }
        starts.sort_unstable();
        Ok(starts)
    }
}

/// The writing side: takes all that one stream brings and keeps what is to be kept.
#[derive(Debug)]
pub(crate) struct Capture {
    dir: PathBuf,
    stream: Stream,
    head: Segment,
    /// The file of the tail that grows.
    tail: Segment,
    /// Where the files of the tail begin, the one that grows last.
    starts: VecDeque<u64>,
    bytes: u64,
    /// The disk refused some of it.
    lost: bool,
    /// The newest bytes, at most [`ERROR_BYTES`].
    recent: Vec<u8>,
}

impl Capture {
    /// Of `stream`, into files in `dir` that are made when the first byte comes.
    pub(crate) fn new(dir: &Path, stream: Stream) -> Self {
        Self {
            dir: dir.to_owned(),
            stream,
            head: Segment::default(),
            tail: Segment::default(),
            starts: VecDeque::new(),
            bytes: 0,
            lost: false,
            recent: Vec::new(),
        }
    }

    /// Takes the next bytes of the stream.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.remember(bytes);
        let room = usize::try_from(HEAD_BYTES.saturating_sub(self.bytes)).unwrap_or(usize::MAX);
        let (head, mut rest) = bytes.split_at(bytes.len().min(room));
        self.bytes = self.bytes.saturating_add(bytes.len() as u64);
        // A head with a hole would pass for a result: after a failure nothing more is added to it.
        if !head.is_empty() && !self.lost {
            self.lost |= self.head.append(&self.stream.path(&self.dir, 0), head).is_err();
        }
        while !rest.is_empty() {
            let at = self.bytes.saturating_sub(rest.len() as u64);
            let start = match self.starts.back() {
                Some(&start) if self.tail.len > 0 && self.tail.len < TAIL_BYTES => start,
                Some(_) | None => self.begin_segment(at),
            };
            let room = usize::try_from(TAIL_BYTES.saturating_sub(self.tail.len)).unwrap_or(usize::MAX);
            let (next, later) = rest.split_at(rest.len().min(room));
            if self.tail.append(&self.stream.path(&self.dir, start), next).is_err() {
                self.lost = true;
                // What comes next stands in a file of its own, which says where it belongs.
                self.tail = Segment::default();
            }
            rest = later;
        }
    }

    /// What became of the stream so far.
    pub(crate) fn captured(&self) -> Captured {
        Captured { bytes: self.bytes, truncated: self.lost || self.bytes > HEAD_BYTES + TAIL_BYTES }
    }

    /// The last whole lines, for people: valid UTF-8 without NUL, at most [`ERROR_BYTES`].
    pub(crate) fn last_lines(&self) -> String {
        let mut bytes = self.recent.as_slice();
        if self.bytes > bytes.len() as u64
            && let Some(end) = bytes.iter().position(|byte| *byte == b'\n')
            && end + 1 < bytes.len()
        {
            bytes = bytes.get(end + 1..).unwrap_or_default();
        }
        cut_front(String::from_utf8_lossy(bytes).replace('\0', "\u{fffd}").trim_end().to_owned())
    }

    fn remember(&mut self, bytes: &[u8]) {
        self.recent
            .extend_from_slice(bytes.get(bytes.len().saturating_sub(ERROR_BYTES)..).unwrap_or_default());
        self.recent.drain(..self.recent.len().saturating_sub(ERROR_BYTES));
    }

    /// Begins a file of the tail at this byte, and removes those that are wholly before what is kept.
    fn begin_segment(&mut self, at: u64) -> u64 {
        self.tail = Segment::default();
        self.starts.push_back(at);
        // Each ends at the latest where the one after it begins.
        while let (Some(&first), Some(&second)) = (self.starts.front(), self.starts.get(1))
            && (second.saturating_add(TAIL_BYTES) <= at || self.starts.len() > MOST_SEGMENTS)
        {
            // One that cannot be removed goes with the directory.
            drop(fs::remove_file(self.stream.path(&self.dir, first)));
            self.starts.pop_front();
        }
        at
    }
}

/// Shortens a text to [`ERROR_BYTES`] by leaving out its beginning.
pub(crate) fn cut_front(text: String) -> String {
    let start = text.ceil_char_boundary(text.len().saturating_sub(ERROR_BYTES));
    if start == 0 { text } else { text.get(start..).unwrap_or_default().to_owned() }
}

/// One file that grows to a limit.
#[derive(Debug, Default)]
struct Segment {
    file: Option<File>,
    /// Bytes that it was given, written or not.
    len: u64,
}

impl Segment {
    fn append(&mut self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        self.len = self.len.saturating_add(bytes.len() as u64);
        let file = match &mut self.file {
            Some(file) => file,
            none => none.insert(create(path)?),
        };
        file.write_all(bytes)
    }
}

/// A job of the agent's own user may have put a link there: it is not followed.
fn create(path: &Path) -> io::Result<File> {
    let no_follow = OFlags::NOFOLLOW.bits().cast_signed();
    OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).custom_flags(no_follow).open(path)
}

/// Opens a file for reading; a job of the agent's own user may have put a link or a pipe there.
fn open(path: &Path) -> io::Result<File> {
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    if file.metadata()?.is_file() { Ok(file) } else { Err(io::Error::other("it is no plain file")) }
}

/// Appends what a file holds, at most [`TAIL_BYTES`]; a file that is not there is empty.
fn append(to: &mut Vec<u8>, path: &Path) -> io::Result<()> {
    match open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        file => file?.take(TAIL_BYTES).read_to_end(to).map(drop),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbered_lines(count: usize) -> Vec<u8> {
        (0..count).flat_map(|n| format!("line {n:09}\n").into_bytes()).collect()
    }

    #[test]
    fn a_short_stream_is_whole_in_its_head() {
        let dir = tempfile::tempdir().unwrap();
        let mut capture = Capture::new(dir.path(), Stream::Stdout);
        capture.push(b"one\n");
        capture.push(b"two\n");
        assert_eq!(read_head(dir.path(), Stream::Stdout).unwrap(), b"one\ntwo\n");
        assert_eq!(read_tail(dir.path(), Stream::Stdout).unwrap(), b"");
        assert_eq!(read_head(dir.path(), Stream::Stderr).unwrap(), b"");
        assert_eq!(capture.captured(), Captured { bytes: 8, truncated: false });
    }

    #[test]
    fn a_long_stream_keeps_its_first_and_last_bytes() {
        let dir = tempfile::tempdir().unwrap();
        let mut capture = Capture::new(dir.path(), Stream::Stdout);
        let all = numbered_lines(300_000); // 4.5 MB
        for chunk in all.chunks(65_536) {
            capture.push(chunk);
        }
        let head = read_head(dir.path(), Stream::Stdout).unwrap();
        let tail = read_tail(dir.path(), Stream::Stdout).unwrap();
        assert_eq!(head.len() as u64, HEAD_BYTES);
        assert_eq!(tail.len() as u64, TAIL_BYTES);
        assert!(all.starts_with(&head) && all.ends_with(&tail));
        assert_eq!(capture.captured(), Captured { bytes: all.len() as u64, truncated: true });
        let on_disk: u64 =
            fs::read_dir(dir.path()).unwrap().map(|e| e.unwrap().metadata().unwrap().len()).sum();
        assert!(on_disk <= HEAD_BYTES + 2 * TAIL_BYTES);
    }

    #[test]
    fn exactly_head_and_tail_are_not_truncated() {
        let dir = tempfile::tempdir().unwrap();
        let mut capture = Capture::new(dir.path(), Stream::Stderr);
        let all = vec![b'x'; usize::try_from(HEAD_BYTES + TAIL_BYTES).unwrap()];
        capture.push(&all);
        assert!(!capture.captured().truncated);
        capture.push(b"y");
        assert!(capture.captured().truncated);
        assert!(read_tail(dir.path(), Stream::Stderr).unwrap().ends_with(b"xy"));
    }

    #[test]
    fn a_disk_that_refuses_loses_output_and_nothing_else() {
        let mut capture = Capture::new(Path::new("/nonexistent"), Stream::Stdout);
        capture.push(b"lost");
        assert_eq!(capture.captured(), Captured { bytes: 4, truncated: true });
    }

    #[test]
    fn the_error_text_is_the_last_whole_lines() {
        let dir = tempfile::tempdir().unwrap();
        let mut capture = Capture::new(dir.path(), Stream::Stderr);
        capture.push(&numbered_lines(1_000));
        capture.push(b"the end: \xff\0\n");
        let text = capture.last_lines();
        assert!(text.starts_with("line "), "no broken first line");
        assert!(text.ends_with("the end: \u{fffd}\u{fffd}"));
        assert!(text.len() <= ERROR_BYTES);
    }

    #[test]
    fn an_error_text_never_grows_past_its_limit_by_replacement() {
        let mut capture = Capture::new(Path::new("/nonexistent"), Stream::Stderr);
        capture.push(&vec![0xff; 10_000]);
        assert!(capture.last_lines().len() <= ERROR_BYTES);
    }
}
