//! Which instants a timetable has, in the local time of its zone: the arithmetic that the scheduler does not do.
//!
//! Responsible for reading timetables and zones, and for the plans that the driver hands to the scheduler. Not for what
//! becomes of an instant. The zone database is the one that was built in: servers of one version agree, whatever their
//! hosts have. Between two changes of a zone's offset local time runs like any other, so a timetable is walked stretch by
//! stretch, and what a change means is said in one place.
//!
//! A timetable whose fields of time are all fixed (`30 2`, `0 8,20`) means local times: one that a change skips fires at
//! the first instant after the change, and one that comes twice fires the first time. All others (`*/10`, `0 *`) are
//! intervals: they fire whenever local time says so, which by elapsed time is evenly.

use std::{fmt, sync::LazyLock};

use croner::{
    Cron, Weekday,
    parser::{CronParser, Seconds, Year},
};
use jiff::{
    Timestamp,
    civil::Date,
    tz::{TimeZone, TimeZoneDatabase},
};
use tenure_scheduler::{CronEntry, CronPlan, MOST_CAUGHT_UP, Wall};

#[cfg(test)]
mod tests;

/// Instants beyond the present that a plan has.
const AHEAD: usize = 16;

/// A timetable without an instant for this long has none.
const HORIZON: i64 = 40 * 366 * DAY;

/// Of what is over, a plan has that of the shortest of these lengths in which there is enough, or all.
const BACK: [i64; 5] = [600, 3 * 3600, 2 * DAY, 60 * DAY, 4 * 366 * DAY];

/// So many of what is over are enough: whatever is to be caught up is among them.
const ENOUGH: usize = MOST_CAUGHT_UP as usize + 20;

/// Seconds.
const DAY: i64 = 86_400;

static ZONES: LazyLock<TimeZoneDatabase> = LazyLock::new(TimeZoneDatabase::bundled);

/// Why a timetable or a zone is none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Invalid {
    /// The timetable, with a sentence.
    When(String),
    /// The zone, with the names that are near.
    Zone(Vec<String>),
}

impl fmt::Display for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::When(problem) => f.write_str(problem),
            Self::Zone(near) if near.is_empty() => {
                f.write_str("is no time zone: write an IANA name such as \"Europe/Berlin\", or \"UTC\"")
            }
            Self::Zone(near) => write!(f, "is no time zone; did you mean {}?", near.join(", ")),
        }
    }
}

/// The field for which a timetable is none, with its name: the first that is none among fields that name everything.
fn wrong_field<'a>(parser: &CronParser, fields: &[&'a str]) -> Option<(&'static str, &'a str)> {
    const NAMES: [&str; 6] = ["second", "minute", "hour", "day of the month", "month", "day of the week"];
    let names = NAMES.get(NAMES.len().checked_sub(fields.len())?..)?;
    let alone = |at: usize| {
        let every = |(other, field): (usize, &&'a str)| if other == at { *field } else { "*" };
        fields.iter().enumerate().map(every).collect::<Vec<_>>().join(" ")
    };
    let wrong = (0..fields.len()).find(|at| parser.parse(&alone(*at)).is_err())?;
    names.get(wrong).copied().zip(fields.get(wrong).copied())
}

/// A timetable in a zone.
#[derive(Debug, Clone)]
pub(crate) struct Timetable {
    cron: Cron,
    zone: TimeZone,
    /// Each of its fields of time is fixed: see the module.
    fixed: bool,
    /// Of a day, the seconds that it names within an hour, and the hours.
    hours: Vec<i64>,
    minutes: Vec<i64>,
    seconds: Vec<i64>,
}

impl Timetable {
    /// # Errors
    /// If one of the two is none.
    pub(crate) fn new(when: &str, zone: &str) -> Result<Self, Invalid> {
        let zone = zone_of(zone)?;
        let parser = CronParser::builder().seconds(Seconds::Optional).year(Year::Disallowed).build();
        let wrong = |problem: &dyn fmt::Display| Invalid::When(format!("is no timetable: {problem}"));
        let fields: Vec<&str> = when.split_whitespace().collect();
        if !when.starts_with('@') && !(5..=6).contains(&fields.len()) {
            return Err(wrong(&format!("it has {} fields, and 5 or 6 are needed", fields.len())));
        }
        if when.len() > 255 {
            return Err(wrong(&"it is longer than 255 characters"));
        }
        let cron = parser.parse(when).map_err(|error| {
            let problem = error.to_string();
            let problem = problem.trim_start_matches("Component error: ").trim_end_matches('.');
            match wrong_field(&parser, &fields) {
                Some((name, field)) => wrong(&format_args!("its {name}, {field:?}: {problem}")),
                None => wrong(&problem),
            }
        })?;
        let text = cron.as_str().to_owned();
        let mut fields: Vec<&str> = text.split_whitespace().collect();
        if fields.len() == 5 {
            fields.insert(0, "0");
        }
        let fixed = fields.iter().take(3).all(|field| !field.contains(['*', '/', '?']));
        let values = |field: &croner::CronComponent| field.values().into_iter().map(i64::from).collect();
        let pattern = &cron.pattern;
        let (hours, minutes, seconds) =
            (values(&pattern.hours), values(&pattern.minutes), values(&pattern.seconds));
        Ok(Self { cron, zone, fixed, hours, minutes, seconds })
    }

    /// Its instants after this one, in order, for as long as somebody asks.
    pub(crate) fn after(&self, after: Wall) -> Walk<'_> {
        Walk::new(self, after.0.div_euclid(1_000_000))
    }

    /// An instant in the local time of the zone, as RFC 3339 with its offset.
    pub(crate) fn local(&self, at: Wall) -> String {
        let Ok(at) = Timestamp::from_microsecond(at.0) else { return String::new() };
        let offset = self.zone.to_offset(at);
        at.display_with_offset(offset).to_string()
    }

    /// Local seconds, from `from` on and before `to`: the first that it names.
    fn next_local(&self, from: i64, to: i64) -> Option<i64> {
        let mut at = from;
        while at < to {
            let day = at.div_euclid(DAY);
            if self.names_day(day)
                && let Some(time) = self.next_time(at.rem_euclid(DAY))
            {
                return Some(day * DAY + time).filter(|found| *found < to);
            }
            at = (day + 1) * DAY;
        }
        None
    }

    /// The first second of a day that it names, from `from` on.
    fn next_time(&self, from: i64) -> Option<i64> {
        let (hour, minute, second) = (from / 3600, from / 60 % 60, from % 60);
        let first = |of: &[i64], least: i64| of.iter().copied().find(|value| *value >= least);
        let (minute_0, second_0) = (*self.minutes.first()?, *self.seconds.first()?);
        let same_hour = self.hours.contains(&hour);
        if same_hour
            && self.minutes.contains(&minute)
            && let Some(second) = first(&self.seconds, second)
        {
            return Some(hour * 3600 + minute * 60 + second);
        }
        if same_hour && let Some(minute) = first(&self.minutes, minute + 1) {
            return Some(hour * 3600 + minute * 60 + second_0);
        }
        first(&self.hours, hour + 1).map(|hour| hour * 3600 + minute_0 * 60 + second_0)
    }

    /// Whether it names a day, counted from 1970.
    fn names_day(&self, day: i64) -> bool {
        let first = Date::constant(1970, 1, 1);
        let Ok(date) = first.checked_add(jiff::Span::new().days(day)) else { return false };
        let (Ok(month), Ok(dom)) = (u32::try_from(date.month()), u32::try_from(date.day())) else {
            return false;
        };
        let weekday = u32::try_from(date.weekday().to_sunday_zero_offset()).unwrap_or_default();
        let weekday = Weekday::from_days_from_sunday(weekday);
        // It refuses dates that there are not, and this is one.
        self.cron.pattern.month_match(month).unwrap_or(false)
            && self.cron.pattern.day_match(date.year().into(), month, dom, weekday).unwrap_or(false)
    }

    /// The offset from UTC at an instant, in seconds.
    fn offset(&self, at: i64) -> i64 {
        let at = Timestamp::from_second(at).unwrap_or(Timestamp::MAX);
        self.zone.to_offset(at).seconds().into()
    }
}

/// A zone by its name.
fn zone_of(name: &str) -> Result<TimeZone, Invalid> {
    ZONES.get(name).map_err(|_| {
        let lower = name.to_ascii_lowercase();
        let mut near: Vec<(usize, String)> = ZONES
            .available()
            .filter_map(|zone| {
                let zone = zone.as_str();
                let whole = strsim::damerau_levenshtein(&lower, &zone.to_ascii_lowercase());
                // `Berlin` is what people write.
                let city = zone.rsplit('/').next().unwrap_or(zone).to_ascii_lowercase();
                let distance = whole.min(strsim::damerau_levenshtein(&lower, &city));
                (distance <= 1 + name.len() / 5).then(|| (distance, zone.to_owned()))
            })
            .collect();
        near.sort();
        let closest = near.first().map(|(distance, _)| *distance);
        near.retain(|(distance, _)| Some(*distance) == closest);
        Invalid::Zone(near.into_iter().take(3).map(|(_, zone)| zone).collect())
    })
}

/// A walk along a timetable. All its times are whole seconds.
#[derive(Debug)]
pub(crate) struct Walk<'t> {
    table: &'t Timetable,
    /// The stretch of one offset that it is in: it ends before `end`, and the clock is this much ahead of UTC in it.
    end: i64,
    offset: i64,
    /// Local times before this one came before, in the stretch before.
    repeated: i64,
    /// The local time that is looked at next.
    next: i64,
    /// A fixed local time was skipped: it fires at this instant.
    skipped: Option<i64>,
    /// What it found last; the same instant is not found twice.
    last: i64,
    until: i64,
}

impl<'t> Walk<'t> {
    fn new(table: &'t Timetable, after: i64) -> Self {
        let mut walk = Self {
            table,
            end: i64::MAX,
            offset: 0,
            repeated: i64::MIN,
            next: 0,
            skipped: None,
            last: after,
            until: after.saturating_add(HORIZON),
        };
        // The stretch begins at the newest change that is not after `after`.
        let at = Timestamp::from_second(after.saturating_add(1)).unwrap_or(Timestamp::MAX);
        let begin = table.zone.preceding(at).next().map(|change| change.timestamp().as_second());
        walk.enter(begin, after + 1);
        walk
    }

    /// Begins the stretch that a change begins, and goes on from `from`.
    fn enter(&mut self, begin: Option<i64>, from: i64) {
        let at = Timestamp::from_second(from).unwrap_or(Timestamp::MAX);
        self.end = self.table.zone.following(at).next().map_or(i64::MAX, |next| next.timestamp().as_second());
        self.offset = self.table.offset(from);
        self.next = from.saturating_add(self.offset);
        (self.repeated, self.skipped) = (i64::MIN, None);
        let Some(begin) = begin.filter(|_| self.table.fixed) else { return };
        let before = self.table.offset(begin - 1);
        if before > self.offset {
            self.repeated = begin + before;
        } else if begin > self.last && self.table.next_local(begin + before, begin + self.offset).is_some() {
            self.skipped = Some(begin);
        }
    }
}

impl Iterator for Walk<'_> {
    type Item = Wall;

    fn next(&mut self) -> Option<Wall> {
        loop {
            let found = match self.skipped.take() {
                Some(skipped) => Some(skipped),
                None => {
                    let to = self.end.min(self.until).saturating_add(self.offset);
                    let local = self.table.next_local(self.next.max(self.repeated), to);
                    self.next = local.map_or(to, |local| local + 1);
                    local.map(|local| local - self.offset)
                }
            };
            match found {
                Some(at) if at > self.last => {
                    self.last = at;
                    self.until = at.saturating_add(HORIZON);
                    return Some(Wall(at.saturating_mul(1_000_000)));
                }
                Some(_) => {}
                None if self.end >= self.until => return None,
                None => self.enter(Some(self.end), self.end),
            }
        }
    }
}

/// How the timetable of an entry goes on: what of it is over by `now` and not settled, and some more.
pub(crate) fn plan(entry: &CronEntry, now: Wall) -> CronPlan {
    let (when, zone) = (entry.policy.when.clone(), entry.policy.zone.clone());
    let after = entry.last_instant;
    let (instants, ends) = match Timetable::new(&when, &zone) {
        Ok(table) => ahead(&table, after, now),
        Err(invalid) => {
            tracing::error!(cron.entry = %entry.name, "an entry never fires: {invalid}");
            (Vec::new(), true)
        }
    };
    CronPlan { entry: entry.name.clone(), when, zone, after, instants, ends }
}

fn ahead(table: &Timetable, after: Wall, now: Wall) -> (Vec<Wall>, bool) {
    let begin = |back: &i64| after.max(Wall(now.0.saturating_sub(back.saturating_mul(1_000_000))));
    for begin in BACK.iter().map(begin).chain([after]) {
        let mut walk = table.after(begin);
        let (mut instants, mut coming) = (Vec::new(), 0);
        let ends = loop {
            let Some(at) = walk.next() else { break true };
            coming += usize::from(at > now);
            instants.push(at);
            if coming >= AHEAD {
                break false;
            }
        };
        if begin == after || instants.len() - coming >= ENOUGH {
            return (instants, ends);
        }
    }
    (Vec::new(), true)
}
