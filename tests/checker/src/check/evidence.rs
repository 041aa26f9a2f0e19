//! The evidence: histories, changes, and the terms by which the checker judges them.

use super::Invariant;
use crate::changes::Change;
use crate::history::Record;
use crate::time::{MILLI, Nanos, SECOND};

/// The library's options, and what else decides how exactly the checker can judge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CheckOptions {
    /// The option of the managers.
    pub max_clock_skew: Nanos,
    /// The option of the managers.
    pub waiter_ttl: Nanos,
    /// How far a member's clock may be moved from the true one, either way.
    pub clock_error: Nanos,
    /// Whether a worker makes so many calls side by side that they travel in batches. Then a grant's token may be the
    /// time of a later write of its command; else it is the time of the write that granted.
    pub calls_travel_together: bool,
    /// How much later than promised things may happen.
    pub allowances: Allowances,
}

/// How much later than promised things may happen, because machines and servers take time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Allowances {
    /// How long after its deadline a wait may end.
    pub late: Nanos,
    /// How long the first waiter may take to notice that it fits, beyond the waiter ttl after which each sends an
    /// attempt: a round trip, and the timers of a busy machine.
    pub noticing: Nanos,
    /// How long a lease may take to become free beyond its holder's ttl and the maximum clock skew: dead entries at the
    /// head of the queue, and the removal of expired documents.
    pub freeing: Nanos,
    /// How long a fault still puts off waiters behind its end: elections and reconnecting.
    pub aftermath: Nanos,
}

impl Allowances {
    /// Those for real servers and a busy machine.
    pub const REAL: Allowances = Allowances {
        late: SECOND,
        noticing: 2 * SECOND,
        freeing: 4 * SECOND,
        aftermath: 4 * SECOND,
    };
}

impl CheckOptions {
    /// Whether two members' clocks may differ by more than the maximum clock skew. Then two clients may believe at
    /// once, and the claims about tokens and the fence must hold all the same.
    pub fn are_clocks_unbound(&self) -> bool {
        self.clock_error > 0 && 2 * self.clock_error > self.max_clock_skew
    }

    /// How long a call may need to notice that it is its turn: each waiting call sends an attempt within the waiter
    /// ttl.
    pub(super) fn noticed_within(&self) -> Nanos {
        let clocks = self.max_clock_skew + 2 * self.clock_error;
        self.waiter_ttl + clocks + self.allowances.noticing
    }

    /// Whether a violation is only counted: the invariant needs clocks within their promised bound.
    pub fn may_break(&self, invariant: Invariant) -> bool {
        invariant.rests_on_clocks() && self.are_clocks_unbound()
    }
}

/// The remains after all processes have gone.
#[derive(Clone, Debug, Default)]
pub struct LeftOver {
    /// Documents in the collection, each as a text.
    pub documents: Vec<String>,
    /// Cursors that are still open.
    pub cursors: Vec<Cursor>,
    /// How many workers did not end in time, or not well.
    pub workers: usize,
}

/// A change stream's cursor at a server.
#[derive(Clone, Debug)]
pub struct Cursor {
    /// The server's number of it.
    pub id: i64,
    /// When its client last fetched from it, by the server's clock in milliseconds.
    pub used: i64,
    /// Whether the server was primary at that moment.
    pub is_at_primary: bool,
    /// The server's full description, with the command that opened it and that command's manager id.
    pub shown: String,
}

/// The evidence of a run.
#[derive(Clone, Debug)]
pub struct Evidence {
    /// The histories of all processes together, sorted by time.
    pub records: Vec<Record>,
    /// Every change of a lease's document, in the order in which they were made.
    pub changes: Vec<Change>,
    /// How far the servers' clock is ahead of the histories'.
    pub wall_ahead: Nanos,
    /// When the workers started.
    pub began: Nanos,
    /// When the faults were over.
    pub ended: Nanos,
    /// The end of what is known, while a run goes on; [`Nanos::MAX`] for complete histories. A violation that is one
    /// only if it lasts beyond that moment is none yet.
    pub known_until: Nanos,
    /// The terms of the run.
    pub terms: CheckOptions,
    /// The remains at the end.
    pub left: LeftOver,
}

impl Evidence {
    /// Converts a moment of the servers' clock to the histories' clock.
    pub fn moment(&self, wall_millis: i64) -> Nanos {
        moment(wall_millis, self.wall_ahead)
    }
}

/// Converts a moment of the servers' clock, which is ahead by so much, to the histories' clock.
pub fn moment(wall_millis: i64, wall_ahead: Nanos) -> Nanos {
    let wall = u64::try_from(wall_millis).unwrap_or(0).saturating_mul(MILLI);
    wall.saturating_sub(wall_ahead)
}
