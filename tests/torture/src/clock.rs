//! The clock that all processes of the machine share, and its relation to the server's.

use mongo_lease_checker::{Nanos, SECOND};
use rustix::time::{ClockId, clock_gettime};

/// Now, the same for all processes, by the clock that the library uses for validity.
pub(crate) fn now() -> Nanos {
    read(ClockId::Boottime)
}

/// How far the wall clock, by which the servers count, is ahead of the shared one.
pub(crate) fn wall_ahead() -> Nanos {
    // The narrowest of several readings: the processor may have been taken away within one.
    let look = || {
        let before = now();
        let wall = read(ClockId::Realtime);
        let after = now();
        (after - before, wall.saturating_sub(before + (after - before) / 2))
    };
    (0..5).map(|_| look()).min().map_or(0, |(_, ahead)| ahead)
}

/// How far the shared clock is ahead of the monotonic one: for how long the machine was suspended since its start.
pub(crate) fn ahead_of_monotonic() -> Nanos {
    let monotonic = read(ClockId::Monotonic);
    now().saturating_sub(monotonic)
}

fn read(clock: ClockId) -> Nanos {
    let time = clock_gettime(clock);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    seconds * SECOND + u64::try_from(time.tv_nsec).unwrap_or(0)
}
