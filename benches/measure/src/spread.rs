//! Rounds, their ratios, and how far those are spread.

use std::time::Duration;

/// A median and its quartiles.
#[derive(Clone, Copy, Debug)]
pub struct Spread {
    /// The lower quartile.
    pub low: f64,
    /// The median.
    pub median: f64,
    /// The upper quartile.
    pub high: f64,
}

impl Spread {
    /// Of these figures; NaN where there are none. It interpolates between two figures, so the median of two rounds is
    /// their mean.
    #[must_use]
    pub fn of(mut figures: Vec<f64>) -> Spread {
        figures.sort_by(f64::total_cmp);
        let last = figures.len().saturating_sub(1);
        let at = |quarter: usize| {
            let figure = |index: usize| figures.get(index).copied().unwrap_or(f64::NAN);
            let (index, quarters) = (last * quarter / 4, last * quarter % 4);
            let (lower, upper) = (figure(index), figure((index + 1).min(last)));
            lower + (upper - lower) * number(quarters) / 4.0
        };
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
pub struct Round {
    /// Ours.
    pub ours: f64,
    /// The floor beside it.
    pub floor: f64,
}

/// The rounds of one comparison.
#[derive(Clone, Debug)]
pub struct Rounds(pub Vec<Round>);

impl Rounds {
    /// The ratios of ours to the floor, round by round.
    #[must_use]
    pub fn ratio(&self) -> Spread {
        Spread::of(self.0.iter().map(|round| round.ours / round.floor).collect())
    }

    /// The median of ours.
    #[must_use]
    pub fn ours(&self) -> f64 {
        Spread::of(self.0.iter().map(|round| round.ours).collect()).median
    }

    /// The median of the floor.
    #[must_use]
    pub fn floor(&self) -> f64 {
        Spread::of(self.0.iter().map(|round| round.floor).collect()).median
    }
}

/// The figure that so many thousandths of all do not exceed: 500 is the median, 990 the 99th percentile.
///
/// NaN where there are none.
#[must_use]
pub fn quantile(figures: &[f64], thousandths: usize) -> f64 {
    let mut figures = figures.to_vec();
    figures.sort_by(f64::total_cmp);
    let last = figures.len().saturating_sub(1);
    figures.get(last * thousandths.min(1_000) / 1_000).copied().unwrap_or(f64::NAN)
}

/// Milliseconds for each of `count` in this time.
#[must_use]
pub fn millis_each(time: Duration, count: usize) -> f64 {
    time.as_secs_f64() * 1e3 / number(count)
}

/// A count as a number for ratios: exact up to 2³² - 1.
#[must_use]
pub fn number(count: usize) -> f64 {
    u32::try_from(count).map_or(f64::MAX, f64::from)
}

/// A server's counter as a number for ratios: exact up to 2³² - 1.
#[must_use]
pub fn counted(count: u64) -> f64 {
    usize::try_from(count).map_or(f64::MAX, number)
}

#[cfg(test)]
mod tests {
    use super::{Round, Rounds, Spread, millis_each, number, quantile};
    use std::time::Duration;

    #[test]
    fn a_spread_is_the_median_and_its_quartiles() {
        let spread = Spread::of(vec![5.0, 1.0, 4.0, 2.0, 3.0]);
        assert_eq!(spread.to_string(), "3.00 (2.00 to 4.00)");
    }

    #[test]
    fn a_spread_of_two_is_between_them() {
        let spread = Spread::of(vec![3.0, 1.0]);
        assert_eq!(spread.to_string(), "2.00 (1.50 to 2.50)");
        assert!(Spread::of(Vec::new()).median.is_nan());
    }

    #[test]
    fn a_ratio_is_taken_round_by_round() {
        let round = |ours, floor| Round { ours, floor };
        let rounds = Rounds(vec![round(1.0, 2.0), round(30.0, 10.0), round(8.0, 8.0)]);
        assert_eq!(rounds.ratio().to_string(), "1.00 (0.75 to 2.00)");
        assert_eq!(rounds.ours().to_string(), "8");
        assert_eq!(rounds.floor().to_string(), "8");
    }

    #[test]
    fn a_quantile_is_found_in_any_order() {
        let figures: Vec<f64> = (0..=1_000).rev().map(number).collect();
        assert_eq!(quantile(&figures, 500).to_string(), "500");
        assert_eq!(quantile(&figures, 990).to_string(), "990");
        assert_eq!(quantile(&[7.0], 990).to_string(), "7");
        assert!(quantile(&[], 500).is_nan());
    }

    #[test]
    fn a_time_is_shared_by_all() {
        assert_eq!(millis_each(Duration::from_secs(1), 4).to_string(), "250");
    }
}
