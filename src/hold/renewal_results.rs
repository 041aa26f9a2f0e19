//! Tells each lease of a batch what became of its renewal.

use std::collections::{HashMap, HashSet};

use mongo_lease_core::commands::{LeaseSnapshot, SharedSnapshot};
use mongo_lease_core::rules::{Delays, HoldAction, HoldEvent, Instant};

use super::renewal_batch::{Batch, NumberedHolding};
use super::unmatched::{loss_of, share_of};
use crate::clock;
use crate::hold::Holding;

/// The outcomes of a renewal that was sent at `sent` and matched fewer documents than it named, by a look at these.
///
/// The echo tells which documents this very command has written.
pub(super) fn after_look(
    batch: &Batch,
    seen: &[LeaseSnapshot],
    sent: Instant,
) -> Vec<(u64, HoldAction)> {
    let by_name: HashMap<&str, &LeaseSnapshot> =
        seen.iter().map(|seen| (seen.info.name.as_str(), seen)).collect();
    let outcome = |member: &NumberedHolding| {
        let (number, holding) = member;
        let found = by_name.get(holding.key.name()).copied();
        match loss_of(&holding.key, found) {
            Some(reason) => (*number, holding.on(HoldEvent::NotOurs, Some(reason))),
            None if is_echo(found.and_then(|seen| seen.sent), sent) => renewed(member, sent),
            None => failed(member, batch.planned_at, "its document is damaged"),
        }
    };
    batch.members.iter().map(outcome).collect()
}

/// The outcomes of a renewal of leases that others may hold too, by a look at these.
#[derive(Default)]
pub(super) struct SharedOutcomes {
    pub(super) outcomes: Vec<(u64, HoldAction)>,
    /// Kept from being renewed by another one of their names that has ended: to be renewed again, without that one.
    pub(super) again: Vec<NumberedHolding>,
}

/// The same as [`after_look`] for leases that others may hold too.
pub(super) fn after_look_at_holders(
    batch: &Batch,
    seen: &[SharedSnapshot],
    sent: Instant,
) -> SharedOutcomes {
    let by_name: HashMap<&str, &SharedSnapshot> =
        seen.iter().map(|seen| (seen.lease.info.name.as_str(), seen)).collect();
    let found = |holding: &Holding| {
        share_of(&holding.key, by_name.get(holding.key.name()).copied())
            .map(|holder| is_echo(holder.sent, sent))
    };
    // A release of this process may not show in a read yet.
    let has_ended = |holding: &Holding| holding.has_ended() || found(holding).is_err();
    let ended = batch.members.iter().filter(|(_, holding)| has_ended(holding));
    let incomplete: HashSet<&str> = ended.map(|(_, holding)| holding.key.name()).collect();
    let mut told = SharedOutcomes::default();
    for member in &batch.members {
        let (number, holding) = member;
        match found(holding) {
            Err(reason) => {
                let next = holding.on(HoldEvent::NotOurs, Some(reason));
                told.outcomes.push((*number, next));
            }
            Ok(true) => told.outcomes.push(renewed(member, sent)),
            // Its release takes it off the agenda.
            Ok(false) if holding.has_ended() => {}
            Ok(false) if incomplete.contains(holding.key.name()) => told.again.push(member.clone()),
            Ok(false) => {
                told.outcomes.push(failed(member, batch.planned_at, "its document is damaged"));
            }
        }
    }
    told
}

fn is_echo(echo: Option<i64>, sent: Instant) -> bool {
    echo.and_then(|echo| u64::try_from(echo).ok()) == Some(sent.as_micros())
}

/// Reports a confirmed renewal to the rules.
pub(super) fn renewed((number, holding): &NumberedHolding, sent: Instant) -> (u64, HoldAction) {
    let next = holding.on(HoldEvent::Renewed { sent }, None);
    if matches!(next, HoldAction::WakeAt(_)) {
        holding.tell_renewed();
    }
    (*number, next)
}

/// Reports an unconfirmed renewal to the rules.
pub(super) fn failed(
    (number, holding): &NumberedHolding,
    sent: Instant,
    reason: &str,
) -> (u64, HoldAction) {
    let first = holding.timing.renew_after / 20;
    let delays = Delays { first, longest: first * 2 };
    let retry_after = clock::jittered(delays).next().unwrap_or(first);
    let next = holding.on(HoldEvent::RenewalFailed { sent, retry_after }, None);
    if matches!(next, HoldAction::WakeAt(_)) {
        holding.tell_renewal_failed(reason);
    }
    (*number, next)
}
