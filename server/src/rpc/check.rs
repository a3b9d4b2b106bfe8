//! Checks of fields that came over the wire: every mistake of a request is collected, then told at once.
//!
//! Invariant: whatever a peer sends ends in a value within its bounds or in a violation, never in a panic.

use std::{collections::BTreeMap, ops::RangeInclusive, sync::Arc, time::Duration};

use tenure_proto::limits;
use tenure_proto::v1;
use tenure_scheduler::{InvalidName, JobId, Needs, SlotName, Wall};
use uuid::Uuid;

use super::status::{No, Violation};
use crate::config::{LONGEST, label_problem, label_value_problem};

/// The most entries of needs.
const MOST_ENTRIES: usize = 16;

/// Mistakes found so far in one request.
#[derive(Debug, Default)]
pub(crate) struct Checks(Vec<Violation>);

/// Every mistake in one line: it may stand in a log, where a peer's words are escaped and short.
impl std::fmt::Display for Checks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (i, Violation { field, problem }) in self.0.iter().enumerate() {
            write!(f, "{}{field}: {problem}", if i == 0 { "" } else { "; " })?;
        }
        Ok(())
    }
}

impl Checks {
    pub(crate) fn refuse(&mut self, field: impl Into<String>, problem: impl Into<String>) {
        self.0.push(Violation { field: field.into(), problem: problem.into() });
    }

    /// Whether nothing was wrong so far.
    pub(crate) fn is_clean(&self) -> bool {
        self.0.is_empty()
    }

    /// # Errors
    /// Every mistake.
    pub(crate) fn finish(self) -> Result<(), No> {
        if self.0.is_empty() { Ok(()) } else { Err(No::invalid(self.0)) }
    }

    /// A required name of a kind, slot, node or tenant.
    pub(crate) fn name<T>(
        &mut self,
        field: &str,
        text: &str,
        parse: impl Fn(&str) -> Result<T, InvalidName>,
    ) -> Option<T> {
        if text.is_empty() {
            self.refuse(field, "is required");
            return None;
        }
        let parsed = parse(text);
        if parsed.is_err() {
            self.refuse(field, "is no name: use 1 to 63 of a-z, 0-9, dot, underscore and hyphen");
        }
        parsed.ok()
    }

    /// A name that may be absent.
    pub(crate) fn optional_name<T>(
        &mut self,
        field: &str,
        text: &str,
        parse: impl Fn(&str) -> Result<T, InvalidName>,
    ) -> Option<T> {
        if text.is_empty() { None } else { self.name(field, text, parse) }
    }

    /// A required id of a job.
    pub(crate) fn job_id(&mut self, field: &str, text: &str) -> Option<JobId> {
        if text.is_empty() {
            self.refuse(field, "is required");
            return None;
        }
        self.optional_job_id(field, text)
    }

    /// An id of a job that may be absent.
    pub(crate) fn optional_job_id(&mut self, field: &str, text: &str) -> Option<JobId> {
        if text.is_empty() {
            return None;
        }
        // One spelling only: an id is compared as text by people and scripts.
        let parsed = (text.len() == 36).then(|| Uuid::try_parse(text).ok()).flatten();
        if parsed.is_none() {
            self.refuse(field, "is no UUID with hyphens");
        }
        parsed.map(JobId)
    }

    /// The beginning or end of an id that may be absent.
    pub(crate) fn optional_id_part(&mut self, field: &str, text: &str) -> Option<String> {
        let fine = (4..=35).contains(&text.len())
            && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f' | b'-'));
        if !fine && !text.is_empty() {
            self.refuse(field, "must be 4 to 35 lower-case hexadecimal digits and hyphens");
        }
        fine.then(|| text.to_owned())
    }

    /// A text of limited length without NUL; absent if empty.
    pub(crate) fn text(&mut self, field: &str, text: &str, most: usize) -> Option<Arc<str>> {
        if text.is_empty() {
            return None;
        }
        if text.len() > most {
            self.refuse(field, format!("is longer than {most} bytes"));
        } else if text.contains('\0') {
            self.refuse(field, "holds a NUL character");
        } else {
            return Some(text.into());
        }
        None
    }

    /// A text of limited length in visible ASCII: it is handed on in headers and environments.
    pub(crate) fn ascii(&mut self, field: &str, text: &str, most: usize) -> Option<Arc<str>> {
        let checked = self.text(field, text, most)?;
        if text.bytes().all(|b| (0x20..0x7f).contains(&b)) {
            return Some(checked);
        }
        self.refuse(field, "must be printable ASCII");
        None
    }

    /// A length of time within bounds, if it is there; in whole microseconds, as it is stored: bounds are whole ones.
    pub(crate) fn duration(
        &mut self,
        field: &str,
        duration: Option<&prost_types::Duration>,
        within: RangeInclusive<Duration>,
    ) -> Option<Duration> {
        let duration = duration?;
        let nanos_fit = (-999_999_999..=999_999_999).contains(&duration.nanos);
        if !nanos_fit
            || (duration.seconds > 0 && duration.nanos < 0)
            || (duration.seconds < 0 && duration.nanos > 0)
        {
            self.refuse(field, "is no duration: its parts differ in sign or are out of range");
            return None;
        }
        if duration.seconds < 0 || duration.nanos < 0 {
            self.refuse(field, "is negative");
            return None;
        }
        let length = Duration::new(duration.seconds.unsigned_abs(), duration.nanos.unsigned_abs());
        if within.contains(&length) {
            return Some(whole_micros(length));
        }
        let [low, high] = [within.start(), within.end()].map(|&bound| humantime::format_duration(bound));
        if length < *within.start() {
            self.refuse(field, format!("must be at least {low}"));
        } else {
            self.refuse(field, format!("must be at most {high}"));
        }
        None
    }

    /// An instant, if it is there; in whole microseconds.
    pub(crate) fn timestamp(&mut self, field: &str, at: Option<&prost_types::Timestamp>) -> Option<Wall> {
        /// 0001-01-01 to 9999-12-31, as the type of the wire says.
        const SECONDS: RangeInclusive<i64> = -62_135_596_800..=253_402_300_799;
        let at = at?;
        if !SECONDS.contains(&at.seconds) || !(0..=999_999_999).contains(&at.nanos) {
            self.refuse(field, "is no timestamp between the years 1 and 9999");
            return None;
        }
        Some(Wall(at.seconds * 1_000_000 + i64::from(at.nanos / 1000)))
    }

    /// Labels, or values that labels must have.
    pub(crate) fn labels(
        &mut self,
        field: &str,
        labels: &BTreeMap<String, String>,
        most: usize,
    ) -> BTreeMap<String, String> {
        if labels.len() > most {
            self.refuse(field, format!("holds {} entries, at most {most} are allowed", labels.len()));
            return BTreeMap::new();
        }
        for (key, value) in labels {
            // The key may be anything, so that it is shown escaped and cut.
            let shown: String = key.chars().take(63).collect();
            if let Some(problem) = label_problem(key) {
                self.refuse(format!("{field}[{shown:?}]"), problem);
            }
            if let Some(problem) = label_value_problem(value) {
                self.refuse(format!("{field}[{shown:?}]"), problem);
            }
        }
        labels.clone()
    }

    /// Needs, if they are named.
    pub(crate) fn needs(&mut self, field: &str, needs: Option<&v1::Needs>) -> Option<Needs> {
        let slots = &needs?.slots;
        if slots.len() > MOST_ENTRIES {
            let problem = format!("names {} slots, at most {MOST_ENTRIES} are allowed", slots.len());
            self.refuse(format!("{field}.slots"), problem);
            return None;
        }
        let mut amounts = BTreeMap::new();
        for (i, v1::SlotAmount { slot, amount }) in slots.iter().enumerate() {
            let name = self.name(&format!("{field}.slots[{i}].slot"), slot, SlotName::parse);
            if !(1..=limits::SLOT_UNITS).contains(amount) {
                self.refuse(
                    format!("{field}.slots[{i}].amount"),
                    format!("must be 1 to {most}", most = limits::SLOT_UNITS),
                );
            }
            if let Some(name) = name
                && amounts.insert(name, *amount).is_some()
            {
                self.refuse(format!("{field}.slots[{i}].slot"), "is named twice");
            }
        }
        Some(Needs::new(amounts))
    }

    /// A value of an enum that the server knows, or its zero.
    pub(crate) fn choice<E: TryFrom<i32> + Default>(&mut self, field: &str, value: i32) -> E {
        E::try_from(value).unwrap_or_else(|_| {
            self.refuse(field, format!("{value} is unknown"));
            E::default()
        })
    }

    /// A priority.
    pub(crate) fn priority(&mut self, field: &str, priority: i32) -> Option<i8> {
        let fits = i8::try_from(priority).ok().filter(|priority| (-100..=100).contains(priority));
        if fits.is_none() {
            self.refuse(field, "must be -100 to 100");
        }
        fits
    }
}

/// The whole microseconds of a length of time. What is finer would be lost with the next reload.
fn whole_micros(length: Duration) -> Duration {
    Duration::new(length.as_secs(), length.subsec_micros() * 1000)
}

/// Lengths of time from zero to the longest.
pub(crate) const ANY_LENGTH: RangeInclusive<Duration> = Duration::ZERO..=LONGEST;

/// Lengths of time that limit something.
pub(crate) const LIMITS: RangeInclusive<Duration> = Duration::from_millis(1)..=LONGEST;
