//! Rounds, their ratios, and how far those are spread.

use std::time::Duration;

/// A median and its quartiles.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spread {
    pub(crate) low: f64,
    pub(crate) median: f64,
    pub(crate) high: f64,
}

impl Spread {
    /// Of at least one figure.
    pub(crate) fn of(mut figures: Vec<f64>) -> Spread {
        figures.sort_by(f64::total_cmp);
        let last = figures.len().saturating_sub(1);
        let at = |quarter: usize| figures.get(last * quarter / 4).copied().unwrap_or(f64::NAN);
        Spread { low: at(1), median: at(2), high: at(3) }
    }
}

impl std::fmt::Display for Spread {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{:.2} ({:.2} to {:.2})", self.median, self.low, self.high)
    }
}

/// One round of ours, and of the floor beside it, in the same unit.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Round {
    pub(crate) ours: f64,
    pub(crate) floor: f64,
}

/// The rounds of one comparison.
#[derive(Clone, Debug)]
pub(crate) struct Rounds(pub(crate) Vec<Round>);

impl Rounds {
    pub(crate) fn ratio(&self) -> Spread {
        Spread::of(self.0.iter().map(|round| round.ours / round.floor).collect())
    }

    pub(crate) fn ours(&self) -> f64 {
        Spread::of(self.0.iter().map(|round| round.ours).collect()).median
    }

    pub(crate) fn floor(&self) -> f64 {
        Spread::of(self.0.iter().map(|round| round.floor).collect()).median
    }
}

/// Milliseconds for each of `count` in this time.
pub(crate) fn millis_each(time: Duration, count: usize) -> f64 {
    time.as_secs_f64() * 1e3 / number(count)
}

/// A count as a number for ratios: exact beyond any count here.
pub(crate) fn number(count: usize) -> f64 {
    u32::try_from(count).map_or(f64::MAX, f64::from)
}

/// The same for the server's counters.
pub(crate) fn counted(count: u64) -> f64 {
    usize::try_from(count).map_or(f64::MAX, number)
}
