//! Compares the beliefs of holders with each other: exclusion, tokens, the fence.

use std::collections::{BTreeMap, HashMap};

use super::{Evidence, Facts, Found, Hold, Invariant};
use crate::clock::MILLI;
use crate::history::What;

/// No two valid holds of one name overlap.
pub(super) fn exclusion(facts: &Facts, found: &mut Found) {
    for (name, holds) in facts.by_name() {
        // Of the earlier holds, the one whose holder believes longest.
        let mut longest = None;
        for hold in holds {
            let until = hold.believed_until();
            if let Some((before, believed)) = longest
                && hold.began < believed
                && hold.began < until
            {
                let by = (believed.min(until) - hold.began) / MILLI;
                let text = format!("{before} and {} both hold {name}, for {by} ms", hold.call);
                found.add(Invariant::Exclusion, hold.began, text);
            }
            if longest.is_none_or(|(_, believed)| believed < until) {
                longest = Some((hold.call.as_str(), until));
            }
        }
    }
}

/// Tokens rise strictly in the order of the grants, and each is a time at which its holder held the lease: the time of
/// the write that granted it, or of the last write of the batch in which that write travelled.
pub(super) fn tokens(evidence: &Evidence, facts: &Facts, found: &mut Found) {
    let mut written: HashMap<&str, BTreeMap<u64, Option<&str>>> = HashMap::new();
    for change in &evidence.changes {
        let value = change.after.as_ref().map(|after| after.value.as_str());
        written.entry(change.name.as_str()).or_default().insert(change.token, value);
    }
    let earliest = |token: u64| if evidence.terms.calls_travel_together { 0 } else { token };
    let value_at = |name: &str, token: u64| {
        let mut until_then = written.get(name)?.range(earliest(token)..=token);
        *until_then.next_back()?.1
    };
    let made = evidence.changes.iter().enumerate();
    let made = made.filter_map(|(place, change)| Some((&change.granted()?.grant[..], place)));
    let made: HashMap<&str, usize> = made.collect();
    for (name, mut holds) in facts.by_name() {
        if evidence.terms.are_clocks_unbound() {
            // A holder may hear of its grant when another has the lease already: then the oplog's order counts.
            holds.sort_by_key(|hold| made.get(&hold.grant[..]));
        }
        let mut newest: Option<(u64, &str)> = None;
        for hold in holds {
            if let Some((token, call)) = newest
                && hold.token <= token
            {
                let text =
                    format!("{} of {name} has {}, {call} before it {token}", hold.call, hold.token);
                found.add(Invariant::Tokens, hold.began, text);
            }
            newest = newest.max(Some((hold.token, &hold.call)));
            if value_at(name, hold.token) != Some(hold.value.as_str()) {
                let text =
                    format!("{} of {name}: it was not the holder at {}", hold.call, hold.token);
                found.add(Invariant::Tokens, hold.began, text);
            }
        }
    }
}

/// The resource never accepts an older token after a newer one, nor a write of an earlier grant after one of a later
/// grant.
pub(super) fn fence(evidence: &Evidence, facts: &Facts, found: &mut Found) {
    // By the oplog, and not by the holder's report: in a control, that may be anything.
    let granted = evidence.changes.iter().rev();
    let granted = granted.filter_map(|change| Some((&change.granted()?.grant[..], change.token)));
    let times: HashMap<&str, u64> = granted.collect();
    let time = |hold: &Hold| times.get(&hold.grant[..]).copied().unwrap_or(hold.token);
    let order: HashMap<&str, u64> =
        facts.holds.iter().map(|hold| (&hold.call[..], time(hold))).collect();
    let mut newest: HashMap<&str, (u64, u64)> = HashMap::new();
    for record in &evidence.records {
        let What::Judged { call, name, token, accepted: true } = &record.what else {
            continue;
        };
        let grant = order.get(&call[..]).copied().unwrap_or(*token);
        let (newest_token, newest_grant) = newest.entry(name).or_default();
        if token < newest_token || grant < *newest_grant {
            let text = format!("a write of {call} to {name} was accepted behind a later grant's");
            found.add(Invariant::Fence, record.at, text);
        }
        *newest_token = (*newest_token).max(*token);
        *newest_grant = (*newest_grant).max(grant);
    }
}
