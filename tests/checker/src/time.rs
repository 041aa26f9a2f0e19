//! Moments and durations.

/// A moment, or a duration, in nanoseconds of the clock that all histories share.
pub type Nanos = u64;

/// A millisecond.
pub const MILLI: Nanos = 1_000_000;
/// A second.
pub const SECOND: Nanos = 1_000 * MILLI;
