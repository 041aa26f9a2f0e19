//! The checker: compares all histories with the promises. Pure.

mod documents;
mod ends;
mod facts;
mod gaps;
mod holds;
mod line;
#[cfg(test)]
mod tests;

use std::fmt;

pub(crate) use ends::{freed, is_lost, overshoot};
pub(crate) use facts::{Call, Facts, Fault, Hold};
pub(crate) use gaps::gaps;

use crate::arguments::Options;
use crate::clock::{MILLI, Nanos, SECOND};
use crate::history::Record;
use crate::nemesis::{Choice, Cursor};
use crate::oplog::Change;

/// The library's options.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CheckOptions {
    pub(crate) max_clock_skew: Nanos,
    pub(crate) waiter_ttl: Nanos,
    /// How far a member's clock may be moved from the true one, either way.
    pub(crate) clock_error: Nanos,
    /// Whether a worker makes so many calls side by side that they travel in batches. Then a grant's token may be the
    /// time of a later write of its command; else it is the time of the write that granted.
    pub(crate) calls_travel_together: bool,
}

impl CheckOptions {
    /// The terms for these options and these faults.
    pub(crate) fn of(options: &Options, choice: &Choice) -> CheckOptions {
        let max_clock_skew_ms = options.max_clock_skew_ms.unwrap_or(choice.max_clock_skew_ms());
        let max_clock_skew = max_clock_skew_ms * MILLI;
        let clock_error = choice.clock_error(max_clock_skew);
        // Two do, where commands before them hang. Each then has the time of the later write.
        let calls_travel_together = options.tasks + options.shared_tasks > 1;
        let waiter_ttl = options.waiter_ttl_ms * MILLI;
        CheckOptions { max_clock_skew, waiter_ttl, clock_error, calls_travel_together }
    }

    /// Whether two members' clocks may differ by more than the maximum clock skew. Then two clients may believe at
    /// once, and the claims about tokens and the fence must hold all the same.
    pub(crate) fn are_clocks_unbound(&self) -> bool {
        self.clock_error > 0 && 2 * self.clock_error > self.max_clock_skew
    }

    /// Whether a violation is only counted: the invariant needs clocks within their promised bound.
    pub(crate) fn may_break(&self, invariant: Invariant) -> bool {
        let rests_on_clocks = match invariant {
            Invariant::Exclusion
            | Invariant::Limit
            | Invariant::Sharing
            | Invariant::Belief
            | Invariant::Removal
            | Invariant::Abandoned
            | Invariant::Gap => true,
            Invariant::Tokens
            | Invariant::TokenTimes
            | Invariant::Fence
            | Invariant::TakeOver
            | Invariant::Expiry
            | Invariant::Records
            | Invariant::Deadline
            | Invariant::Recovery
            | Invariant::Order
            | Invariant::LeftOver => false,
        };
        rests_on_clocks && self.are_clocks_unbound()
    }
}

/// The remains after all processes have gone.
#[derive(Clone, Debug, Default)]
pub(crate) struct LeftOver {
    pub(crate) documents: Vec<String>,
    /// Cursors that are still open.
    pub(crate) cursors: Vec<Cursor>,
    /// How many workers did not end in time, or not well.
    pub(crate) workers: usize,
}

/// The evidence of a run.
#[derive(Clone, Debug)]
pub(crate) struct Evidence {
    /// Sorted by time.
    pub(crate) records: Vec<Record>,
    /// In the order of the oplog.
    pub(crate) changes: Vec<Change>,
    /// How far the servers' clock is ahead of the histories'.
    pub(crate) wall_ahead: Nanos,
    pub(crate) began: Nanos,
    /// When the faults were over.
    pub(crate) ended: Nanos,
    /// The end of what is known, while a run goes on.
    pub(crate) known_until: Nanos,
    pub(crate) terms: CheckOptions,
    pub(crate) left: LeftOver,
    /// How many commands the proxy changed, for a control.
    pub(crate) rewritten: u64,
    pub(crate) versions: String,
}

impl Evidence {
    /// Converts a moment of the servers' clock to the histories' clock.
    pub(crate) fn moment(&self, wall_millis: i64) -> Nanos {
        let wall = u64::try_from(wall_millis).unwrap_or(0).saturating_mul(MILLI);
        wall.saturating_sub(self.wall_ahead)
    }
}

/// A promise that the checker tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Invariant {
    /// No two valid exclusive holds of one name overlap.
    Exclusion,
    /// No more permits are in use than the smallest limit of their holders.
    Limit,
    /// No valid share overlaps with a valid exclusive hold of the same name.
    Sharing,
    /// Tokens rise strictly in the order of the grants that exclude each other.
    Tokens,
    /// Each token is a time, in the oplog, at which its holder held the lease.
    TokenTimes,
    /// The resource never accepts a write of an earlier grant after one of a later grant, where one is exclusive.
    Fence,
    /// No holder believes for longer than the document says.
    Belief,
    /// No grant is removed or handed off under a holder that believes.
    Removal,
    /// No lease is acquired before it has expired.
    TakeOver,
    /// The expiry of a grant never falls.
    Expiry,
    /// The holders in a document fit, and it expires with the last of them.
    Records,
    /// The lease of a dead process is free within ttl, maximum clock skew and a bound.
    Abandoned,
    /// Each wait ends by its deadline.
    Deadline,
    /// After an overload, a call for a lease that nobody has is granted within its wait.
    Recovery,
    /// The order of the queue is kept.
    Order,
    /// The first waiter does not stay in the queue beside holders with whom it fits.
    Gap,
    /// Nothing is left over.
    LeftOver,
}

impl Invariant {
    pub(crate) const ALL: [Invariant; 17] = [
        Invariant::Exclusion,
        Invariant::Limit,
        Invariant::Sharing,
        Invariant::Tokens,
        Invariant::TokenTimes,
        Invariant::Fence,
        Invariant::Belief,
        Invariant::Removal,
        Invariant::TakeOver,
        Invariant::Expiry,
        Invariant::Records,
        Invariant::Abandoned,
        Invariant::Deadline,
        Invariant::Recovery,
        Invariant::Order,
        Invariant::Gap,
        Invariant::LeftOver,
    ];

    pub(crate) fn words(self) -> &'static str {
        match self {
            Invariant::Exclusion => "no two valid exclusive holds of one name overlap",
            Invariant::Limit => "no more permits are in use than the smallest limit of the holders",
            Invariant::Sharing => "no share is held beside an exclusive lease",
            Invariant::Tokens => "tokens increase with the grants that exclude each other",
            Invariant::TokenTimes => "each token is a time at which its holder held the lease",
            Invariant::Fence => {
                "the resource accepts no write of an earlier grant after one of a later grant"
            }
            Invariant::Belief => "no holder relies on its lease for longer than the document says",
            Invariant::Removal => "no lease is removed or handed off while its holder relies on it",
            Invariant::TakeOver => "no lease is acquired before it has expired",
            Invariant::Expiry => "`expiresAt` never falls for one grant",
            Invariant::Records => {
                "the holders in a document fit, and it expires with the last of them"
            }
            Invariant::Abandoned => "a lease of a dead process becomes free in time",
            Invariant::Deadline => "each wait ends by its deadline",
            Invariant::Recovery => "after an overload, a free lease is granted in time",
            Invariant::Order => "the order of the queue is kept",
            Invariant::Gap => "no first waiter stays in the queue although it fits",
            Invariant::LeftOver => "no document, task, socket or cursor is left over",
        }
    }
}

/// A promise that was not kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Violation {
    pub(crate) invariant: Invariant,
    pub(crate) at: Nanos,
    pub(crate) text: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Violation { invariant, at, text } = self;
        write!(formatter, "{invariant:?} at {}.{:03} s: {text}", at / SECOND, at % SECOND / MILLI)
    }
}

/// Collects the findings of the checks.
#[derive(Debug, Default)]
struct Found(Vec<Violation>);

impl Found {
    fn add(&mut self, invariant: Invariant, at: Nanos, text: String) {
        self.0.push(Violation { invariant, at, text });
    }
}

/// Returns every violation.
pub(crate) fn check(evidence: &Evidence) -> Vec<Violation> {
    let facts = Facts::of(evidence);
    let mut found = Found::default();
    holds::together(&facts, &mut found);
    holds::tokens(evidence, &facts, &mut found);
    holds::fence(evidence, &facts, &mut found);
    documents::belief(evidence, &facts, &mut found);
    documents::removal(evidence, &facts, &mut found);
    documents::take_over(evidence, &mut found);
    documents::expiry(evidence, &mut found);
    documents::records(evidence, &facts, &mut found);
    line::order(evidence, &facts, &mut found);
    gaps::unused(evidence, &facts, &mut found);
    ends::abandoned(evidence, &facts, &mut found);
    ends::expired(evidence, &facts, &mut found);
    ends::deadlines(evidence, &facts, &mut found);
    ends::recovery(evidence, &facts, &mut found);
    ends::left_over(evidence, &facts, &mut found);
    // A violation that is one only if the situation lasts is none yet.
    found.0.retain(|violation| violation.at <= evidence.known_until);
    found.0.sort_by_key(|violation| violation.at);
    found.0
}

/// Whether each of these was found to be broken.
pub(crate) fn are_all_found(invariants: &[Invariant], found: &[Violation]) -> bool {
    invariants.iter().all(|invariant| found.iter().any(|found| found.invariant == *invariant))
}
