//! When a manager opens its change stream again after it has failed.
//!
//! A stream that works saves commands. A try to open one costs the others a moment where the connection pool is small,
//! and each try whose answer never comes keeps a connection.

use std::time::Duration;

use super::timing::Delays;

/// Between two tries to open a change stream that may work at any moment.
pub const REOPEN: Delays =
    Delays { first: Duration::from_millis(200), longest: Duration::from_secs(10) };
/// The same after a [`StreamFailure::Lasting`].
pub const REOPEN_RARELY: Delays =
    Delays { first: Duration::from_millis(200), longest: Duration::from_secs(300) };
/// After a stream has worked for so long, the next try may come in half the time.
pub const STEADY: Duration = Duration::from_secs(60);

/// How long the server waits for an event before it sends an empty answer.
pub const STREAM_AWAIT: Duration = Duration::from_secs(10);
/// How long a stream may be silent before it counts as broken. A connection can die without being closed.
pub const STREAM_SILENCE: Duration = Duration::from_secs(15);
/// How long the server may take to open a stream.
pub const STREAM_OPENING: Duration = Duration::from_secs(10);
/// The delay of a ping that tests whether commands still get a connection beside a stream. Counted from its read.
pub const PING_AFTER: Duration = Duration::from_millis(250);
/// The time limit of that ping.
pub const PING_TIMEOUT: Duration = Duration::from_secs(1);

/// How a change stream has failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StreamFailure {
    /// It may work at any moment.
    Passing,
    /// The next try may well end in the same way: the server refuses it, does not answer it though it answers other
    /// commands, or no other command gets through beside the stream.
    Lasting,
}

/// The delays between the tries. The caller adds the jitter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Reopening {
    soon: Duration,
    rarely: Duration,
}

impl Default for Reopening {
    fn default() -> Reopening {
        Reopening { soon: REOPEN.first, rarely: REOPEN_RARELY.first }
    }
}

impl Reopening {
    /// The delay until the next try after a stream has failed that had `worked` for so long, if it had.
    ///
    /// A stream that has worked proves that it can, whatever its end was. So only tries that never worked become rare.
    pub fn after(&mut self, failure: StreamFailure, worked: Option<Duration>) -> Duration {
        if worked.is_some() {
            self.soon = REOPEN.first;
        }
        if worked.is_some_and(|worked| worked >= STEADY) {
            self.rarely = (self.rarely / 2).max(REOPEN_RARELY.first);
        }
        match (failure, worked) {
            (StreamFailure::Lasting, None) => grow(&mut self.rarely, REOPEN_RARELY),
            (_, _) => self.later(),
        }
    }

    /// The delay until the next try where no command gets through at all, which says nothing about the stream.
    pub fn later(&mut self) -> Duration {
        grow(&mut self.soon, REOPEN)
    }
}

/// The delay that is due. The next one is twice as long.
fn grow(next: &mut Duration, delays: Delays) -> Duration {
    let delay = *next;
    *next = (delay * 2).min(delays.longest);
    delay
}
