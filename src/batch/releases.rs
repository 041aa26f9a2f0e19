//! Releases of many leases in one command: each document is deleted, made a tombstone, or handed off.

mod freeing;

use mongo_lease_core::commands::find::FindLeases;
use mongo_lease_core::commands::release::{HandOff, HandOffTo, ReleaseTarget};
use mongo_lease_core::commands::reply::HandedOff;
use mongo_lease_core::commands::snapshot::LeaseSnapshot;
use mongo_lease_core::commands::token;
use mongo_lease_core::rules::outcome::MAYBE_APPLIED;
use mongo_lease_core::rules::slots::Lane;
use mongo_lease_core::rules::time::Instant;
use mongodb::bson::{Document, Timestamp};

use super::op::BatchOp;
use crate::clock;
use crate::failure::{Cause, Failure};
use crate::runner::{AttemptLimits, AttemptResult, Earlier, Slot};

pub(crate) use freeing::Freeing;

/// One lease to release.
#[derive(Clone, Debug)]
pub(crate) struct EndItem {
    target: ReleaseTarget,
    /// Whether an earlier command may have released it already.
    earlier: Earlier,
}

impl EndItem {
    pub(crate) fn new(target: ReleaseTarget) -> EndItem {
        EndItem { target, earlier: Earlier::NotApplied }
    }
}

/// The outcome of one release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EndReply {
    /// The lease was there, and this command released it. Of a call that leaves the queue: it is not in it any more.
    Ended,
    /// This command did not release it: the lease was not there, or its document needed another command.
    NotEnded(Earlier),
    /// This command did not release it: its document needs the general form of a release, which admits waiters.
    LeftToAdmit(Earlier),
    /// The lease is gone. Nobody knows whether it was there before the earlier commands.
    Gone(Earlier),
}

/// How leases are released.
#[derive(Clone, Debug)]
pub(crate) enum How {
    /// Deletes the document or makes it a tombstone, if nobody waits.
    Free(Freeing),
    /// Hands the lease off.
    HandOff(HandOffTo),
}

/// Releases leases of one collection in one way.
#[derive(Clone, Debug)]
pub(crate) struct ReleaseBatch {
    pub(crate) how: How,
}

impl BatchOp for ReleaseBatch {
    type Item = EndItem;
    type Reply = EndReply;

    const LANE: Lane = Lane::Critical;

    fn name(item: &EndItem) -> &str {
        &item.target.name
    }

    async fn attempt(
        &self,
        slot: &Slot,
        items: &[EndItem],
        limits: AttemptLimits,
    ) -> AttemptResult<Vec<AttemptResult<EndReply>>> {
        let ended = match self.end(slot, items, limits.clone()).await {
            // The server refused one of the statements: each item gets its own answer.
            Err(failure) if items.len() > 1 && matches!(failure.cause, Cause::Write(_)) => {
                return Ok(self.each_alone(slot, items, limits).await);
            }
            ended => ended?,
        };
        let all = |reply: fn(&EndItem) -> EndReply| {
            Ok(items.iter().map(|item| Ok(reply(item))).collect())
        };
        // A call that leaves a queue need not be there: what this command has not found needs no other.
        let is_done = self.leaves_queues() && ended.left == 0;
        if ended.ended.are_all_of(items.len()) || is_done {
            return all(|_| EndReply::Ended);
        }
        if ended.leaves_all_of(items.len()) {
            return all(|item| EndReply::LeftToAdmit(item.earlier));
        }
        if ended.ended.count == 0 && ended.left == 0 {
            return all(|item| EndReply::NotEnded(item.earlier));
        }
        // The items have different outcomes.
        let found = self.find_leases(slot, items, ended.ended.at, limits).await;
        if self.leaves_queues() {
            let found = found.ok();
            return Ok(items.iter().map(|item| Ok(which_left(item, found.as_deref()))).collect());
        }
        let is_first = matches!(self.how, How::HandOff(HandOffTo::LiveWaiter));
        match found {
            // A lease without a live waiter is deleted next. The general form would leave a tombstone.
            Ok(found) if is_first => Ok(which_ended(items, ended.ended.into(), &found)),
            Ok(found) => Ok(which_ended(items, ended, &found)),
            Err(failure) => {
                let failure = failure.or_maybe(true);
                Ok(items.iter().map(|_| Err(failure.clone())).collect())
            }
        }
    }

    fn note_sent(items: &mut [EndItem], failure: &Failure, _sent: Instant) {
        for item in items {
            item.earlier = item.earlier.max(Earlier::of(failure));
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
                let is_there = |target: &ReleaseTarget, seen: &LeaseSnapshot| {
                    target.is(seen) || target.may_share(seen)
                };
                let gone = |item: &EndItem| !found.iter().any(|seen| is_there(&item.target, seen));
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
    ) -> AttemptResult<HandedOff> {
        let targets: Vec<_> = items.iter().map(|item| item.target.clone()).collect();
        match &self.how {
            How::Free(freeing) => freeing.free(slot, targets, limits).await.map(HandedOff::from),
            &How::HandOff(to) => {
                let values = clock::tombstone_values()?;
                let command = HandOff { targets, to, values };
                slot.run(&command, limits).await
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
            answers.push(ended.map(|ended| match (ended.ended.count, ended.left) {
                (0, 0) => EndReply::NotEnded(Earlier::Unanswered),
                (0, _) => EndReply::LeftToAdmit(Earlier::Unanswered),
                _ => EndReply::Ended,
            }));
        }
        answers
    }

    /// Whether this is for calls that do not know whether they hold the lease, wait for it, or neither.
    fn leaves_queues(&self) -> bool {
        matches!(self.how, How::HandOff(HandOffTo::AfterLeavingQueue))
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
            lane: Lane::Critical,
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
        token::of_reply(&response).ok()
    }
}

/// Tells which of the items this command released.
///
/// A lease that is still there was not released. If the server's count equals the number of the others, the command
/// released all of them. Otherwise some of them were not there before, and nobody knows which.
///
/// If the command left any to the general form, all that are still there go by it: it ends the others too.
fn which_ended(
    items: &[EndItem],
    HandedOff { ended, left }: HandedOff,
    found: &[LeaseSnapshot],
) -> Vec<AttemptResult<EndReply>> {
    let stands = |item: &EndItem| found.iter().any(|seen| item.target.is(seen));
    let may_share = |item: &EndItem| found.iter().any(|seen| item.target.may_share(seen));
    let gone = items.iter().filter(|item| !stands(item) && !may_share(item)).count();
    let is_known = ended.are_all_of(gone);
    let answer = |item: &EndItem| match stands(item) || may_share(item) {
        true => {
            // It may have been an exclusive lease, which this command ended, and which others share by now.
            let is_known = is_known || stands(item) || ended.count == 0;
            let unless_known = if is_known { Earlier::NotApplied } else { Earlier::Unanswered };
            let earlier = item.earlier.max(unless_known);
            Ok(if left > 0 { EndReply::LeftToAdmit(earlier) } else { EndReply::NotEnded(earlier) })
        }
        false if ended.count == 0 => Ok(EndReply::NotEnded(item.earlier)),
        false if is_known => Ok(EndReply::Ended),
        false if item.earlier > Earlier::NotApplied => Ok(EndReply::Gone(item.earlier)),
        false => {
            let reason = "fewer leases were deleted than have gone".to_owned();
            Err(Failure { outcome: MAYBE_APPLIED, cause: Cause::Reply(reason) })
        }
    };
    items.iter().map(answer).collect()
}

/// Whether a call that leaves a queue may be there still. The read does not cover queues, so where there is one, the
/// command that follows repeats what this one may have done.
fn which_left(item: &EndItem, found: Option<&[LeaseSnapshot]>) -> EndReply {
    let is_in_question = |seen: &LeaseSnapshot| {
        seen.info.name == item.target.name && (seen.info.waiting > 0 || item.target.is(seen))
    };
    match found.is_none_or(|found| found.iter().any(is_in_question)) {
        true => EndReply::LeftToAdmit(item.earlier),
        false => EndReply::Ended,
    }
}

#[cfg(test)]
mod tests;
