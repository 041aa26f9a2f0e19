//! Compares the beliefs of holders with the documents.

use std::collections::HashMap;

use super::{Evidence, Facts, Found, Hold, Invariant};
use crate::clock::{MILLI, Nanos};
use crate::oplog::{Change, manager};

/// The servers count whole milliseconds, and two clocks differ by a little more.
const GRAIN: Nanos = 3 * MILLI;

/// No holder believes for longer than the document says.
pub(super) fn belief(evidence: &Evidence, facts: &Facts, found: &mut Found) {
    let mut by_grant: HashMap<&str, Vec<&Change>> = HashMap::new();
    for change in &evidence.changes {
        if let Some(after) = change.after.as_ref().filter(|after| after.is_held()) {
            by_grant.entry(&after.grant).or_default().push(change);
        }
    }
    for hold in &facts.holds {
        let changes = by_grant.get(hold.grant.as_str()).map(Vec::as_slice).unwrap_or_default();
        for (at, until) in &hold.beliefs {
            // The holder could not know of later writes.
            let known = changes.iter().rev();
            let latest = at + GRAIN + evidence.terms.clock_error;
            let known = known.filter(|change| evidence.moment(change.wall) <= latest);
            let newest = known.filter_map(|change| change.after.as_ref()).next();
            // A grant that is not in the oplog has no right token either.
            let Some(state) = newest else { continue };
            let expires = evidence.moment(state.expires_at);
            if *until > expires + GRAIN && until > at {
                let by = (until - expires) / MILLI;
                let text = format!("{} of {} by {by} ms too long", hold.call, hold.name);
                found.add(Invariant::Belief, *at, text);
                break;
            }
        }
    }
}

/// No document is removed or handed off under a holder that believes.
pub(super) fn removal(evidence: &Evidence, facts: &Facts, found: &mut Found) {
    let holds: HashMap<&str, &Hold> =
        facts.holds.iter().map(|hold| (hold.grant.as_str(), hold)).collect();
    for change in &evidence.changes {
        let Some(hold) = change.ended().and_then(|state| holds.get(state.grant.as_str())) else {
            continue;
        };
        let at = evidence.moment(change.wall);
        let until = hold.believed_until();
        if until > at + GRAIN + evidence.terms.clock_error {
            let after = change.after.as_ref().map_or("nobody", |after| after.call.as_str());
            let by = (until - at) / MILLI;
            let text = format!("{} of {} {by} ms early, for {after}", hold.call, hold.name);
            found.add(Invariant::Removal, at, text);
        }
    }
}

/// No lease is acquired before it has expired, by the server's own clock at that command.
///
/// Excepted is a process that takes over a lease for which another call of its own waited and which that call was
/// granted.
pub(super) fn take_over(evidence: &Evidence, found: &mut Found) {
    for change in &evidence.changes {
        let (Some(before), Some(after)) = (change.ended(), change.granted()) else {
            continue;
        };
        let is_inherited = manager(&before.value) == manager(&after.value);
        if change.is_promotion() || is_inherited || before.expires_at <= after.acquired_at {
            continue;
        }
        let early = before.expires_at - after.acquired_at;
        let text = format!("{} took {} {early} ms early", after.call, change.name);
        found.add(Invariant::TakeOver, evidence.moment(change.wall), text);
    }
}

/// The expiry never falls while the holder is the same.
pub(super) fn expiry(evidence: &Evidence, found: &mut Found) {
    for change in &evidence.changes {
        let (Some(before), Some(after)) = (&change.before, &change.after) else {
            continue;
        };
        let is_same = after.is_held() && before.value == after.value && before.grant == after.grant;
        if is_same && after.expires_at < before.expires_at {
            let by = before.expires_at - after.expires_at;
            let text = format!("{} of {} by {by} ms", after.call, change.name);
            found.add(Invariant::Expiry, evidence.moment(change.wall), text);
        }
    }
}
