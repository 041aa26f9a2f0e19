//! The terms by which the checker judges a run.

use mongo_lease_checker::{Allowances, CheckOptions, MILLI};

use crate::arguments::Options;
use crate::nemesis::Choice;

/// The terms for these options and these faults.
pub(crate) fn of(options: &Options, choice: &Choice) -> CheckOptions {
    let max_clock_skew_ms = options.max_clock_skew_ms.unwrap_or(choice.max_clock_skew_ms());
    let max_clock_skew = max_clock_skew_ms * MILLI;
    CheckOptions {
        max_clock_skew,
        waiter_ttl: options.waiter_ttl_ms * MILLI,
        clock_error: choice.clock_error(max_clock_skew),
        // Two do, where commands before them hang. Each then has the time of the later write.
        calls_travel_together: options.tasks + options.shared_tasks > 1,
        allowances: Allowances::REAL,
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use mongo_lease_checker::{Invariant, SECOND};

    use super::*;
    use crate::arguments::Arguments;

    #[test]
    fn clocks_are_moved_within_the_max_skew_or_beyond_it() {
        let arguments = |line: &str| {
            let line = ["torture"].into_iter().chain(line.split_whitespace());
            Arguments::parse_from(line).options
        };
        let terms = |line: &str, choice: &str| {
            let choice = Choice::parse(choice).unwrap();
            of(&arguments(line), &choice)
        };
        let still = terms("", "all");
        assert_eq!((still.max_clock_skew, still.clock_error), (0, 0));
        let within = terms("", "clock,kill");
        assert_eq!((within.max_clock_skew, within.clock_error), (SECOND, 475 * MILLI));
        assert!(!within.are_clocks_unbound());
        let beyond = terms("--max-clock-skew-ms 500", "kill+clock-jump");
        assert_eq!((beyond.max_clock_skew, beyond.clock_error), (500 * MILLI, 6 * SECOND));
        for invariant in Invariant::ALL {
            assert!(!still.may_break(invariant) && !within.may_break(invariant), "{invariant:?}");
        }
        assert!(beyond.may_break(Invariant::Exclusion));
        assert!(!beyond.may_break(Invariant::Tokens) && !beyond.may_break(Invariant::Fence));
    }
}
