//! The order of the queue, by the oplog.

use super::{Evidence, Found, Invariant};
use crate::oplog::{Change, State, Waiting, manager};

/// The first live entry is granted the lease, whoever grants it, and entries keep their order.
pub(super) fn order(evidence: &Evidence, found: &mut Found) {
    for change in &evidence.changes {
        let passed_over = granted_past(change).or_else(|| overtaken(change));
        if let Some(text) = passed_over {
            let text = format!("{}: {text}", change.name);
            found.add(Invariant::Order, evidence.moment(change.wall), text);
        }
    }
}

/// The waiter that a grant passed over.
fn granted_past(change: &Change) -> Option<String> {
    let (before, after) = (change.before.as_ref()?, change.granted()?);
    let first = live(before, after.acquired_at).next()?;
    if change.is_promotion() {
        let is_first = first.value == after.value;
        return (!is_first).then(|| format!("{} was promoted past {}", after.call, first.call));
    }
    // A process has one entry for all of its calls. It may know that its own is alive although the entry has expired.
    let is_own = |entry: &Waiting| manager(&entry.value) == manager(&after.value);
    let own = before.queue.iter().position(is_own);
    let place = before.queue.iter().position(|entry| entry.value == first.value);
    let is_his_turn = own.is_some() && own <= place;
    let inherits = manager(&before.value) == manager(&after.value);
    (!is_his_turn && !inherits).then(|| format!("{} got before {}", after.call, first.call))
}

/// The waiter that lost its position in the queue.
fn overtaken(change: &Change) -> Option<String> {
    let (before, after) = (change.before.as_ref()?, change.after.as_ref()?);
    let stands = |queue: &[Waiting], entry: &Waiting| {
        queue.iter().position(|other| other.value == entry.value)
    };
    let mut furthest = None;
    let gone: Vec<&str> = before
        .queue
        .iter()
        .filter(|entry| stands(&after.queue, entry).is_none())
        .map(|entry| manager(&entry.value))
        .collect();
    let mut new_before: Option<&Waiting> = None;
    for entry in &after.queue {
        match stands(&before.queue, entry) {
            Some(place) => {
                if furthest.is_some_and(|furthest| place < furthest) {
                    return Some(format!("{} has lost its queue entry", entry.call));
                }
                if let Some(new) = new_before {
                    return Some(format!("{} joined before {}", new.call, entry.call));
                }
                furthest = Some(place);
            }
            // In the entry of another call of the same process, or at the end.
            None if gone.contains(&manager(&entry.value)) => {}
            None => new_before = new_before.or(Some(entry)),
        }
    }
    None
}

/// The entries that live at this moment.
fn live(state: &State, now: i64) -> impl Iterator<Item = &Waiting> {
    state.queue.iter().filter(move |entry| entry.expires_at > now && entry.value != state.value)
}
