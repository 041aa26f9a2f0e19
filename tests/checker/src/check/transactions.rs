//! Transactions under a lease.

use super::{Evidence, Facts, Found, Invariant, Violation};
use crate::changes::State;
use crate::history::{TransactionEnd, What};
use crate::maps::{Map, Set};

/// A transaction commits only while its grant is in the document, by the order of the oplog, and its caller is told the
/// truth about it.
pub(super) fn transactions(evidence: &Evidence, _: &Facts, found: &mut Found) {
    let mut states: Map<&str, Vec<(u64, Option<&State>)>> = Map::default();
    for change in &evidence.changes {
        let of_name = states.entry(&change.name).or_default();
        of_name.push((change.token, change.after.as_deref()));
    }
    // A call may inherit the entry of another one, whose id the document then has.
    let mut values: Map<&str, &str> = Map::default();
    for record in &evidence.records {
        if let What::Granted { call, value, .. } = &record.what {
            values.insert(call, value);
        }
    }
    let is_held = |name: &str, call: &str, time: u64| {
        let all = states.get(name).map(Vec::as_slice).unwrap_or_default();
        let until_then = all.partition_point(|(token, _)| *token <= time);
        let state = all[..until_then].last().and_then(|(_, state)| *state);
        let value = values.get(call);
        state.is_some_and(|state| {
            let mut grants = state.grants.iter();
            grants.any(|grant| value.map_or(grant.call == call, |value| grant.value == **value))
        })
    };
    let mut committed: Set<&str> = Set::default();
    for record in &evidence.records {
        let What::Committed { call, name, transaction, token } = &record.what else { continue };
        committed.insert(transaction);
        if !is_held(name, call, *token) {
            let text = format!("{transaction} of {call} committed without {name}");
            let violation = Violation::new(Invariant::Transactions, record.at, text);
            found.add(violation.of(name, [&call[..]]));
        }
    }
    for record in &evidence.records {
        let What::Transacted { call, transaction, end, text } = &record.what else { continue };
        let is_committed = committed.contains(&transaction[..]);
        let is_true = match end {
            TransactionEnd::Committed => is_committed,
            TransactionEnd::NotCommitted => !is_committed,
            TransactionEnd::Unknown => true,
        };
        if !is_true {
            let text = format!("{transaction} of {call} ended as {end:?}, which is wrong: {text}");
            found.add(Violation::new(Invariant::Transactions, record.at, text));
        }
    }
}
