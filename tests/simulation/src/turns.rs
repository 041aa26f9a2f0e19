//! A promise about the calls of one process: the next one that waits for a lease inherits the entry of one that gives
//! up.
//!
//! A call that is dropped in the millisecond of its next attempt may have counted that attempt, which is never sent
//! then, and leaves the queue. So one lost entry is no violation, but several in a round are, if no more are inherited.

use mongo_lease_checker::changes::{Change, Waiting};
use mongo_lease_checker::history::Ending;
use mongo_lease_checker::maps::Map;
use mongo_lease_checker::{Call, Facts, MILLI, Nanos};

use crate::promises::{Broken, Calls};
use crate::round::History;

/// How long before the end of another one a call must have begun, and how long it must go on.
const BESIDE: Nanos = 100 * MILLI;

/// So many lost entries of a round are several. Two coincidences in one round have been seen.
const SEVERAL: usize = 4;

/// The entries that were given up, if they are several, although another call of the process waited. `is_calm` says
/// whether nothing ailed a process from one moment to another.
pub(crate) fn given_up(
    history: &History,
    facts: &Facts,
    calls: &Calls<'_>,
    is_calm: impl Fn(&str, Nanos, Nanos) -> bool,
) -> Vec<Broken> {
    let (mut found, mut inherited) = (Vec::new(), 0);
    let mut last: Map<&str, &Change> = Map::default();
    for change in &history.evidence.changes {
        let before = last.insert(&change.name, change).and_then(|change| change.after.as_ref());
        let (Some(before), Some(after)) = (before, &change.after) else { continue };
        let at = history.evidence.moment(change.wall);
        let is_left = |entry: &&Waiting| {
            let is_there = after.queue.iter().any(|it| it.value == entry.value)
                || after.grants.iter().any(|it| it.value == entry.value);
            !is_there && entry.permits.is_exclusive() && entry.expires_at > change.wall
        };
        for entry in before.queue.iter().filter(is_left) {
            let Some(call) = facts.calls.get(&entry.call[..]) else { continue };
            let next = next(history, calls, call, at);
            let Some(next) = next.filter(|_| is_calm(call.by, call.invoked, at)) else { continue };
            let is_of = |id: &str| facts.calls.get(id).is_some_and(|other| other.by == call.by);
            let is_kept = after.queue.iter().any(|it| it.permits.is_exclusive() && is_of(&it.call))
                || after.grants.iter().any(|it| is_of(&it.call));
            if is_kept {
                inherited += 1;
            } else {
                let (lease, calls) =
                    (Some(call.name.to_owned()), vec![call.id.to_owned(), next.id.to_owned()]);
                let text = format!(
                    "{} did not inherit the entry of {} for {}",
                    next.id, call.id, call.name
                );
                found.push(Broken { promise: "Inheritance".to_owned(), at, lease, calls, text });
            }
        }
    }
    if found.len() >= SEVERAL && found.len() > inherited { found } else { Vec::new() }
}

/// The call that should have inherited the entry of this one, which has given up before this moment.
fn next<'a>(
    history: &History,
    calls: &'a Calls<'a>,
    call: &'a Call<'a>,
    at: Nanos,
) -> Option<&'a Call<'a>> {
    let (ended, how) = call.ended?;
    // `at` is by the server's clock.
    let clocks = 2 * history.evidence.terms.clock_error;
    // With an attempt under way there may be more than the entry.
    let is_under_way = |(id, sent, answered): &(String, Nanos, Nanos)| {
        *id == call.id && *sent <= ended + MILLI && ended <= *answered + MILLI
    };
    let gave_up = matches!(how, Ending::Dropped | Ending::TimedOut) && ended <= at;
    if !gave_up || history.excused.contains(call.id) {
        return None;
    }
    let waits = |other: &&Call| {
        other.id != call.id
            && other.permits.is_exclusive()
            && other.wait_ms.is_some()
            && other.invoked + BESIDE < ended
            && other.answered().is_none_or(|answered| answered > at + BESIDE + clocks)
            && !history.excused.contains(other.id)
    };
    let beside = calls.get(&(call.by, call.name))?;
    let next = beside.iter().copied().find(waits)?;
    (!history.attempts.iter().any(is_under_way)).then_some(next)
}
