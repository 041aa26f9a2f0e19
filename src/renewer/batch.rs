//! Which leases are renewed together, and in what time.

use std::sync::Arc;
use std::time::Duration;

use crate::clock;
use crate::holding::Holding;
use crate::rules::backoff::RETRY;
use crate::rules::time::Instant;
use crate::runner::Limits;

/// The most leases that one command renews.
const BATCH_MAX: usize = 2_000;
/// In how many pieces a batch is tried again of which a part was held up.
const PIECES: usize = 8;

/// A lease in care, by its number.
pub(super) type Member = (u64, Arc<Holding>);

/// A lease that is due.
pub(super) struct Due {
    pub(super) member: Member,
    /// A transaction may hold its document.
    pub(super) alone: bool,
}

/// Leases that are renewed by one command.
pub(super) struct Batch {
    pub(super) members: Vec<Member>,
    /// When the rules said that they were due.
    pub(super) planned_at: Instant,
    deadline: Duration,
}

impl Batch {
    /// In what time it has to be done.
    pub(super) fn limits(&self) -> Limits {
        let deadline = clock::now().after(self.deadline);
        Limits { attempt: self.deadline, deadline, delays: RETRY }
    }

    /// The same leases in smaller batches. Each has less time than the whole had: it may have to be cut up again, and
    /// one lease in two thousand is found while there is time for the others.
    pub(super) fn pieces(&self) -> impl Iterator<Item = Batch> {
        let size = self.members.len().div_ceil(PIECES);
        self.members.chunks(size).map(|members| Batch {
            members: members.to_vec(),
            planned_at: self.planned_at,
            deadline: self.deadline * 2 / 3,
        })
    }
}

/// Leases that are due, as commands: those that a transaction may hold alone, the others together.
pub(super) fn batches(due: Vec<Due>) -> impl Iterator<Item = Batch> {
    let planned_at = clock::now();
    let (alone, together): (Vec<Due>, Vec<Due>) = due.into_iter().partition(|due| due.alone);
    let mut commands: Vec<Vec<Member>> = alone.into_iter().map(|due| vec![due.member]).collect();
    let mut together = together.into_iter().map(|due| due.member).peekable();
    while together.peek().is_some() {
        commands.push(together.by_ref().take(BATCH_MAX).collect());
    }
    commands.into_iter().map(move |members| {
        let deadlines = members.iter().map(|(_, holding)| holding.timing.bulk_deadline());
        Batch { deadline: deadlines.min().unwrap_or_default(), members, planned_at }
    })
}
