//! Fast-path acquires, alone or several in one command.

#[cfg(test)]
pub(super) mod tests;

use std::collections::HashMap;

use mongo_lease_core::commands::{
    AcquireReply, Command, FastAcquire, FastAcquireMany, FastAcquired, FindApplied, FindGrants,
    FindLeases, GrantKey, LeaseSnapshot, SharedSnapshot, Trace, who_was_granted,
};
use mongo_lease_core::rules::{Applied, FastForm, Instant, Lane};
use mongodb::bson::Timestamp;

use super::op::{Attempted, BatchOp, Claim};
use crate::failure::Failure;
use crate::mistake::{Mistake, is_made};
use crate::runner::{AppliedResult, AttemptLimits, AttemptResult, AttemptTime, Slot};

/// Batches fast-path acquires for leases of one collection.
pub(crate) struct AcquireBatch {
    /// Whether a router (mongos) is between this client and the servers.
    pub(crate) is_routed: bool,
}

impl BatchOp for AcquireBatch {
    type Item = FastAcquire;
    type Reply = AcquireReply;

    const LANE: Lane = Lane::Acquire;

    fn name(acquire: &FastAcquire) -> &str {
        &acquire.request.name
    }

    async fn attempt(
        &self,
        slot: &Slot,
        acquires: &[FastAcquire],
        limits: AttemptLimits,
    ) -> AttemptResult<Attempted<AcquireReply>> {
        // A statement that was sent before may find its own grant and write nothing: then the operation time of the
        // reply is no token, and the read that follows is needed.
        if let [acquire @ FastAcquire { resends: 0, .. }] = acquires {
            let applied = slot.apply(acquire, limits).await;
            return Ok(match or_use_full_form(acquire, applied)? {
                Applied::Confirmed(answer) => Attempted::Answers(vec![Ok(answer)]),
                Applied::Unconfirmed(answer, why) => {
                    let claim = Claim::all(acquire.relies_on(&answer), answer);
                    Attempted::Unconfirmed(vec![claim], why)
                }
            });
        }
        let command = FastAcquireMany { acquires: acquires.to_vec() };
        let granted = match slot.apply(&command, limits.clone()).await? {
            Applied::Confirmed(granted) => granted,
            Applied::Unconfirmed(granted, why) => {
                let claims = claims(slot, acquires, &granted, limits.time).await;
                return Ok(Attempted::Unconfirmed(claims, why));
            }
        };
        let look = FindGrants(FindLeases {
            names: acquires.iter().map(|acquire| acquire.request.name.clone()).collect(),
            after: Some(granted.at),
        });
        // If the read fails for good, each call finds out by itself what it was granted, in a command of its own.
        let found = match slot.run_until_answered(&look, limits.time).await {
            // The slow form needs no read: it finds the call's own grant by its value, and has a token of its own.
            Err(failure) if failure.is_no_majority_read() => Ok(Vec::new()),
            found => found,
        };
        match found {
            Ok(found) => {
                let mut told = who_was_granted(acquires, &granted, found);
                if is_made(Mistake::AnswersShifted) {
                    told.rotate_left(1);
                }
                Ok(Attempted::Answers(told.into_iter().map(Ok).collect()))
            }
            Err(failure) => Ok(Attempted::Answers(all_fail(acquires, &failure.or_maybe(true)))),
        }
    }

    fn note_sent(acquires: &mut [FastAcquire], _failure: &Failure, sent: Instant) {
        for acquire in acquires {
            acquire.resends += u32::from(!is_made(Mistake::PieceKeepsIds));
            if !is_made(Mistake::PieceCountsAnew) {
                acquire.first_sent.get_or_insert(sent);
            }
        }
    }

    /// Recovers the calls of a command that the server cut off.
    ///
    /// The statements in front of the blocked one may have granted. They are sent again with identities of their own,
    /// find the earlier grant, and change nothing; the read after the new command then shows it. A router may answer
    /// while a shard still carries the old command out, so behind a router each call goes on alone.
    async fn after_cut_off(
        &self,
        _slot: &Slot,
        acquires: &[FastAcquire],
        failure: &Failure,
        _limits: AttemptLimits,
    ) -> Vec<Option<AttemptResult<AcquireReply>>> {
        match self.is_routed {
            true => all_fail(acquires, failure).into_iter().map(Some).collect(),
            false => acquires.iter().map(|_| None).collect(),
        }
    }

    fn has_written(reply: &AcquireReply) -> bool {
        reply.has_written()
    }
}

/// The answers to the calls of a batch that no majority has yet. A refusal counts now, by a read of the primary. If
/// that fails, all wait for the majority.
async fn claims(
    slot: &Slot,
    acquires: &[FastAcquire],
    granted: &FastAcquired,
    time: AttemptTime,
) -> Vec<Claim<AcquireReply>> {
    let names = acquires.iter().map(|acquire| acquire.request.name.clone()).collect();
    let found = match granted.granted == acquires.len() {
        true => None,
        false => {
            let look = FindApplied(FindLeases { names, after: None });
            slot.run(&look, time.into()).await.ok()
        }
    };
    let all = acquires.iter().enumerate();
    let Some(found) = found else {
        return all.map(|(place, acquire)| claim(place, acquire, granted)).collect();
    };
    let holder_of = |seen: &LeaseSnapshot| (seen.info.name.clone(), seen.info.value.clone());
    let holders: HashMap<String, Option<String>> = found.iter().map(holder_of).collect();
    // A call that holds the lease waits for the majority, whichever of its attempts was granted.
    let is_held_by = |acquire: &FastAcquire| {
        let holder = holders.get(&acquire.request.name);
        holder.is_some_and(|holder| holder.as_ref() == Some(&acquire.request.value))
    };
    let told = who_was_granted(acquires, granted, found);
    let each = |((place, acquire), told)| match is_held_by(acquire) {
        true => claim(place, acquire, granted),
        false => Claim::Answer(told),
    };
    all.zip(told).map(each).collect()
}

/// The answer to one call of a batch that no majority has yet, by the read that follows a batch in any case.
fn claim(place: usize, acquire: &FastAcquire, granted: &FastAcquired) -> Claim<AcquireReply> {
    let refused = granted.refused.contains(&place).then_some(0).into_iter().collect();
    let granted = FastAcquired { refused, ..granted.clone() };
    let request = &acquire.request;
    let key = GrantKey::new(&request.name, &request.value, &acquire.grant_id());
    // The reply to a batch does not show the documents.
    let traces = vec![Trace::Made { key, sent: granted.sent, acquired_at: None }];
    let acquire = acquire.clone();
    let tell = move |found: &[SharedSnapshot], _now: Instant| {
        let found = found.iter().map(|found| &found.lease);
        let found = found.filter(|lease| !is_made_again(&acquire, lease, granted.at));
        let found = found.cloned().collect();
        who_was_granted(&[acquire], &granted, found).pop()
    };
    Claim::Writes(traces, Box::new(tell))
}

/// Whether a late copy of the command has made this grant once more, after a failover: then its token is too old.
fn is_made_again(acquire: &FastAcquire, lease: &LeaseSnapshot, token: Timestamp) -> bool {
    let is_own = lease.info.value.as_deref() == Some(&acquire.request.value);
    let made_at = lease.info.acquired_at.map(|at| at.timestamp());
    is_own && made_at.is_some_and(|at| at > i64::from(token.time))
}

fn all_fail(acquires: &[FastAcquire], failure: &Failure) -> Vec<AttemptResult<AcquireReply>> {
    acquires.iter().map(|_| Err(failure.clone())).collect()
}

/// Turns two failures into the answer that a slow acquire may go out at once.
///
/// An upsert or insert that found the name taken has changed nothing: another call was faster. Nor has an insert that a
/// router refused because it names no shard.
fn or_use_full_form(
    acquire: &FastAcquire,
    answer: AppliedResult<AcquireReply>,
) -> AppliedResult<AcquireReply> {
    const DUPLICATE_KEY: i32 = 11_000;
    const SHARD_KEY_NOT_FOUND: i32 = 61;
    let is_taken = match answer.as_ref().map_err(Failure::server_code) {
        Err(Some(DUPLICATE_KEY)) => true,
        Err(Some(SHARD_KEY_NOT_FOUND)) => acquire.form == FastForm::Insert,
        Ok(_) | Err(_) => false,
    };
    match is_taken {
        true => Ok(Applied::Confirmed(AcquireReply::UseSlowForm { maybe_granted: false })),
        false => answer,
    }
}
