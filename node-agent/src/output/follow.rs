//! Reading what a command has printed so far, while it goes on printing.
//!
//! Responsible for places in a stream, for gaps between what is kept, and for the last lines and the last bytes. Not
//! responsible for when to look again, nor for whether more may come: the callers know.
//! Invariants: what is read has its right place in the stream, or is not told; nothing here holds up who writes.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use tenure_proto::limits;

use super::{Captured, Stream, append, open};

/// How often a file is looked for anew that was removed meanwhile: by then others have come.
const TRIES: u32 = 4;

/// One piece of a stream.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Piece {
    /// The place of its first byte.
    pub(crate) offset: u64,
    /// The bytes. None in the first piece of last lines, which tells only where they begin.
    pub(crate) data: Vec<u8>,
    /// Bytes before it that are not there any more.
    pub(crate) dropped: u64,
}

/// A place in a stream, from which it is read on.
#[derive(Debug)]
pub(crate) struct Follow {
    dir: PathBuf,
    stream: Stream,
    /// The next byte.
    at: u64,
    /// The file that it is read from, which begins at this byte. It stays readable after it was removed.
    file: Option<(u64, File)>,
    /// Bytes before `at` that were not there any more, and were not told yet.
    dropped: u64,
    /// Where it begins is still to be told: whoever reads chose no place.
    begins: bool,
    /// Where it ends, whatever is printed later. None: it goes on.
    until: Option<u64>,
}

impl Follow {
    /// From this byte on.
    pub(crate) fn new(dir: &Path, stream: Stream, at: u64) -> Self {
        Self { dir: dir.to_owned(), stream, at, file: None, dropped: 0, begins: false, until: None }
    }

    /// From so many lines before the present end, as far as they are kept without a gap. The first piece is empty and stands
    /// where they begin: a stream that prints nothing for a while has its place too.
    ///
    /// # Errors
    /// If what is kept cannot be read.
    pub(crate) fn last_lines(dir: &Path, stream: Stream, lines: u32) -> io::Result<Self> {
        let (begin, bytes) = kept_end(dir, stream)?;
        let skipped = u64::try_from(before_last_lines(&bytes, lines)).unwrap_or(u64::MAX);
        Ok(Self { begins: true, ..Self::new(dir, stream, begin.saturating_add(skipped)) })
    }

    /// Only up to the present end of the stream: no piece begins there or later.
    ///
    /// # Errors
    /// If what is kept cannot be read.
    pub(crate) fn up_to_now(mut self) -> io::Result<Self> {
        self.until = Some(present_end(&self.dir, self.stream)?);
        Ok(self)
    }

    /// The next piece; none, if there is nothing new.
    ///
    /// # Errors
    /// If what is kept cannot be read.
    pub(crate) fn next(&mut self) -> io::Result<Option<Piece>> {
        if std::mem::take(&mut self.begins) {
            return Ok(Some(Piece { offset: self.at, ..Piece::default() }));
        }
        if self.until.is_some_and(|until| until <= self.at) {
            return Ok(None);
        }
        for _ in 0..TRIES {
            if let Some(piece) = self.read_on()? {
                return Ok(Some(piece));
            }
            let starts = self.stream.segments(&self.dir)?;
            let here = self.file.as_ref().map(|(start, _)| *start);
            // The file that holds the next byte; if that is this one, which has no more, or none does: the one after it.
            let holds = starts.iter().rev().find(|start| **start <= self.at).copied();
            let next = match holds {
                Some(start) if here.is_none_or(|here| here < start) => Some(start),
                Some(_) | None => starts.iter().find(|start| **start > self.at).copied(),
            };
            let Some(next) = next else { return Ok(None) };
            // It may have grown before that one was begun.
            if let Some(piece) = self.read_on()? {
                return Ok(Some(piece));
            }
            match open(&self.stream.path(&self.dir, next)) {
                Ok(file) => {
                    self.dropped = self.dropped.saturating_add(next.saturating_sub(self.at));
                    self.at = self.at.max(next);
                    self.file = Some((next, file));
                }
                // Removed meanwhile: others have come.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        Ok(None)
    }

    /// What the open file has at the place.
    fn read_on(&mut self) -> io::Result<Option<Piece>> {
        let Some((start, file)) = &self.file else { return Ok(None) };
        let mut data = vec![0; limits::LOG_PIECE_BYTES];
        let read = file.read_at(&mut data, self.at.saturating_sub(*start))?;
        if read == 0 {
            return Ok(None);
        }
        data.truncate(read);
        let piece = Piece { offset: self.at, data, dropped: std::mem::take(&mut self.dropped) };
        self.at = self.at.saturating_add(read as u64);
        Ok(Some(piece))
    }
}

/// How many bytes the stream has by now.
fn present_end(dir: &Path, stream: Stream) -> io::Result<u64> {
    for _ in 0..TRIES {
        let Some(start) = stream.segments(dir)?.last().copied() else { return Ok(0) };
        match open(&stream.path(dir, start)) {
            Ok(file) => return Ok(start.saturating_add(file.metadata()?.len())),
            // Removed meanwhile: others have come.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    Ok(0)
}

/// What is kept up to the end without a gap, and where it begins.
fn kept_end(dir: &Path, stream: Stream) -> io::Result<(u64, Vec<u8>)> {
    let (mut begin, mut kept) = (0_u64, Vec::new());
    for start in stream.segments(dir)? {
        if begin.saturating_add(kept.len() as u64) != start {
            kept.clear();
        }
        if kept.is_empty() {
            begin = start;
        }
        append(&mut kept, &stream.path(dir, start))?;
    }
    Ok((begin, kept))
}

/// How many bytes stand before the last so many lines. A newline at the very end ends the last one.
fn before_last_lines(bytes: &[u8], lines: u32) -> usize {
    let Some(mut more) = lines.checked_sub(1) else { return bytes.len() };
    let whole = bytes.strip_suffix(b"\n").unwrap_or(bytes);
    for (place, _) in whole.iter().enumerate().rev().filter(|(_, byte)| **byte == b'\n') {
        match more.checked_sub(1) {
            Some(left) => more = left,
            None => return place + 1,
        }
    }
    0
}

/// Of a command that has ended: how many bytes it printed, and the last of them, at most so many. None: it printed nothing.
/// If the disk refused the last ones, there are none.
pub(crate) fn end_of(dir: &Path, stream: Stream, captured: Captured, most: usize) -> Option<(u64, Vec<u8>)> {
    let (begin, mut kept) = kept_end(dir, stream).unwrap_or_else(|error| {
        tracing::warn!(%error, "the end of what a command printed cannot be read");
        (0, Vec::new())
    });
    let end = begin.saturating_add(kept.len() as u64);
    // Of a shim that died nothing is known but what stands there.
    let total = captured.bytes.max(end);
    if end < total {
        kept.clear();
    }
    kept.drain(..kept.len().saturating_sub(most));
    (total > 0).then_some((total, kept))
}

#[cfg(test)]
mod tests {
    use super::super::{Capture, HEAD_BYTES, Segment, TAIL_BYTES};
    use super::*;

    fn lines(range: std::ops::Range<usize>) -> Vec<u8> {
        range.flat_map(|n| format!("line {n:09}\n").into_bytes()).collect()
    }

    /// Everything that there is now, checked against the whole stream; the bytes that were dropped.
    fn read_all(follow: &mut Follow, all: &[u8]) -> (u64, u64) {
        let (mut read, mut dropped) = (0, 0);
        while let Some(piece) = follow.next().unwrap() {
            let from = usize::try_from(piece.offset).unwrap();
            assert_eq!(all.get(from..from + piece.data.len()), Some(piece.data.as_slice()), "at {from}");
            assert!(piece.data.len() <= limits::LOG_PIECE_BYTES);
            (read, dropped) = (read + piece.data.len() as u64, dropped + piece.dropped);
        }
        (read, dropped)
    }

    #[test]
    fn a_reader_that_keeps_up_misses_nothing_over_many_files() {
        let dir = tempfile::tempdir().unwrap();
        let mut capture = Capture::new(dir.path(), Stream::Stdout);
        let mut follow = Follow::new(dir.path(), Stream::Stdout, 0);
        assert_eq!(follow.next().unwrap(), None, "nothing was printed yet");
        let all = lines(0..600_000); // 9 MB
        let mut total = 0;
        for chunk in all.chunks(300_001) {
            capture.push(chunk);
            let (read, dropped) = read_all(&mut follow, &all);
            assert_eq!((read, dropped), (chunk.len() as u64, 0));
            total += read;
        }
        assert_eq!(total, all.len() as u64);
    }

    #[test]
    fn a_reader_that_is_too_slow_is_told_how_much_it_missed() {
        let dir = tempfile::tempdir().unwrap();
        let mut capture = Capture::new(dir.path(), Stream::Stdout);
        let mut follow = Follow::new(dir.path(), Stream::Stdout, 0);
        let all = lines(0..600_000);
        let (first, rest) = all.split_at(100_000);
        capture.push(first);
        assert_eq!(read_all(&mut follow, &all), (100_000, 0));
        capture.push(rest);
        let (read, dropped) = read_all(&mut follow, &all);
        assert_eq!(read + dropped, rest.len() as u64);
        assert!(read >= HEAD_BYTES - 100_000 + TAIL_BYTES && dropped > 0, "{read} read, {dropped} dropped");
        // Who comes later gets the same.
        let late = read_all(&mut Follow::new(dir.path(), Stream::Stdout, 0), &all);
        assert_eq!(late, (read + 100_000, dropped));
        let later = Follow::new(dir.path(), Stream::Stdout, all.len() as u64 - 10);
        assert_eq!(read_all(&mut { later }, &all), (10, 0));
    }

    #[test]
    fn a_reader_that_does_not_wait_ends_though_the_command_prints_without_pause() {
        let dir = tempfile::tempdir().unwrap();
        let mut capture = Capture::new(dir.path(), Stream::Stdout);
        let nothing = Follow::new(dir.path(), Stream::Stdout, 0).up_to_now().unwrap();
        let all = lines(0..900_000); // 13.5 MB: files come and go meanwhile
        let (first, later) = all.split_at(3_000_000);
        capture.push(first);
        assert_eq!(read_all(&mut { nothing }, &all), (0, 0), "there was nothing yet");
        let mut follow = Follow::new(dir.path(), Stream::Stdout, 0).up_to_now().unwrap();
        let (mut told, mut later) = (0, later.chunks(2 * limits::LOG_PIECE_BYTES));
        while let Some(piece) = follow.next().unwrap() {
            told += piece.data.len() as u64 + piece.dropped;
            capture.push(later.next().expect("it ends before the command does"));
        }
        let end = first.len() as u64;
        assert!(told >= end, "{told} of {end}");
    }

    #[test]
    fn what_was_open_is_read_to_its_end_after_it_was_removed() {
        let dir = tempfile::tempdir().unwrap();
        let mut capture = Capture::new(dir.path(), Stream::Stderr);
        let mut follow = Follow::new(dir.path(), Stream::Stderr, 0);
        capture.push(b"one\n");
        assert_eq!(read_all(&mut follow, b"one\ntwo\n"), (4, 0));
        capture.push(b"two\n");
        std::fs::remove_file(Stream::Stderr.path(dir.path(), 0)).unwrap();
        assert_eq!(read_all(&mut follow, b"one\ntwo\n"), (4, 0));
    }

    #[test]
    fn a_gap_that_the_disk_made_is_told_and_nothing_gets_a_wrong_place() {
        let dir = tempfile::tempdir().unwrap();
        let mut capture = Capture::new(dir.path(), Stream::Stdout);
        let all = lines(0..90_000); // 1.35 MB
        let (first, rest) = all.split_at(400_000);
        let (refused, last) = rest.split_at(50_000);
        capture.push(first);
        // A directory in its place: the file of the tail cannot be made anew.
        let tail = Stream::Stdout.path(dir.path(), HEAD_BYTES);
        capture.tail = Segment::default();
        let place = Stream::Stdout.path(dir.path(), 400_000);
        std::fs::create_dir(&place).unwrap();
        capture.push(refused);
        std::fs::remove_dir(&place).unwrap();
        capture.push(last);
        assert!(tail.exists() && capture.captured().truncated);
        let read = read_all(&mut Follow::new(dir.path(), Stream::Stdout, 0), &all);
        assert_eq!(read, (all.len() as u64 - 50_000, 50_000));
        let (total, end) = end_of(dir.path(), Stream::Stdout, capture.captured(), 100).unwrap();
        assert_eq!((total, end.as_slice()), (all.len() as u64, &all[all.len() - 100..]));
    }

    #[test]
    fn the_last_lines_begin_where_a_line_begins() {
        let from = |bytes: &[u8], lines| bytes.len() - before_last_lines(bytes, lines);
        for (lines, length) in [(0, 0), (1, 2), (2, 4), (3, 6), (9, 6)] {
            assert_eq!(from(b"a\nb\nc\n", lines), length, "{lines} lines");
        }
        assert_eq!((from(b"a\nb", 1), from(b"", 3), from(b"\n\n", 1)), (1, 0, 1));
        let dir = tempfile::tempdir().unwrap();
        let mut capture = Capture::new(dir.path(), Stream::Stdout);
        let all = lines(0..40_000); // over the head and into the tail
        capture.push(&all);
        let mut follow = Follow::last_lines(dir.path(), Stream::Stdout, 30_000).unwrap();
        let begins = Piece { offset: 10_000 * 15, ..Piece::default() };
        assert_eq!(follow.next().unwrap(), Some(begins));
        assert_eq!(read_all(&mut follow, &all), (30_000 * 15, 0));
        let mut silent = Follow::last_lines(dir.path(), Stream::Stderr, 10).unwrap();
        assert_eq!(silent.next().unwrap(), Some(Piece::default()), "it begins at its beginning");
        assert_eq!(silent.next().unwrap(), None);
    }

    #[test]
    fn the_end_of_a_stream_is_its_last_bytes_or_none() {
        let dir = tempfile::tempdir().unwrap();
        let mut capture = Capture::new(dir.path(), Stream::Stdout);
        let none = end_of(dir.path(), Stream::Stdout, capture.captured(), 4);
        assert_eq!(none, None);
        capture.push(b"one\ntwo\n");
        // What is known of a shim that died is nothing.
        for captured in [capture.captured(), Captured::default()] {
            assert_eq!(end_of(dir.path(), Stream::Stdout, captured, 4), Some((8, b"two\n".to_vec())));
        }
        let more = Captured { bytes: 9, truncated: true };
        assert_eq!(end_of(dir.path(), Stream::Stdout, more, 4), Some((9, Vec::new())));
    }

    #[test]
    fn a_link_is_no_output() {
        let dir = tempfile::tempdir().unwrap();
        let secret = dir.path().join("secret");
        std::fs::write(&secret, b"secret").unwrap();
        std::os::unix::fs::symlink(&secret, Stream::Stdout.path(dir.path(), 0)).unwrap();
        assert!(Follow::new(dir.path(), Stream::Stdout, 0).next().is_err());
    }
}
