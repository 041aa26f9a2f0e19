//! Waiters beside a gap into which they fit, by the oplog.

use std::collections::BTreeMap;

use super::{Evidence, Facts, Found, Invariant};
use crate::clock::{MILLI, Nanos, SECOND};
use crate::oplog::{Change, State, Waiting};
use crate::permits;

/// How long the first waiter may take to notice, beyond the waiter ttl after which each sends an attempt, on a busy
/// machine.
const NOTICING: Nanos = 2 * SECOND;

/// A time in which one waiter was the first live one in the queue and fitted beside the holders.
pub(crate) struct Gap {
    name: String,
    call: String,
    pub(crate) began: Nanos,
    pub(crate) ended: Nanos,
    /// The last moment at which it may end.
    deadline: Nanos,
    /// There were faults in that time.
    pub(crate) is_faulted: bool,
}

/// Every such time. A holder that has died counts as a holder until its grant expires.
pub(crate) fn gaps(evidence: &Evidence, facts: &Facts) -> Vec<Gap> {
    let mut by_name: BTreeMap<&str, Vec<&Change>> = BTreeMap::new();
    for change in &evidence.changes {
        by_name.entry(&change.name).or_default().push(change);
    }
    let mut found = Vec::new();
    for (name, changes) in by_name {
        let mut open: Option<(&Waiting, i64)> = None;
        for (number, change) in changes.iter().enumerate() {
            let until = changes.get(number + 1).map_or(i64::MAX, |next| next.wall);
            for now in moments(change, until) {
                let after = change.after.as_ref().filter(|state| !facts.is_damaged(state));
                let first = after.and_then(|state| first_that_fits(state, now));
                let same =
                    |(entry, _): &(&Waiting, i64)| first.is_some_and(|it| it.value == entry.value);
                if open.as_ref().is_some_and(same) {
                    continue;
                }
                let over = open.take().map(|(entry, began)| (entry, [began, now]));
                found.extend(over.map(|over| gap(evidence, facts, name, over)));
                open = first.map(|entry| (entry, now));
            }
        }
    }
    found
}

/// The moments from this change to the next at which a holder or an entry expires, and that of the change.
fn moments(change: &Change, until: i64) -> Vec<i64> {
    let after = change.after.iter();
    let ends = after.flat_map(|state| {
        let grants = state.grants.iter().map(|grant| grant.expires_at);
        grants.chain(state.queue.iter().map(|entry| entry.expires_at))
    });
    let mut moments: Vec<i64> = ends.filter(|at| change.wall < *at && *at < until).collect();
    moments.push(change.wall);
    moments.sort_unstable();
    moments
}

/// The first live entry, if it fits beside the holders.
fn first_that_fits(state: &State, now: i64) -> Option<&Waiting> {
    let first = state.queue.iter().find(|entry| state.is_live(entry, now))?;
    let holders = state.holders(now).map(|grant| grant.permits);
    permits::fit(holders.chain([first.permits])).then_some(first)
}

fn gap(
    evidence: &Evidence,
    facts: &Facts,
    name: &str,
    (entry, [began, ended]): (&Waiting, [i64; 2]),
) -> Gap {
    let (began, ended) = (evidence.moment(began), evidence.moment(ended));
    let terms = evidence.terms;
    let fair = terms.waiter_ttl + terms.max_clock_skew + 2 * terms.clock_error + NOTICING;
    let mut deadline = began + fair;
    // Faults put it off, and more of them may come in the time that this adds.
    for _ in 0..8 {
        deadline = began + fair + facts.faulted(began, deadline);
    }
    let is_faulted = facts.faulted_and(0, began, ended) > 0;
    Gap { name: name.to_owned(), call: entry.call.clone(), began, ended, deadline, is_faulted }
}

/// No waiter stays in the queue for long although it is its turn and it fits.
pub(super) fn unused(evidence: &Evidence, facts: &Facts, found: &mut Found) {
    for gap in gaps(evidence, facts).into_iter().filter(|gap| gap.ended > gap.deadline) {
        let lasted = (gap.ended - gap.began) / MILLI;
        let text = format!("{} waited for {} although it fitted, {lasted} ms", gap.call, gap.name);
        found.add(Invariant::Gap, gap.deadline, text);
    }
}
