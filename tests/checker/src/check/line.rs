//! The order of the queue, by the oplog.

use super::documents::is_inherited;
use super::{Evidence, Facts, Found, Invariant, Violation};
use crate::changes::{Change, Grant, State, Waiting, manager};

/// Live entries are granted the lease in their order, whoever grants it, and entries keep their order.
pub(super) fn order(evidence: &Evidence, facts: &Facts, found: &mut Found) {
    for change in &evidence.changes {
        if change.before.as_ref().is_some_and(|before| facts.is_damaged(before)) {
            continue;
        }
        let passed_over = granted_past(change, evidence, facts).or_else(|| overtaken(change));
        if let Some(PassedOver { text, calls }) = passed_over {
            let text = format!("{}: {text}", change.name);
            let violation = Violation::new(Invariant::Order, evidence.moment(change.wall), text);
            found.add(violation.of(&change.name, calls));
        }
    }
}

/// A waiter that has lost its turn, and the call that came before it.
struct PassedOver<'a> {
    text: String,
    calls: Vec<&'a str>,
}

impl<'a> PassedOver<'a> {
    fn new(text: String, calls: impl Into<Vec<&'a str>>) -> PassedOver<'a> {
        PassedOver { text, calls: calls.into() }
    }
}

/// The waiter that a grant passed over.
fn granted_past<'a>(
    change: &'a Change,
    evidence: &Evidence,
    facts: &Facts,
) -> Option<PassedOver<'a>> {
    let (before, after) = (change.before.as_ref()?, change.after.as_ref()?);
    let granted: Vec<&Grant> = change.granted().collect();
    // The server's clock at the command, the same for all that it granted.
    let now = granted.first()?.acquired_at;
    let asker = change.asker();
    if asker.is_some_and(|asker| before.grants.iter().any(|old| is_inherited(old, asker))) {
        return None;
    }
    // A late attempt of a call that has ended leaves a second entry of its process.
    let by_own = asker.is_some_and(|asker| before.queue.iter().any(|it| it.value == asker.value));
    let is_own = |entry: &Waiting| {
        asker.is_some_and(|asker| match by_own {
            true => entry.value == asker.value,
            false => is_entry_of(entry, asker),
        })
    };
    // An acquire may admit the waiters before its call, which is in the queue then, and alive.
    let joiner = change.joiner();
    let is_joiners = |entry: &Waiting| joiner.is_some_and(|joiner| joiner.value == entry.value);
    let has_won = |entry: &Waiting| granted.iter().any(|grant| grant.value == entry.value);
    // A call that gives up leaves the queue, and those behind it are admitted in the same write. One write is of one
    // call: it is not that of a holder, which ends its grant.
    let is_release = change.ended().any(|grant| grant.expires_at > now);
    let is_acquire = asker.is_some() || joiner.is_some();
    // Each admission removes the dead, and these have not left. Nor has one that is granted the lease later. A call
    // that was granted it before leaves the entry of a late attempt, and a call may go on with another entry.
    let moment = evidence.moment(change.wall);
    let has_left = |entry: &&Waiting| {
        let is_live = before.is_live(entry, now);
        let stays = after.queue.iter().any(|other| other.value == entry.value);
        let is_granted = facts.heard.get(&entry.value[..]).is_some_and(|at| *at > moment);
        is_live && !is_acquire && !is_release && !stays && !has_won(entry) && !is_granted
    };
    let leaver = before.queue.iter().find(has_left).map(|entry| &entry.value);
    let counts = |entry: &&Waiting| {
        let is_live = before.is_live(entry, now) && leaver != Some(&entry.value);
        is_own(entry) || is_joiners(entry) || is_live
    };
    let mut left: Option<&Waiting> = None;
    // A process may know that its own entry is alive although that has expired.
    for entry in before.queue.iter().filter(counts) {
        match left {
            _ if !is_own(entry) && !has_won(entry) => left = left.or(Some(entry)),
            Some(left) => {
                let text = format!("{} was granted past {}", entry.call, left.call);
                return Some(PassedOver::new(text, [&entry.call[..], &left.call]));
            }
            None => {}
        }
    }
    let is_queued = before.queue.iter().any(is_own);
    let (left, asker) = (left?, asker.filter(|_| !is_queued)?);
    let text = format!("{} got before {}", asker.call, left.call);
    Some(PassedOver::new(text, [&asker.call[..], &left.call]))
}

/// Whether the grant is by this entry. A process has one entry for all of its exclusive calls.
fn is_entry_of(entry: &Waiting, grant: &Grant) -> bool {
    let are_exclusive = entry.permits.is_exclusive() && grant.permits.is_exclusive();
    entry.value == grant.value || (are_exclusive && manager(&entry.value) == manager(&grant.value))
}

/// The waiter that lost its position in the queue.
fn overtaken(change: &Change) -> Option<PassedOver<'_>> {
    let (before, after) = (change.before.as_ref()?, change.after.as_ref()?);
    let stands = |state: &State, entry: &Waiting| {
        state.queue.iter().position(|other| other.value == entry.value)
    };
    let mut furthest = None;
    let gone: Vec<&str> = before
        .queue
        .iter()
        .filter(|entry| entry.permits.is_exclusive() && stands(after, entry).is_none())
        .map(|entry| manager(&entry.value))
        .collect();
    let mut new_before: Option<&Waiting> = None;
    for entry in &after.queue {
        match stands(before, entry) {
            Some(place) => {
                if furthest.is_some_and(|furthest| place < furthest) {
                    let text = format!("{} has lost its queue entry", entry.call);
                    return Some(PassedOver::new(text, [&entry.call[..]]));
                }
                if let Some(new) = new_before {
                    let text = format!("{} joined before {}", new.call, entry.call);
                    return Some(PassedOver::new(text, [&new.call[..], &entry.call]));
                }
                furthest = Some(place);
            }
            // In the entry of another call of the same process, or at the end.
            None if entry.permits.is_exclusive() && gone.contains(&manager(&entry.value)) => {}
            None => new_before = new_before.or(Some(entry)),
        }
    }
    None
}
