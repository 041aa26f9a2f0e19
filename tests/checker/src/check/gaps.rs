//! Waiters beside a gap into which they fit, by the oplog.

use super::{Evidence, Facts, Found, Invariant, Violation};
use crate::changes::{Change, State, Waiting};
use crate::maps::OrderedMap;
use crate::permits;
use crate::time::{MILLI, Nanos};

/// A time in which one waiter was the first live one in the queue and fitted beside the holders.
#[derive(Clone, Debug)]
pub struct Gap {
    /// The name of the lease.
    pub name: String,
    /// The waiter's call.
    pub call: String,
    /// When it began, by the changes.
    pub began: Nanos,
    /// When it ended, by the changes.
    pub ended: Nanos,
    /// The last moment at which it may end.
    pub deadline: Nanos,
    /// There were faults in that time.
    pub is_faulted: bool,
}

/// Every such time. A holder that has died counts as a holder until its grant expires.
pub fn gaps(evidence: &Evidence, facts: &Facts) -> Vec<Gap> {
    let mut by_name: OrderedMap<&str, Vec<&Change>> = OrderedMap::default();
    for change in &evidence.changes {
        by_name.entry(&change.name).or_default().push(change);
    }
    by_name.sort_unstable_keys();
    let mut found = Vec::new();
    for (name, changes) in by_name {
        let mut open: Option<(&Waiting, i64)> = None;
        for (number, change) in changes.iter().enumerate() {
            let waits = change.after.as_ref().is_some_and(|after| !after.queue.is_empty());
            if !waits && open.is_none() {
                continue;
            }
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
pub(super) fn moments(change: &Change, until: i64) -> Vec<i64> {
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
    let deadline = facts.deadline(began, evidence.terms.noticed_within(), None);
    let is_faulted = facts.faulted(began, ended) > 0;
    Gap { name: name.to_owned(), call: entry.call.clone(), began, ended, deadline, is_faulted }
}

/// No waiter stays in the queue for long although it is its turn and it fits.
pub(super) fn unused(evidence: &Evidence, facts: &Facts, found: &mut Found) {
    for gap in gaps(evidence, facts).into_iter().filter(|gap| gap.ended > gap.deadline) {
        let lasted = (gap.ended - gap.began) / MILLI;
        let text = format!("{} waited for {} although it fitted, {lasted} ms", gap.call, gap.name);
        let violation = Violation::new(Invariant::Gap, gap.deadline, text);
        found.add(violation.of(&gap.name, [&gap.call[..]]).since(gap.began));
    }
}
