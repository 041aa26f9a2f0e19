//! The clock that all processes of the machine share, and its relation to the server's.

use mongo_lease_checker::{Nanos, SECOND};
use rustix::time::{ClockId, clock_gettime};

/// How often two clocks are compared.
const COMPARISONS: usize = 5;

/// Now, the same for all processes, by the clock that the library uses for validity.
pub(crate) fn now() -> Nanos {
    read(ClockId::Boottime)
}

/// How far the wall clock, by which the servers count, is ahead of the shared one.
pub(crate) fn wall_ahead() -> Nanos {
    ahead(|| read(ClockId::Realtime), now)
}

/// How far the shared clock is ahead of the monotonic one: for how long the machine was suspended since its start.
pub(crate) fn ahead_of_monotonic() -> Nanos {
    ahead(now, || read(ClockId::Monotonic))
}

/// How far a clock is ahead of another one.
///
/// The narrowest of several comparisons counts: the processor may be taken away between two readings, and what passes
/// then would count as a difference of the clocks.
fn ahead(mut clock: impl FnMut() -> Nanos, mut other: impl FnMut() -> Nanos) -> Nanos {
    let mut compare = || {
        let before = other();
        let read = clock();
        let width = other() - before;
        (width, read.saturating_sub(before + width / 2))
    };
    (0..COMPARISONS).map(|_| compare()).min().map_or(0, |(_, ahead)| ahead)
}

fn read(clock: ClockId) -> Nanos {
    let time = clock_gettime(clock);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    seconds * SECOND + u64::try_from(time.tv_nsec).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use mongo_lease_checker::MILLI;

    use super::{COMPARISONS, ahead};

    #[test]
    fn a_processor_that_is_taken_away_between_two_readings_is_not_a_difference_of_the_clocks() {
        let readings = 3 * COMPARISONS;
        for taken_at in 0..readings {
            let (now, reading) = (Cell::new(0), Cell::new(0));
            let read = || {
                let pause = if reading.get() == taken_at { 7 * MILLI } else { 100 };
                reading.set(reading.get() + 1);
                now.set(now.get() + pause);
                now.get()
            };
            let ahead = ahead(|| 5 * MILLI + read(), read);
            assert_eq!((reading.get(), ahead), (readings, 5 * MILLI), "before reading {taken_at}");
        }
    }
}
