//! Compares the beliefs of holders with each other: who holds beside whom, tokens, the fence.

use std::collections::BTreeMap;

use super::{Evidence, Facts, Found, Hold, Invariant, Violation};
use crate::changes::{GrantKey, State};
use crate::history::What;
use crate::maps::Map;
use crate::permits::{self, Permits};
use crate::time::MILLI;

/// At no moment are more permits in use than the smallest limit of the valid holds of one name.
///
/// Permits in use grow when a hold begins, and the smallest limit falls then alone: so these moments are enough.
pub(super) fn together(_: &Evidence, facts: &Facts, found: &mut Found) {
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
                let calls: Vec<&str> = beside.iter().map(|hold| hold.call).collect();
                let all = calls.join(", ");
                let text = format!("{all} hold {name}, {used} permits of {limit}, for {by} ms");
                let violation = Violation::new(broken_by(&beside), hold.began, text);
                found.add(violation.of(name, calls));
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
    let mut written: Map<&str, Vec<(u64, Option<&State>)>> = Map::default();
    for change in &evidence.changes {
        let after = change.after.as_deref();
        written.entry(change.name.as_str()).or_default().push((change.token, after));
    }
    // Of several writes with one token the last one counts, and the sort leaves it behind the others.
    written.values_mut().for_each(|all| all.sort_by_key(|(token, _)| *token));
    let earliest = |token: u64| if evidence.terms.calls_travel_together { 0 } else { token };
    let is_holder_at = |hold: &Hold| {
        let all = written.get(hold.name).map(Vec::as_slice).unwrap_or_default();
        let until_then = all.partition_point(|(token, _)| *token <= hold.token);
        let last = all[..until_then].last().filter(|(token, _)| *token >= earliest(hold.token));
        last.is_some_and(|(_, after)| after.is_some_and(|it| it.grant_of(hold.value).is_some()))
    };
    let made = evidence.changes.iter().enumerate();
    let made = made.flat_map(|(place, change)| change.granted().map(move |it| (it.key(), place)));
    let made = made.filter(|_| evidence.terms.are_clocks_unbound());
    let made: Map<GrantKey<'_>, usize> = made.collect();
    for (name, mut holds) in facts.by_name() {
        if evidence.terms.are_clocks_unbound() {
            // A holder may hear of its grant when another has the lease already: then the oplog's order counts.
            holds.sort_by_key(|hold| made.get(&hold.key()));
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
                let violation = Violation::new(Invariant::Tokens, hold.began, text);
                found.add(violation.of(name, [hold.call, call]));
            }
            let own = newest.entry(hold.permits).or_default();
            *own = (*own).max((hold.token, hold.call));
            if !is_holder_at(hold) {
                let text =
                    format!("{} of {name}: it was not the holder at {}", hold.call, hold.token);
                let violation = Violation::new(Invariant::TokenTimes, hold.began, text);
                found.add(violation.of(name, [hold.call]));
            }
        }
    }
}

/// The resource never accepts a write of an earlier grant after one of a later grant, where one of the two is
/// exclusive: neither by their tokens nor by the order of the grants.
pub(super) fn fence(evidence: &Evidence, facts: &Facts, found: &mut Found) {
    // By the oplog, and not by the holder's report: in a control, that may be anything.
    let granted = evidence.changes.iter().rev();
    let granted = granted.flat_map(|it| it.granted().map(|grant| (grant.key(), it.token)));
    let times: Map<GrantKey<'_>, u64> = granted.collect();
    let time = |hold: &Hold| times.get(&hold.key()).copied().unwrap_or(hold.token);
    let of_hold = |hold: &Hold| (time(hold), hold.permits.is_exclusive());
    let order: Map<&str, (u64, bool)> =
        facts.holds.iter().map(|hold| (hold.call, of_hold(hold))).collect();
    // The newest token and grant of all, and of the exclusive ones.
    let mut newest: Map<&str, [(u64, u64); 2]> = Map::default();
    for record in &evidence.records {
        let What::Judged { call, name, token, accepted: true } = &record.what else {
            continue;
        };
        let (grant, is_exclusive) = order.get(&call[..]).copied().unwrap_or((*token, true));
        let [all, exclusive] = newest.entry(name).or_default();
        let (newest_token, newest_grant) = if is_exclusive { *all } else { *exclusive };
        if *token < newest_token || grant < newest_grant {
            let text = format!("a write of {call} to {name} was accepted behind a later grant's");
            let violation = Violation::new(Invariant::Fence, record.at, text);
            found.add(violation.of(name, [&call[..]]));
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
