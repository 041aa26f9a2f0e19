//! How long to wait before one asks again.

use std::time::Duration;

/// Growing delays with a bound, as data; whoever owns the randomness makes the jittered sequence from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Delays {
    /// The first delay.
    pub(crate) first: Duration,
    /// Where they stop to grow.
    pub(crate) longest: Duration,
}

/// Between two attempts at a command that failed.
pub(crate) const RETRY: Delays =
    Delays { first: Duration::from_millis(20), longest: Duration::from_secs(1) };

/// Between two looks at a lease that somebody else holds, by the first in line, where no change stream tells.
pub(crate) const POLL: Delays =
    Delays { first: Duration::from_millis(10), longest: Duration::from_millis(250) };

/// Between two tries to open a change stream.
pub(crate) const REOPEN: Delays =
    Delays { first: Duration::from_millis(200), longest: Duration::from_secs(300) };
