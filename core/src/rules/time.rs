//! Moments on one process's monotonic clock.

use std::fmt;
use std::time::Duration;

/// A moment: nanoseconds since the clock's own start.
///
/// Arithmetic saturates. [`Instant::FAR_FUTURE`] means "never", and stays so whatever is added. The default is the
/// clock's start.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant(u64);

impl Instant {
    /// The clock's start.
    pub const START: Instant = Instant(0);
    /// A moment that never comes.
    pub const FAR_FUTURE: Instant = Instant(u64::MAX);

    /// The moment this many nanoseconds after the clock's start.
    pub const fn from_nanos(nanos: u64) -> Instant {
        Instant(nanos)
    }

    /// Nanoseconds since the clock's start.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// The moment this many microseconds after the clock's start.
    pub const fn from_micros(micros: u64) -> Instant {
        Instant(micros.saturating_mul(1_000))
    }

    /// Microseconds since the clock's start, rounded down: a document keeps the moment of a sending so, and whoever
    /// reads it back counts validity from it.
    pub const fn as_micros(self) -> u64 {
        self.0 / 1_000
    }

    /// The last whole microsecond up to this moment: what a document would give back.
    pub const fn whole_micros(self) -> Instant {
        Instant::from_micros(self.as_micros())
    }

    /// The moment `duration` later.
    pub fn after(self, duration: Duration) -> Instant {
        Instant(self.0.saturating_add(nanos(duration)))
    }

    /// The moment `duration` earlier.
    pub fn before(self, duration: Duration) -> Instant {
        if self == Instant::FAR_FUTURE {
            return self;
        }
        Instant(self.0.saturating_sub(nanos(duration)))
    }

    /// The time since `earlier`; zero if `earlier` is not before this moment.
    pub const fn since(self, earlier: Instant) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

impl fmt::Debug for Instant {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:?}", Duration::from_nanos(self.0))
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// Converts to whole milliseconds, as the database counts. Rounds up, so that a limit never becomes zero.
pub fn millis_up(duration: Duration) -> i64 {
    i64::try_from(duration.as_nanos().div_ceil(1_000_000)).unwrap_or(i64::MAX)
}

/// Converts from milliseconds; a negative number becomes zero.
pub fn from_millis(millis: i64) -> Duration {
    Duration::from_millis(u64::try_from(millis).unwrap_or(0))
}
