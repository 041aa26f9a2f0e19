//! Sends a batch, and answers each of its calls.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use mongo_lease_core::commands::{Trace, Unconfirmed};
use mongo_lease_core::rules::{Instant, is_server_slow, pieces};

use super::op::{Attempted, BatchCall, BatchOp, Caller, Claim, TellAnswer, longest};
use super::{Inner, single};
use crate::failure::{Failure, NOT_SENT, not_confirmed};
use crate::runner::{AttemptLimits, AttemptResult, Slot};

impl<O: BatchOp> Inner<O> {
    /// Sends a batch, and answers each of its calls. Boxed, because the pieces of a batch are batches too.
    pub(super) fn send(
        self: Arc<Inner<O>>,
        slot: Option<Slot>,
        batch: Vec<BatchCall<O>>,
        is_blocked: bool,
    ) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(async move {
            // A call that had to wait has to have the time that a command takes: its answer would come too late.
            let typical = slot.as_ref().map(|_| self.state.lock().batching.typical());
            let Some((slot, batch)) = self.with_slot(slot, batch, is_blocked).await else {
                return;
            };
            let started = self.runner.clock().now();
            let batch = self.still_wanted(batch, started, typical.unwrap_or_default());
            let Some(time) = longest(&batch) else {
                return;
            };
            let (mut items, callers): (Vec<_>, Vec<_>) =
                batch.into_iter().map(|call| (call.item, call.caller)).unzip();
            let asked = self.pace.bound(is_blocked).min(time.over(started).since(started));
            let limits = AttemptLimits { time, pace: Some(self.pace.clone()), is_blocked };
            let failure = match self.op.attempt(&slot, &items, limits.clone()).await {
                Ok(Attempted::Answers(answers)) => {
                    return self.answer(items, callers, answers, started);
                }
                Ok(Attempted::Unconfirmed(claims, why)) => {
                    drop(slot);
                    return self.confirm_all(items, callers, claims, &why, started);
                }
                Err(failure) => failure,
            };
            if !failure.is_blocked() {
                // Each caller finds out by itself.
                return callers.into_iter().for_each(|it| it.answer(Err(failure.clone())));
            }
            O::note_sent(&mut items, &failure, started);
            let known = self.op.after_cut_off(&slot, &items, &failure, limits).await;
            drop(slot);
            debug_assert_eq!(known.len(), callers.len(), "something of each");
            let mut left = Vec::new();
            for ((item, caller), known) in items.into_iter().zip(callers).zip(known) {
                match known {
                    Some(answer) => caller.answer(answer),
                    None => left.push(BatchCall { item, caller }),
                }
            }
            let took = self.runner.clock().now().since(started);
            match is_server_slow(asked, took) {
                true => self.runner.spawn(Arc::clone(&self).send(None, left, is_blocked)),
                false => self.send_pieces(left, &failure, took),
            }
        })
    }

    /// The batch with its slot. Without a slot in time, each of its calls is answered.
    async fn with_slot(
        &self,
        slot: Option<Slot>,
        batch: Vec<BatchCall<O>>,
        is_blocked: bool,
    ) -> Option<(Slot, Vec<BatchCall<O>>)> {
        if let Some(slot) = slot {
            return Some((slot, batch));
        }
        let deadline = longest(&batch)?.deadline;
        match self.runner.slot(O::LANE, is_blocked, deadline).await {
            Ok(slot) => Some((slot, batch)),
            Err(failure) => {
                batch.into_iter().for_each(|call| call.caller.give_up(failure.clone()));
                None
            }
        }
    }

    /// The calls that are sent now. The others are answered.
    fn still_wanted(
        &self,
        batch: Vec<BatchCall<O>>,
        now: Instant,
        typical: Duration,
    ) -> Vec<BatchCall<O>> {
        let mut wanted = Vec::with_capacity(batch.len());
        for call in batch {
            match call.caller.send(now, typical) {
                true => wanted.push(call),
                false => call.caller.give_up(NOT_SENT),
            }
        }
        wanted
    }

    /// Answers each call of a command that was sent at `sent` when a majority has its writes. Nothing but the calls
    /// waits for that.
    fn confirm_all(
        self: Arc<Inner<O>>,
        items: Vec<O::Item>,
        callers: Vec<Caller<O::Reply>>,
        claims: Vec<Claim<O::Reply>>,
        why: &Unconfirmed,
        sent: Instant,
    ) {
        debug_assert_eq!(claims.len(), callers.len(), "one of each");
        for ((item, caller), claim) in items.into_iter().zip(callers).zip(claims) {
            self.blocked.note(O::name(&item), false);
            match claim {
                Claim::Answer(answer) => caller.answer(Ok(answer)),
                Claim::Untraceable => caller.answer(Err(not_confirmed(why.clone()))),
                Claim::Writes(traces, tell) => {
                    let all = Arc::clone(&self);
                    self.runner.spawn(all.confirm(caller, traces, tell, why.clone(), sent));
                }
            }
        }
    }

    async fn confirm(
        self: Arc<Inner<O>>,
        mut caller: Caller<O::Reply>,
        traces: Vec<Trace>,
        tell: TellAnswer<O::Reply>,
        why: Unconfirmed,
        sent: Instant,
    ) {
        let _ = caller.stage.note_applied();
        let (deadline, failure) = (caller.time.deadline, not_confirmed(why.clone()));
        let found = tokio::select! {
            biased;
            found = self.runner.shown(traces, why, sent, deadline) => found,
            // The grant of a caller that has gone is given back now.
            () = caller.gone() => Err(failure.clone()),
            () = self.runner.closed_acquires(O::LANE) => Err(failure.clone()),
        };
        let now = self.runner.clock().now();
        caller.answer(found.and_then(|found| tell(&found, now).ok_or(failure)));
    }

    fn answer(
        &self,
        items: Vec<O::Item>,
        callers: Vec<Caller<O::Reply>>,
        answers: Vec<AttemptResult<O::Reply>>,
        sent: Instant,
    ) {
        debug_assert_eq!(answers.len(), callers.len(), "an answer for each");
        self.state.lock().batching.took(self.runner.clock().now().since(sent));
        for ((item, caller), answer) in items.iter().zip(callers).zip(answers) {
            if answer.as_ref().is_ok_and(O::has_written) {
                self.blocked.note(O::name(item), false);
            }
            caller.answer(answer);
        }
    }

    /// Splits a batch that was cut off, unless it is about one document, and sends the pieces.
    fn send_pieces(
        self: Arc<Inner<O>>,
        batch: Vec<BatchCall<O>>,
        failure: &Failure,
        took: Duration,
    ) {
        if batch.is_empty() {
            return;
        }
        match pieces(batch, BatchCall::name) {
            Ok(pieces) => {
                for piece in pieces {
                    self.runner.spawn(Arc::clone(&self).send(None, piece, false));
                }
            }
            Err(batch) => {
                if let Some(call) = batch.first() {
                    single::note_cut_off(&self.blocked, call.name(), failure, took);
                }
                batch.into_iter().for_each(|call| call.caller.answer(Err(failure.clone())));
            }
        }
    }
}
