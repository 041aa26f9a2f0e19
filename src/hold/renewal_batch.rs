//! Which leases are renewed together, and in what time.

use std::sync::Arc;
use std::time::Duration;

use crate::clock;
use crate::hold::Holding;
use crate::retry::RetryPolicy;
use crate::rules::batching::pieces;
use crate::rules::time::Instant;

/// The most leases that one command renews.
const BATCH_MAX: usize = 2_000;

/// A lease in care, by its number.
pub(super) type NumberedHolding = (u64, Arc<Holding>);

/// A lease that is due.
pub(super) struct Due {
    pub(super) member: NumberedHolding,
    /// A transaction may hold its document.
    pub(super) alone: bool,
}

/// Leases that are renewed by one command.
pub(super) struct Batch {
    pub(super) members: Vec<NumberedHolding>,
    /// When the rules said that they were due.
    pub(super) planned_at: Instant,
    /// It is one lease, whose document is likely to be held up.
    pub(super) is_held_up: bool,
    deadline: Duration,
}

impl Batch {
    /// In what time it has to be done.
    pub(super) fn policy(&self) -> RetryPolicy {
        RetryPolicy::one_attempt(self.deadline)
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.members.iter().map(|(_, holding)| holding.key.name())
    }

    /// The same leases in smaller batches, or this one where it is one lease. Each has less time than the whole had: it
    /// may have to be split again, and one lease in two thousand is found while there is time for the others.
    pub(super) fn pieces(self) -> Result<Vec<Batch>, Batch> {
        let Batch { members, planned_at, is_held_up, deadline } = self;
        let batch = |members, deadline| Batch { members, planned_at, is_held_up, deadline };
        match pieces(members, |(_, holding)| holding.key.name()) {
            Ok(pieces) => Ok(pieces.into_iter().map(|it| batch(it, deadline * 2 / 3)).collect()),
            Err(members) => Err(batch(members, deadline)),
        }
    }
}

/// Leases that are due, as commands: those that a transaction may hold alone, the others together.
pub(super) fn batches(due: Vec<Due>) -> impl Iterator<Item = Batch> {
    let planned_at = clock::now();
    let (alone, together): (Vec<Due>, Vec<Due>) = due.into_iter().partition(|due| due.alone);
    let mut commands: Vec<(Vec<NumberedHolding>, bool)> =
        alone.into_iter().map(|due| (vec![due.member], true)).collect();
    let mut together = together.into_iter().map(|due| due.member).peekable();
    while together.peek().is_some() {
        commands.push((together.by_ref().take(BATCH_MAX).collect(), false));
    }
    commands.into_iter().map(move |(members, is_held_up)| {
        let deadlines = members.iter().map(|(_, holding)| holding.timing.bulk_deadline());
        let deadline = deadlines.min().unwrap_or_default();
        Batch { deadline, members, planned_at, is_held_up }
    })
}
