//! How long to wait before the next attempt.

use std::time::Duration;

/// Growing delays with a bound, as data. The caller adds the jitter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delays {
    /// The first delay.
    pub first: Duration,
    /// The bound.
    pub longest: Duration,
}

/// Between two attempts at a command that failed.
pub const RETRY: Delays =
    Delays { first: Duration::from_millis(20), longest: Duration::from_secs(1) };

/// Between two attempts of the first waiter in the queue, without a change stream.
pub const POLL: Delays =
    Delays { first: Duration::from_millis(10), longest: Duration::from_millis(250) };

/// Between two tries to open a change stream.
pub const REOPEN: Delays =
    Delays { first: Duration::from_millis(200), longest: Duration::from_secs(300) };

/// Before a batch is repeated whose writes lack the confirmation of a majority: it has taken its whole time already.
pub const MAJORITY: Delays =
    Delays { first: Duration::from_millis(100), longest: Duration::from_millis(200) };
