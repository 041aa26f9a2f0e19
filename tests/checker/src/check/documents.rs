//! Compares the beliefs of holders with the documents.

use super::{Evidence, Facts, Found, Hold, Invariant, Violation};
use crate::changes::{Change, Grant, GrantKey, State, manager};
use crate::maps::{Map, Set};
use crate::permits;
use crate::time::{MILLI, Nanos};

/// The servers count whole milliseconds, and two clocks differ by a little more.
const GRAIN: Nanos = 3 * MILLI;

/// No holder believes for longer than the document says.
pub(super) fn belief(evidence: &Evidence, facts: &Facts, found: &mut Found) {
    let mut by_grant: Map<GrantKey<'_>, Vec<(&Change, &Grant)>> = Map::default();
    for change in &evidence.changes {
        for grant in change.after.iter().flat_map(|after| &after.grants) {
            by_grant.entry(grant.key()).or_default().push((change, grant));
        }
    }
    for hold in &facts.holds {
        let changes = by_grant.get(&hold.key()).map(Vec::as_slice).unwrap_or_default();
        for (at, until) in &hold.beliefs {
            // The holder could not know of later writes.
            let mut known = changes.iter().rev();
            let latest = at + GRAIN + evidence.terms.clock_error;
            let newest = known.find(|(change, _)| evidence.moment(change.wall) <= latest);
            // A grant that is not in the oplog has no right token either.
            let Some((_, grant)) = newest else { continue };
            let expires = evidence.moment(grant.expires_at);
            if *until > expires + GRAIN && until > at {
                let by = (until - expires) / MILLI;
                let text = format!("{} of {} by {by} ms too long", hold.call, hold.name);
                let violation = Violation::new(Invariant::Belief, *at, text);
                found.add(violation.of(hold.name, [hold.call]).since(hold.began));
                break;
            }
        }
    }
}

/// No grant is removed or handed off under a holder that believes.
pub(super) fn removal(evidence: &Evidence, facts: &Facts, found: &mut Found) {
    let holds: Map<_, &Hold> = facts.holds.iter().map(|hold| (hold.key(), hold)).collect();
    for change in &evidence.changes {
        let at = evidence.moment(change.wall);
        for grant in change.ended() {
            let Some(hold) = holds.get(&grant.key()) else { continue };
            let until = hold.believed_until();
            if until > at + GRAIN + evidence.terms.clock_error {
                let granted: Vec<&str> = change.granted().map(|grant| &grant.call[..]).collect();
                let by = (until - at) / MILLI;
                let (call, name) = (&hold.call, &hold.name);
                let text = format!("{call} of {name} {by} ms early, for {granted:?}");
                let calls = [&call[..]].into_iter().chain(granted);
                let violation = Violation::new(Invariant::Removal, at, text);
                found.add(violation.of(name, calls).since(hold.began));
            }
        }
    }
}

/// No lease is acquired before it has expired, by the server's own clock at that command: an acquire ends no grant that
/// has not, whether it admits its own call or the waiters before that.
///
/// Excepted is a process that takes over a lease for which another call of its own waited and which that call was
/// granted.
pub(super) fn take_over(evidence: &Evidence, _: &Facts, found: &mut Found) {
    for change in &evidence.changes {
        let Some(first) = change.granted().next() else { continue };
        let Some(after) = change.asker().or_else(|| change.joiner().map(|_| first)) else {
            continue;
        };
        for before in change.ended() {
            if is_inherited(before, after) || before.expires_at <= after.acquired_at {
                continue;
            }
            let early = before.expires_at - after.acquired_at;
            let text = format!("{} took {} {early} ms early", after.call, change.name);
            let at = evidence.moment(change.wall);
            let violation = Violation::new(Invariant::TakeOver, at, text);
            found.add(violation.of(&change.name, [&after.call[..], &before.call]));
        }
    }
}

/// Whether a call was granted the exclusive lease that an earlier call of its process had been granted.
pub(super) fn is_inherited(before: &Grant, after: &Grant) -> bool {
    let are_exclusive = before.permits.is_exclusive() && after.permits.is_exclusive();
    are_exclusive && manager(&before.value) == manager(&after.value)
}

/// The expiry of a grant never falls.
pub(super) fn expiry(evidence: &Evidence, _: &Facts, found: &mut Found) {
    for change in &evidence.changes {
        let (Some(before), Some(after)) = (&change.before, &change.after) else {
            continue;
        };
        for grant in &after.grants {
            let old =
                before.grants.iter().find(|old| (&old.value, &old.id) == (&grant.value, &grant.id));
            // A damaged entry may have made an expiry that is before all dates, and then the grant prolongs it.
            let Some(old) = old.filter(|old| old.expires_at > grant.expires_at) else {
                continue;
            };
            let by = old.expires_at.saturating_sub(grant.expires_at);
            let text = format!("{} of {} by {by} ms", grant.call, change.name);
            let violation = Violation::new(Invariant::Expiry, evidence.moment(change.wall), text);
            found.add(violation.of(&change.name, [&grant.call[..]]));
        }
    }
}

/// The holders in a document fit together, also those that have expired; no value has two grants; and the document
/// expires with the last of them. After damage to one of its holders or waiters it may expire later, until all of its
/// holders have gone.
pub(super) fn records(evidence: &Evidence, facts: &Facts, found: &mut Found) {
    let mut damaged: Set<&str> = Set::default();
    for change in &evidence.changes {
        let states = [&change.before, &change.after];
        if change.before.as_ref().is_none_or(|before| before.grants.is_empty()) {
            damaged.remove(&change.name[..]);
        }
        if states.into_iter().flatten().any(|state| facts.is_damaged(state)) {
            damaged.insert(&change.name);
        }
        let may_last = damaged.contains(&change.name[..]);
        let defect = change.after.as_ref().and_then(|after| defect(after, may_last));
        if let Some(defect) = defect {
            let text = format!("{}: {defect}", change.name);
            let holders = change.after.iter().flat_map(|after| &after.grants);
            let holders = holders.map(|grant| &grant.call[..]);
            let violation = Violation::new(Invariant::Records, evidence.moment(change.wall), text);
            found.add(violation.of(&change.name, holders));
        }
    }
}

fn defect(state: &State, may_last: bool) -> Option<String> {
    let (used, limit) = permits::in_use(state.grants.iter().map(|grant| grant.permits));
    if used > limit {
        return Some(format!("{used} permits of {limit}"));
    }
    let mut values = Set::default();
    if state.grants.len() > 1 && !state.grants.iter().all(|grant| values.insert(&grant.value)) {
        return Some("a value holds twice".to_owned());
    }
    let last = state.grants.iter().map(|grant| grant.expires_at).max()?;
    let by = last.saturating_sub(state.expires_at);
    (by > 0 || (by < 0 && !may_last)).then(|| format!("it expires {by} ms before its last holder"))
}
