//! The checks, and what they find.

mod documents;
mod ends;
mod evidence;
mod facts;
mod gaps;
mod holds;
mod invariant;
mod line;
mod progress;
#[cfg(test)]
mod tests;
mod transactions;

use std::fmt;

pub use ends::{Freed, freed, is_lost, overshoot};
pub use evidence::{Allowances, CheckOptions, Cursor, Evidence, LeftOver, moment};
pub use facts::{Call, Facts, Fault, Hold};
pub use gaps::{Gap, gaps};
pub use invariant::Invariant;

use crate::time::{MILLI, Nanos, SECOND};

/// A promise that was not kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The promise.
    pub invariant: Invariant,
    /// When it was broken.
    pub at: Nanos,
    /// When that began which broke it then: a call, a wait, a belief. Equal to `at` where it was one moment.
    pub since: Nanos,
    /// The name of the lease, if it concerns one.
    pub lease: Option<String>,
    /// The ids of the calls that it concerns.
    pub calls: Vec<String>,
    /// The same in words.
    pub text: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Violation { invariant, at, text, .. } = self;
        write!(formatter, "{invariant:?} at {}.{:03} s: {text}", at / SECOND, at % SECOND / MILLI)
    }
}

impl Violation {
    /// One of no certain lease or call.
    pub fn new(invariant: Invariant, at: Nanos, text: String) -> Violation {
        Violation { invariant, at, since: at, lease: None, calls: Vec::new(), text }
    }

    /// The lease and the calls that it concerns.
    fn of<'a>(self, lease: &str, calls: impl IntoIterator<Item = &'a str>) -> Violation {
        let calls = calls.into_iter().map(str::to_owned).collect();
        Violation { lease: Some(lease.to_owned()), calls, ..self }
    }

    fn since(self, since: Nanos) -> Violation {
        Violation { since, ..self }
    }
}

/// Collects the findings of the checks.
#[derive(Debug, Default)]
struct Found(Vec<Violation>);

impl Found {
    fn add(&mut self, violation: Violation) {
        self.0.push(violation);
    }
}

/// One check.
type Check = fn(&Evidence, &Facts, &mut Found);

/// All checks, each with the invariants of which it finds violations.
const CHECKS: [(Check, &[Invariant]); 17] = [
    (holds::together, &[Invariant::Exclusion, Invariant::Limit, Invariant::Sharing]),
    (holds::tokens, &[Invariant::Tokens, Invariant::TokenTimes]),
    (holds::fence, &[Invariant::Fence]),
    (transactions::transactions, &[Invariant::Transactions]),
    (documents::belief, &[Invariant::Belief]),
    (documents::removal, &[Invariant::Removal]),
    (documents::take_over, &[Invariant::TakeOver]),
    (documents::expiry, &[Invariant::Expiry]),
    (documents::records, &[Invariant::Records]),
    (line::order, &[Invariant::Order]),
    (gaps::unused, &[Invariant::Gap]),
    (progress::unexplained, &[Invariant::Progress]),
    (ends::abandoned, &[Invariant::Abandoned]),
    (ends::expired, &[Invariant::Abandoned]),
    (ends::deadlines, &[Invariant::Deadline]),
    (ends::recovery, &[Invariant::Recovery]),
    (ends::left_over, &[Invariant::LeftOver]),
];

/// Returns every violation, in the order of time.
pub fn check(evidence: &Evidence) -> Vec<Violation> {
    check_facts(evidence, &Facts::of(evidence))
}

/// The same with the facts of this evidence, for a caller that has them.
pub fn check_facts(evidence: &Evidence, facts: &Facts) -> Vec<Violation> {
    run_checks(evidence, facts, &Invariant::ALL)
}

/// Returns every violation of these invariants, in the order of time.
pub fn check_only(evidence: &Evidence, invariants: &[Invariant]) -> Vec<Violation> {
    run_checks(evidence, &Facts::of(evidence), invariants)
}

fn run_checks(evidence: &Evidence, facts: &Facts, invariants: &[Invariant]) -> Vec<Violation> {
    let mut found = Found::default();
    for (check, finds) in CHECKS {
        if finds.iter().any(|invariant| invariants.contains(invariant)) {
            check(evidence, facts, &mut found);
        }
    }
    // A violation that is one only if the situation lasts is none yet.
    let counts = |violation: &Violation| {
        violation.at <= evidence.known_until && invariants.contains(&violation.invariant)
    };
    found.0.retain(counts);
    found.0.sort_by_key(|violation| violation.at);
    found.0
}
