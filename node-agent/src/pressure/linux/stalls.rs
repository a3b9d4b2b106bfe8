//! Pressure stall information: for how much of a window tasks waited for a resource.
//!
//! Responsible for windows of our own, from the totals: the kernel's averages lag behind by seconds, and are used
//! only until a window is filled. Read by hand, since cpu stalls have no `full` line on older kernels.
//! Invariant: a percentage is never above 100.

use std::collections::VecDeque;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::Failure;
use crate::clock::Mono;
use crate::pressure::settings::approximate;
use crate::pressure::signals::{Stalled, Window};

/// Readings that are kept: a minute of them at one a second, and some.
const KEPT: usize = 80;
/// Readings closer together than this replace each other, so that the list reaches back a whole window.
const SPACING: Duration = Duration::from_millis(900);

/// The stalls of one resource: of the host, and of the own cgroup if it has a file of its own.
#[derive(Debug, Default)]
pub(super) struct Stalls {
    sources: [Source; 2],
}

/// One stall file.
#[derive(Debug, Default)]
struct Source {
    last: Option<Result<Reading, Failure>>,
    history: VecDeque<(Mono, Reading)>,
}

/// What the file says.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Reading {
    some: Option<Line>,
    full: Option<Line>,
}

/// One line of it.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Line {
    avg10: f64,
    avg60: f64,
    /// Microseconds since boot.
    total: u64,
}

impl Stalls {
    /// Reads the files that there are.
    pub(super) fn read(&mut self, now: Mono, files: &[Option<PathBuf>; 2]) {
        for (source, file) in self.sources.iter_mut().zip(files) {
            source.read(now, file.as_deref());
        }
    }

    /// Percent of the window, of the source that stalls more.
    pub(super) fn average(&self, now: Mono, stalled: Stalled, window: Window) -> Result<f64, Failure> {
        let [host, own] = &self.sources;
        let host = host.average(now, stalled, window);
        match (host, own.average(now, stalled, window)) {
            (Ok(host), Ok(own)) => Ok(host.max(own)),
            (Err(Failure::Unsupported), own) => own,
            (host, Ok(_) | Err(_)) => host,
        }
    }
}

impl Source {
    fn read(&mut self, now: Mono, file: Option<&Path>) {
        let read =
            file.ok_or(Failure::Unsupported).and_then(|file| Reading::parse(&fs::read_to_string(file)?));
        if let Ok(reading) = read {
            if self.history.len() >= 2 && self.history.back().is_some_and(|(at, _)| now.since(*at) < SPACING)
            {
                self.history.pop_back();
            }
            self.history.push_back((now, reading));
            while self.history.len() > KEPT {
                self.history.pop_front();
            }
        }
        self.last = Some(read);
    }

    fn average(&self, now: Mono, stalled: Stalled, window: Window) -> Result<f64, Failure> {
        let reading = self.last.unwrap_or(Err(Failure::Unknown))?;
        let line = reading.line(stalled).ok_or(Failure::Unsupported)?;
        let (length, kernels) = match window {
            Window::Avg10 => (Duration::from_secs(10), line.avg10),
            Window::Avg60 => (Duration::from_secs(60), line.avg60),
        };
        // The newest reading that is at least a window old: slightly more than the window is averaged, never less.
        let begin = self.history.iter().rev().find(|(at, _)| now.since(*at) >= length);
        let Some((at, before)) = begin.and_then(|(at, before)| Some((at, before.line(stalled)?))) else {
            return Ok(kernels);
        };
        let waited = line.total.checked_sub(before.total).ok_or(Failure::Unknown)?;
        let percent = approximate(waited) / (now.since(*at).as_secs_f64() * 1_000_000.0) * 100.0;
        Ok(percent.min(100.0))
    }
}

impl Reading {
    fn parse(text: &str) -> Result<Self, Failure> {
        let mut reading = Self::default();
        for line in text.lines() {
            let mut words = line.split_whitespace();
            match words.next() {
                Some("some") => reading.some = Some(Line::parse(words)?),
                Some("full") => reading.full = Some(Line::parse(words)?),
                // A line that a later kernel adds.
                Some(_) | None => {}
            }
        }
        if reading.some.is_some() { Ok(reading) } else { Err(Failure::Unknown) }
    }

    fn line(&self, stalled: Stalled) -> Option<Line> {
        match stalled {
            Stalled::Some => self.some,
            Stalled::Full => self.full,
        }
    }
}

impl Line {
    fn parse<'a>(words: impl Iterator<Item = &'a str>) -> Result<Self, Failure> {
        let (mut avg10, mut avg60, mut total) = (None, None, None);
        for (name, number) in words.filter_map(|word| word.split_once('=')) {
            match name {
                "avg10" => avg10 = number.parse().ok(),
                "avg60" => avg60 = number.parse().ok(),
                "total" => total = number.parse().ok(),
                _ => {}
            }
        }
        match (avg10, avg60, total) {
            (Some(avg10), Some(avg60), Some(total)) => Ok(Self { avg10, avg60, total }),
            _ => Err(Failure::Unknown),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Mono {
        Mono::from_micros(seconds * 1_000_000)
    }

    fn source(totals: impl IntoIterator<Item = (u64, u64)>) -> Source {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("memory");
        let mut source = Source::default();
        for (second, total) in totals {
            fs::write(&file, format!("some avg10=1.50 avg60=0.50 avg300=0.00 total={total}\n")).unwrap();
            source.read(at(second), Some(&file));
        }
        source
    }

    #[test]
    fn the_kernels_average_counts_until_the_window_is_filled() {
        let source = source([(0, 0), (5, 5_000_000)]);
        assert_eq!(source.average(at(5), Stalled::Some, Window::Avg10), Ok(1.5));
        assert_eq!(source.average(at(5), Stalled::Some, Window::Avg60), Ok(0.5));
    }

    #[test]
    fn a_filled_window_is_averaged_from_the_totals() {
        let source = source((0..=60).map(|second| (second, u64::saturating_sub(second, 50) * 500_000)));
        assert_eq!(source.average(at(60), Stalled::Some, Window::Avg10), Ok(50.0));
        let minute = source.average(at(60), Stalled::Some, Window::Avg60).unwrap();
        assert!((minute - 8.333).abs() < 0.01, "{minute}");
    }

    #[test]
    fn a_missing_line_is_unsupported_and_a_total_that_falls_unknown() {
        let source = source([(0, 9), (10, 5)]);
        assert_eq!(source.average(at(10), Stalled::Full, Window::Avg10), Err(Failure::Unsupported));
        assert_eq!(source.average(at(10), Stalled::Some, Window::Avg10), Err(Failure::Unknown));
    }

    #[test]
    fn garbage_is_unknown() {
        for text in ["", "some", "some avg10=x avg60=0 total=1", "nothing at all"] {
            assert_eq!(Reading::parse(text), Err(Failure::Unknown), "{text}");
        }
    }
}
