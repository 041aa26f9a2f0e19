//! The clock that all processes of the machine share: Node's `process.hrtime` is the same one.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// A moment, in microseconds.
pub(crate) type Micros = u64;

pub(crate) fn now() -> Micros {
    let time = clock_gettime(ClockId::Monotonic);
    let seconds = u64::try_from(time.tv_sec).unwrap();
    seconds * 1_000_000 + u64::try_from(time.tv_nsec).unwrap() / 1_000
}

/// The moment this long after now.
pub(crate) fn from_now(duration: impl FnOnce() -> Duration) -> Micros {
    // The clock first: time that passes in between makes the end earlier and not later.
    let now = now();
    now + u64::try_from(duration().as_micros()).unwrap()
}
