//! Releases of many leases in one command: each document is deleted or made a tombstone, or one grant in it ends.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use mongo_lease_core::commands::{
    DecodeError, Delete, End, Ended, FindLeases, LeaseSnapshot, ReleaseTarget, SharedSnapshot,
    StatementError, Tombstone, Trace, Unconfirmed, are_shown, reply,
};
use mongo_lease_core::rules::{Applied, Instant, Lane, MAYBE_APPLIED, REFUSED};
use mongo_lease_core::spec::EndScope;
use mongodb::bson::{Document, Timestamp};
use tokio_util::sync::CancellationToken;

use super::op::{Attempted, BatchOp, Claim};
use crate::error::Error;
use crate::failure::{Cause, Failure, decode_failure, not_confirmed};
use crate::runner::{AppliedResult, AttemptLimits, AttemptResult, PriorEffect, Slot};
use crate::telemetry;

/// One lease to release.
#[derive(Clone, Debug)]
pub(crate) struct EndItem {
    target: ReleaseTarget,
    /// Whether an earlier command may have released it already.
    earlier: PriorEffect,
    /// Whether the release has sent a command before, which may be applied and wait for a majority.
    is_repeated: bool,
    /// Cancelled when it is applied.
    applied: Option<Arc<CancellationToken>>,
}

impl EndItem {
    /// `applied` is cancelled when the release is applied, and a majority is late.
    pub(crate) fn new(target: ReleaseTarget, applied: Option<Arc<CancellationToken>>) -> EndItem {
        EndItem { target, earlier: PriorEffect::NotApplied, is_repeated: false, applied }
    }

    /// For a release that has sent a command before, if `is_repeated` says so.
    pub(crate) fn repeated(self, is_repeated: bool) -> EndItem {
        EndItem { is_repeated, ..self }
    }
}

/// The outcome of one release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EndReply {
    /// The lease was there, and this command released it. Of a call that leaves the queue: it is not in it any more.
    Ended,
    /// This command did not release it: the lease was not there, or its document needed another command.
    NotEnded(PriorEffect),
    /// The lease is gone. Nobody knows whether it was there before the earlier commands.
    Gone(PriorEffect),
}

/// One command that ends grants. A release sends them in turn until one of them matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReleaseStep {
    /// Deletes the document or makes it a tombstone, if the holder is alone.
    Free,
    /// Ends the grant, and admits the waiters that fit.
    End(EndScope),
}

/// Releases leases of one collection by one step.
#[derive(Clone, Debug)]
pub(crate) struct ReleaseBatch {
    pub(crate) step: ReleaseStep,
    pub(crate) tombstones: Tombstones,
}

/// Whether a release makes a tombstone of a document that it frees.
///
/// Another program's index or validator may refuse a tombstone. Then the document is deleted, as if tombstones were
/// off.
#[derive(Clone, Debug)]
pub(crate) struct Tombstones {
    are_on: bool,
    /// Whether the server's refusal of tombstones has been reported already.
    told_of_refusal: Arc<AtomicBool>,
}

impl Tombstones {
    pub(crate) fn new(are_on: bool) -> Tombstones {
        Tombstones { are_on, told_of_refusal: Arc::default() }
    }

    fn tell_refusal(&self, source: StatementError) {
        if !self.told_of_refusal.swap(true, Ordering::Relaxed) {
            let why = decode_failure(DecodeError::Write { source, outcome: REFUSED });
            telemetry::tombstones_refused(&Error::from(why).to_string());
        }
    }
}

impl BatchOp for ReleaseBatch {
    type Item = EndItem;
    type Reply = EndReply;

    const LANE: Lane = Lane::Release;

    fn name(item: &EndItem) -> &str {
        &item.target.name
    }

    async fn attempt(
        &self,
        slot: &Slot,
        items: &[EndItem],
        limits: AttemptLimits,
    ) -> AttemptResult<Attempted<EndReply>> {
        let ended = match self.end(slot, items, limits.clone()).await {
            // The server refused one of the statements: each item gets its own answer.
            Err(failure) if items.len() > 1 && matches!(failure.cause, Cause::Write(_)) => {
                return Ok(Attempted::Answers(self.each_alone(slot, items, limits).await));
            }
            ended => ended?,
        };
        // A call that leaves a queue need not be there: no other command finds more of it.
        let are_all = |ended: Ended| ended.are_all_of(items.len()) || self.leaves_queues();
        let is_first = items.iter().all(|item| item.earlier == PriorEffect::NotApplied);
        let ended = match ended {
            Applied::Confirmed(ended) => ended,
            Applied::Unconfirmed(ended, why) => {
                let extent = match ended.count {
                    _ if are_all(ended) => Extent::All,
                    0 => Extent::None,
                    _ => Extent::Some,
                };
                // A command that found nothing to end counts at once, unless an earlier one may have ended it.
                let counts = is_first && !items.iter().any(|item| item.is_repeated);
                if extent == Extent::All {
                    items.iter().filter_map(|it| it.applied.as_ref()).for_each(|it| it.cancel());
                }
                if extent != Extent::None || !counts {
                    let claims = items.iter().map(|item| claim(item, extent)).collect();
                    return Ok(Attempted::Unconfirmed(claims, why));
                }
                ended
            }
        };
        let all = |reply: fn(&EndItem) -> EndReply| {
            Ok(Attempted::Answers(items.iter().map(|item| Ok(reply(item))).collect()))
        };
        if are_all(ended) {
            return all(|_| EndReply::Ended);
        }
        // One that goes alone may be of a form that the query below does not read.
        if ended.count == 0 && (is_first || items.len() == 1) {
            return all(|item| EndReply::NotEnded(item.earlier));
        }
        // The items have different outcomes. Or an earlier command may have ended them, and without this look each
        // release would send one of its own.
        match self.find_leases(slot, items, ended.at, limits).await {
            Ok(found) => Ok(Attempted::Answers(which_ended(items, ended, &found))),
            Err(failure) => {
                let failure = failure.or_maybe(true);
                Ok(Attempted::Answers(items.iter().map(|_| Err(failure.clone())).collect()))
            }
        }
    }

    fn note_sent(items: &mut [EndItem], failure: &Failure, _sent: Instant) {
        for item in items {
            item.earlier = item.earlier.max(PriorEffect::of(failure));
            item.is_repeated = true;
        }
    }

    /// A lease that is gone was released by the command that was cut off, or by somebody else. One that is still there
    /// is sent again.
    async fn after_cut_off(
        &self,
        slot: &Slot,
        items: &[EndItem],
        failure: &Failure,
        limits: AttemptLimits,
    ) -> Vec<Option<AttemptResult<EndReply>>> {
        // A waiter that leaves a queue need not be the holder. The read does not cover queues, so the item is sent
        // again.
        if items.len() == 1 || self.leaves_queues() {
            return items.iter().map(|_| None).collect();
        }
        match self.find_leases(slot, items, failure.operation_time(), limits).await {
            Ok(found) => {
                let gone = |item: &EndItem| !found.iter().any(|seen| item.target.is(seen));
                let known = |item: &EndItem| gone(item).then_some(Ok(EndReply::Gone(item.earlier)));
                items.iter().map(known).collect()
            }
            Err(_) => items.iter().map(|_| None).collect(),
        }
    }

    fn has_written(reply: &EndReply) -> bool {
        *reply == EndReply::Ended
    }
}

impl ReleaseBatch {
    async fn end(
        &self,
        slot: &Slot,
        items: &[EndItem],
        limits: AttemptLimits,
    ) -> AppliedResult<Ended> {
        let targets: Vec<_> = items.iter().map(|item| item.target.clone()).collect();
        match self.step {
            ReleaseStep::Free if !self.tombstones.are_on => {
                slot.apply(&Delete { targets }, limits).await
            }
            ReleaseStep::Free => {
                let command = Tombstone { targets, values: slot.clock().tombstone_values()? };
                let (made, why) = match slot.apply(&command, limits.clone()).await? {
                    Applied::Confirmed(made) => (made, None),
                    Applied::Unconfirmed(made, why) => (made, Some(why)),
                };
                let ended = |ended, why: Option<Unconfirmed>| match why {
                    None => Applied::Confirmed(ended),
                    Some(why) => Applied::Unconfirmed(ended, why),
                };
                let Some((places, source)) = made.refused else {
                    return Ok(ended(made.ended, why));
                };
                self.tombstones.tell_refusal(source);
                let refused = |place: usize| command.targets.get(place).cloned();
                let targets = places.into_iter().filter_map(refused).collect();
                let deleted = slot.apply(&Delete { targets }, limits).await;
                let any = made.ended.count > 0;
                Ok(match deleted.map_err(|failure| failure.or_maybe(any))? {
                    Applied::Confirmed(deleted) => ended(made.ended.and(deleted), why),
                    Applied::Unconfirmed(deleted, why) => {
                        Applied::Unconfirmed(made.ended.and(deleted), why)
                    }
                })
            }
            ReleaseStep::End(scope) => {
                let values = slot.clock().tombstone_values()?;
                slot.apply(&End { targets, scope, values }, limits).await
            }
        }
    }

    async fn each_alone(
        &self,
        slot: &Slot,
        items: &[EndItem],
        limits: AttemptLimits,
    ) -> Vec<AttemptResult<EndReply>> {
        let mut answers = Vec::new();
        for item in items {
            let ended = self.end(slot, std::slice::from_ref(item), limits.clone()).await;
            // It is unknown what the command before this one did.
            answers.push(ended.and_then(|ended| match ended {
                Applied::Confirmed(Ended { count: 0, .. }) => {
                    Ok(EndReply::NotEnded(PriorEffect::Unanswered))
                }
                Applied::Confirmed(_) => Ok(EndReply::Ended),
                Applied::Unconfirmed(_, why) => Err(not_confirmed(why)),
            }));
        }
        answers
    }

    /// Whether this is for calls that do not know whether they hold the lease, wait for it, or neither.
    fn leaves_queues(&self) -> bool {
        self.step == ReleaseStep::End(EndScope::HeldOrQueued)
    }

    async fn find_leases(
        &self,
        slot: &Slot,
        items: &[EndItem],
        after: Option<Timestamp>,
        limits: AttemptLimits,
    ) -> AttemptResult<Vec<LeaseSnapshot>> {
        let look = FindLeases {
            names: items.iter().map(|item| item.target.name.clone()).collect(),
            after,
        };
        slot.run(&look, limits.time.into()).await
    }
}

impl Failure {
    /// The operation time of the server's answer, if the server answered.
    fn operation_time(&self) -> Option<Timestamp> {
        let Cause::Driver(error) = &self.cause else {
            return None;
        };
        let response: Document = error.server_response()?.as_ref().try_into().ok()?;
        reply::token(&response).ok()
    }
}

/// How many of its grants a command has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Extent {
    None,
    Some,
    All,
}

/// The answer to one release of a command that no majority has yet.
///
/// A grant that is gone was ended by this command or an earlier one, or was not there. One that is still there needs
/// another command, or a failover has undone its end.
fn claim(item: &EndItem, extent: Extent) -> Claim<EndReply> {
    let (traces, earlier) = (vec![Trace::End(item.target.clone())], item.earlier);
    let wanted = traces.clone();
    let tell = move |found: &[SharedSnapshot], now: Instant| match (
        are_shown(&wanted, found, now),
        extent,
    ) {
        (true, Extent::All) => Some(EndReply::Ended),
        (true, Extent::Some) => Some(EndReply::Gone(earlier.max(PriorEffect::CutOff))),
        (true, Extent::None) => Some(EndReply::NotEnded(earlier)),
        (false, Extent::All) => None,
        (false, _) => Some(EndReply::NotEnded(PriorEffect::Unanswered)),
    };
    Claim::Writes(traces, Box::new(tell))
}

/// Tells which of the items this command released. Each is a grant in the plain form.
///
/// A lease that is still there was not released. If the server's count equals the number of the others, the command
/// released all of them. Otherwise some of them were not there before, and nobody knows which.
fn which_ended(
    items: &[EndItem],
    ended: Ended,
    found: &[LeaseSnapshot],
) -> Vec<AttemptResult<EndReply>> {
    let stands = |item: &EndItem| found.iter().any(|seen| item.target.is(seen));
    let gone = items.iter().filter(|item| !stands(item)).count();
    let is_known = ended.are_all_of(gone);
    let answer = |item: &EndItem| match stands(item) {
        true => Ok(EndReply::NotEnded(item.earlier)),
        false if is_known => Ok(EndReply::Ended),
        false if item.earlier > PriorEffect::NotApplied => Ok(EndReply::Gone(item.earlier)),
        false => {
            let reason = "fewer leases were deleted than have gone".to_owned();
            Err(Failure { outcome: MAYBE_APPLIED, cause: Cause::Reply(reason) })
        }
    };
    items.iter().map(answer).collect()
}

#[cfg(test)]
mod tests;
