//! Figures: what was measured, how often, beside what.
//!
//! Responsible for the arithmetic: median, exact percentiles, ratios. A ratio is taken repetition by repetition, of two
//! values that were measured one right after the other, so that a machine that gets slower half-way spoils neither.

use std::time::Duration;

use serde::Serialize;

use crate::args::Store;

/// One line of the table.
#[derive(Debug, Serialize)]
pub(crate) struct Figure {
    /// Which scenario took it.
    pub(crate) scenario: &'static str,
    /// On which store; none where that makes no difference.
    pub(crate) store: Option<Store>,
    /// What it is.
    pub(crate) name: String,
    pub(crate) unit: &'static str,
    /// One value a repetition, in the order in which they were taken.
    pub(crate) repetitions: Vec<f64>,
    pub(crate) min: f64,
    pub(crate) median: f64,
    pub(crate) max: f64,
    /// Beside what the same run allowed.
    pub(crate) ratio: Option<Ratio>,
    pub(crate) target: Option<Target>,
}

/// A share of a ceiling.
#[derive(Debug, Serialize)]
pub(crate) struct Ratio {
    /// The name of the figure that is 1.
    pub(crate) to: &'static str,
    /// One value a repetition.
    pub(crate) repetitions: Vec<f64>,
    pub(crate) median: f64,
}

/// What the figure should be.
#[derive(Debug, Serialize)]
pub(crate) struct Target {
    /// In words.
    pub(crate) text: &'static str,
    /// Whether the median is.
    pub(crate) reached: bool,
}

impl Figure {
    /// A figure; there is at least one repetition.
    pub(crate) fn new(
        scenario: &'static str,
        store: Option<Store>,
        name: impl Into<String>,
        unit: &'static str,
        repetitions: Vec<f64>,
    ) -> Self {
        let sorted = sorted(&repetitions);
        Self {
            scenario,
            store,
            name: name.into(),
            unit,
            min: sorted.first().copied().unwrap_or_default(),
            median: median(&repetitions),
            max: sorted.last().copied().unwrap_or_default(),
            repetitions,
            ratio: None,
            target: None,
        }
    }

    /// With its share of a ceiling that was measured right before each repetition.
    pub(crate) fn beside(mut self, to: &'static str, ceilings: &[f64]) -> Self {
        let shares = self.repetitions.iter().zip(ceilings).map(|(value, ceiling)| value / ceiling);
        let repetitions: Vec<f64> = shares.collect();
        self.ratio = Some(Ratio { to, median: median(&repetitions), repetitions });
        self
    }

    /// With what it should be at the least, as a share of its ceiling.
    pub(crate) fn at_least_share(mut self, share: f64, text: &'static str) -> Self {
        let reached = self.ratio.as_ref().is_some_and(|ratio| ratio.median >= share);
        self.target = Some(Target { text, reached });
        self
    }

    /// With what it should be below.
    pub(crate) fn below(mut self, limit: f64, text: &'static str) -> Self {
        self.target = Some(Target { text, reached: self.median < limit });
        self
    }
}

/// The middle value; of an even number the mean of the two in the middle. Zero of none.
pub(crate) fn median(values: &[f64]) -> f64 {
    let sorted = sorted(values);
    let at = |at: usize| sorted.get(at).copied().unwrap_or_default();
    let half = sorted.len() / 2;
    if sorted.len() % 2 == 1 { at(half) } else { f64::midpoint(at(half.saturating_sub(1)), at(half)) }
}

/// The smallest of the lengths that at least this share of all do not pass, in milliseconds: exact, by sorting, since
/// there are thousands of them and not millions. Zero of none.
pub(crate) fn percentile_ms(lengths: &mut [Duration], share: f64) -> f64 {
    lengths.sort_unstable();
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a share of a length is one")]
    let rank = (lengths.len() as f64 * share).ceil() as usize;
    lengths.get(rank.saturating_sub(1)).map_or(0.0, |length| length.as_secs_f64() * 1e3)
}

/// So many in so long, each second.
pub(crate) fn rate(count: u64, length: Duration) -> f64 {
    count as f64 / length.as_secs_f64().max(f64::EPSILON)
}

fn sorted(values: &[f64]) -> Vec<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    sorted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_middle_one_or_the_mean_of_two() {
        for (values, expected) in
            [(&[][..], 0.0), (&[7.0], 7.0), (&[9.0, 1.0, 2.0], 2.0), (&[4.0, 1.0, 3.0, 2.0], 2.5)]
        {
            assert!((median(values) - expected).abs() < f64::EPSILON, "{values:?}");
        }
    }

    #[test]
    fn a_percentile_is_one_of_the_values_and_enough_are_not_above_it() {
        let of = |count: u64, share| {
            let mut lengths: Vec<_> = (1..=count).rev().map(Duration::from_millis).collect();
            percentile_ms(&mut lengths, share)
        };
        for (count, share, expected) in [
            (0, 0.5, 0.0),
            (1, 0.5, 1.0),
            (1, 0.99, 1.0),
            (4, 0.5, 2.0),
            (100, 0.99, 99.0),
            (101, 0.99, 100.0),
        ] {
            assert!((of(count, share) - expected).abs() < 1e-9, "{count} {share}");
        }
    }

    #[test]
    fn a_ratio_is_taken_repetition_by_repetition() {
        let figure = Figure::new("lifecycle", None, "f", "jobs/s", vec![50.0, 10.0, 30.0]);
        let figure = figure.beside("ceiling", &[100.0, 10.0, 100.0]).at_least_share(0.35, "≥ 35 %");
        let ratio = figure.ratio.unwrap();
        assert!((ratio.median - 0.5).abs() < 1e-9);
        assert!(figure.target.unwrap().reached);
    }
}
