//! Goals of figures, and whether a figure misses its goal.

use serde::{Deserialize, Serialize};

use crate::unit::Unit;

/// A bound for a figure, in the figure's unit.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Goal {
    AtMost(f64),
    AtLeast(f64),
}

impl Goal {
    /// Whether a figure misses it. The figure counts with the digits that the page shows.
    pub(crate) fn is_missed_by(self, value: f64, unit: Unit) -> bool {
        let shown = unit.number(value).parse().unwrap_or(value);
        match self {
            Goal::AtMost(bound) => shown > bound,
            Goal::AtLeast(bound) => shown < bound,
        }
    }

    /// Such as `at most 400 ms`.
    pub(crate) fn text(self, unit: Unit) -> String {
        let name = if unit == Unit::Ratio { "" } else { unit.name() };
        match self {
            Goal::AtMost(bound) => format!("at most {bound}{name}"),
            Goal::AtLeast(bound) => format!("at least {bound}{name}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Goal;
    use crate::unit::Unit;

    #[test]
    fn a_goal_is_missed_on_one_side_of_its_bound() {
        let (most, least) = (Goal::AtMost(1.15), Goal::AtLeast(0.87));
        let missed = |goal: Goal, value| goal.is_missed_by(value, Unit::Ratio);
        assert_eq!([1.14, 1.15, 1.16].map(|value| missed(most, value)), [false, false, true]);
        assert_eq!([0.86, 0.87, 0.88].map(|value| missed(least, value)), [true, false, false]);
    }

    #[test]
    fn a_figure_is_compared_as_the_page_shows_it() {
        let goal = Goal::AtMost(1.15);
        assert_eq!(Unit::Ratio.number(1.1501), "1.15");
        assert!(!goal.is_missed_by(1.1501, Unit::Ratio));
        assert!(goal.is_missed_by(1.1551, Unit::Ratio));
    }

    #[test]
    fn a_goal_is_written_with_its_unit() {
        assert_eq!(Goal::AtMost(1.15).text(Unit::Ratio), "at most 1.15");
        assert_eq!(Goal::AtLeast(2.0).text(Unit::Ratio), "at least 2");
        assert_eq!(Goal::AtMost(400.0).text(Unit::Millis), "at most 400 ms");
        assert_eq!(Goal::AtMost(0.0).text(Unit::Count), "at most 0");
    }
}
