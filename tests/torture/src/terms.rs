//! The terms by which the checker judges a run.

use mongo_lease_checker::{Allowances, CheckOptions, MILLI};

use crate::arguments::Options;

/// The terms for these options. All members share one clock, so no clock is off: the sharpest test.
pub(crate) fn of(options: &Options) -> CheckOptions {
    CheckOptions {
        max_clock_skew: 0,
        waiter_ttl: options.waiter_ttl_ms * MILLI,
        clock_error: 0,
        // Two do, where commands before them hang. Each then has the time of the later write.
        calls_travel_together: options.tasks + options.shared_tasks > 1,
        allowances: Allowances::REAL,
    }
}
