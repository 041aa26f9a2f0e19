//! Compares the beliefs of holders with each other: who holds beside whom, tokens, the fence.

use std::collections::{BTreeMap, HashMap};

use super::{Evidence, Facts, Found, Hold, Invariant};
use crate::clock::MILLI;
use crate::history::What;
use crate::permits::{self, Permits};

/// At no moment are more permits in use than the smallest limit of the valid holds of one name.
///
/// Permits in use grow when a hold begins, and the smallest limit falls then alone: so these moments are enough.
pub(super) fn together(facts: &Facts, found: &mut Found) {
    for (name, holds) in facts.by_name() {
        let mut beside: Vec<&Hold> = Vec::new();
        // A holder that hears of its grant after its end has never held.
        for hold in holds.into_iter().filter(|hold| hold.began < hold.believed_until()) {
            beside.retain(|other| hold.began < other.believed_until());
            beside.push(hold);
            let (used, limit) = permits::in_use(beside.iter().map(|hold| hold.permits));
            if used > limit {
                let ends = beside.iter().map(|hold| hold.believed_until());
                let by = (ends.min().unwrap_or(hold.began) - hold.began) / MILLI;
                let calls: Vec<&str> = beside.iter().map(|hold| &hold.call[..]).collect();
                let calls = calls.join(", ");
                let text = format!("{calls} hold {name}, {used} permits of {limit}, for {by} ms");
                found.add(broken_by(&beside), hold.began, text);
            }
        }
    }
}

/// The invariant that these holders break, who do not fit together.
fn broken_by(beside: &[&Hold]) -> Invariant {
    let exclusive = beside.iter().filter(|hold| hold.permits.is_exclusive()).count();
    match exclusive {
        0 => Invariant::Limit,
        all if all == beside.len() => Invariant::Exclusion,
        _ => Invariant::Sharing,
    }
}

/// Among grants that exclude each other, tokens rise strictly in the order of the grants. Each token is a time at which
/// its holder held the lease: the time of the write that granted it, or of the last write of the batch in which that
/// write travelled.
///
/// Tokens of leases that can be held together are in no order.
pub(super) fn tokens(evidence: &Evidence, facts: &Facts, found: &mut Found) {
    let mut written: HashMap<&str, BTreeMap<u64, Vec<&str>>> = HashMap::new();
    for change in &evidence.changes {
        let grants = change.after.iter().flat_map(|after| &after.grants);
        let values = grants.map(|grant| grant.value.as_str()).collect();
        written.entry(change.name.as_str()).or_default().insert(change.token, values);
    }
    let earliest = |token: u64| if evidence.terms.calls_travel_together { 0 } else { token };
    let is_holder_at = |hold: &Hold| {
        let until_then = written.get(&hold.name[..]);
        let until_then = until_then.map(|all| all.range(earliest(hold.token)..=hold.token));
        let last = until_then.and_then(|mut all| all.next_back());
        last.is_some_and(|(_, values)| values.contains(&hold.value.as_str()))
    };
    let made = evidence.changes.iter().enumerate();
    let made = made.flat_map(|(place, change)| change.granted().map(move |it| (&it.id[..], place)));
    let made: HashMap<&str, usize> = made.collect();
    for (name, mut holds) in facts.by_name() {
        if evidence.terms.are_clocks_unbound() {
            // A holder may hear of its grant when another has the lease already: then the oplog's order counts.
            holds.sort_by_key(|hold| made.get(&hold.grant[..]));
        }
        // For each kind of request, the greatest token so far.
        let mut newest: BTreeMap<Permits, (u64, &str)> = BTreeMap::new();
        for hold in holds {
            let excluded = newest.iter().filter(|(permits, _)| permits.excludes(hold.permits));
            if let Some((token, call)) = excluded.map(|(_, newest)| *newest).max()
                && hold.token <= token
            {
                let text =
                    format!("{} of {name} has {}, {call} before it {token}", hold.call, hold.token);
                found.add(Invariant::Tokens, hold.began, text);
            }
            let own = newest.entry(hold.permits).or_default();
            *own = (*own).max((hold.token, &hold.call));
            if !is_holder_at(hold) {
                let text =
                    format!("{} of {name}: it was not the holder at {}", hold.call, hold.token);
                found.add(Invariant::TokenTimes, hold.began, text);
            }
        }
    }
}

/// The resource never accepts a write of an earlier grant after one of a later grant, where one of the two is
/// exclusive: neither by their tokens nor by the order of the grants.
pub(super) fn fence(evidence: &Evidence, facts: &Facts, found: &mut Found) {
    // By the oplog, and not by the holder's report: in a control, that may be anything.
    let granted = evidence.changes.iter().rev();
    let granted = granted.flat_map(|it| it.granted().map(|grant| (&grant.id[..], it.token)));
    let times: HashMap<&str, u64> = granted.collect();
    let time = |hold: &Hold| times.get(&hold.grant[..]).copied().unwrap_or(hold.token);
    let of_hold = |hold: &Hold| (time(hold), hold.permits.is_exclusive());
    let order: HashMap<&str, (u64, bool)> =
        facts.holds.iter().map(|hold| (&hold.call[..], of_hold(hold))).collect();
    // The newest token and grant of all, and of the exclusive ones.
    let mut newest: HashMap<&str, [(u64, u64); 2]> = HashMap::new();
    for record in &evidence.records {
        let What::Judged { call, name, token, accepted: true } = &record.what else {
            continue;
        };
        let (grant, is_exclusive) = order.get(&call[..]).copied().unwrap_or((*token, true));
        let [all, exclusive] = newest.entry(name).or_default();
        let (newest_token, newest_grant) = if is_exclusive { *all } else { *exclusive };
        if *token < newest_token || grant < newest_grant {
            let text = format!("a write of {call} to {name} was accepted behind a later grant's");
            found.add(Invariant::Fence, record.at, text);
        }
        let raised = |(token_before, grant_before): (u64, u64)| {
            (token_before.max(*token), grant_before.max(grant))
        };
        *all = raised(*all);
        if is_exclusive {
            *exclusive = raised(*exclusive);
        }
    }
}
