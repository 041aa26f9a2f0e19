//! A batched operation, and its calls.

use std::time::Duration;

use mongo_lease_core::commands::{Reliance, SharedSnapshot, Trace, Unconfirmed, are_shown};
use mongo_lease_core::rules::{Instant, Lane, is_too_late};
use tokio::sync::oneshot;

use crate::failure::Failure;
use crate::runner::{AttemptLimits, AttemptResult, AttemptTime, Pending, Slot, Stage};

/// One kind of batched operation: how its attempts share one command.
pub(crate) trait BatchOp: Send + Sync + 'static {
    type Item: Send + Sync + 'static;
    type Reply: Send + 'static;

    const LANE: Lane;

    /// The name of the lease that the attempt is about.
    fn name(item: &Self::Item) -> &str;

    /// Sends one command for all items, and a query after it where needed.
    fn attempt(
        &self,
        slot: &Slot,
        items: &[Self::Item],
        limits: AttemptLimits,
    ) -> impl Future<Output = AttemptResult<Attempted<Self::Reply>>> + Send;

    /// Notes that a command with these items was sent, at `sent` or later, failed, and may have been carried out, in
    /// part or whole.
    fn note_sent(items: &mut [Self::Item], failure: &Failure, sent: Instant);

    /// The known outcome of each item, in order, after the server cut the command off.
    ///
    /// The server has answered `failure`, so it carries out nothing more of the command; it may have carried out a
    /// part. Items of which nothing is known are sent again.
    fn after_cut_off(
        &self,
        slot: &Slot,
        items: &[Self::Item],
        failure: &Failure,
        limits: AttemptLimits,
    ) -> impl Future<Output = Vec<Option<AttemptResult<Self::Reply>>>> + Send;

    /// Whether the answer shows that the document was written to: then nothing holds it up.
    fn has_written(reply: &Self::Reply) -> bool;
}

/// The result of one command for many items.
pub(crate) enum Attempted<T> {
    /// The answer to each item, in their order, or why there is none.
    Answers(Vec<AttemptResult<T>>),
    /// It is applied, and no majority has it yet: what the answer to each item depends on, in their order.
    Unconfirmed(Vec<Claim<T>>, Unconfirmed),
}

/// Reads an answer from the documents that a majority has.
pub(super) type TellAnswer<T> = Box<dyn FnOnce(&[SharedSnapshot], Instant) -> Option<T> + Send>;

/// The answer to one item of a command that no majority has yet.
pub(crate) enum Claim<T> {
    /// Nothing that a failover could undo: it counts now.
    Answer(T),
    /// It depends on these writes. The function tells it by the documents that a read has found; `None` if the writes
    /// are not there.
    Writes(Vec<Trace>, TellAnswer<T>),
    /// It depends on writes that no read can show.
    Untraceable,
}

impl<T: Send + 'static> Claim<T> {
    /// This answer, if all of its writes are there.
    pub(crate) fn all(reliance: Reliance, answer: T) -> Claim<T> {
        match reliance {
            Reliance::Nothing => Claim::Answer(answer),
            Reliance::Untraceable => Claim::Untraceable,
            Reliance::Writes(traces) => {
                let wanted = traces.clone();
                let tell = move |found: &[SharedSnapshot], now| {
                    are_shown(&wanted, found, now).then_some(answer)
                };
                Claim::Writes(traces, Box::new(tell))
            }
        }
    }
}

/// An attempt that has not been answered.
pub(super) struct BatchCall<O: BatchOp> {
    pub(super) item: O::Item,
    pub(super) caller: Caller<O::Reply>,
}

/// Receives the outcome, even when the caller has gone.
type OnAnswer<T> = Box<dyn FnOnce(&AttemptResult<T>) + Send>;

pub(super) struct Caller<T> {
    pub(super) time: AttemptTime,
    pub(super) stage: Stage,
    on_answer: OnAnswer<T>,
    sender: oneshot::Sender<AttemptResult<T>>,
}

impl<T> Caller<T> {
    /// Notes that it is sent now, for the first time or again. Returns false if it must not be sent. Commands like this
    /// take the time `typical`.
    pub(super) fn send(&self, now: Instant, typical: Duration) -> bool {
        let left = self.time.deadline.since(now);
        !is_too_late(left, typical, self.time.timeout) && self.stage.send(now)
    }

    /// Answers a call that is not sent, or not again.
    pub(super) fn give_up(self, failure: Failure) {
        let was_sent = self.stage.sent_at().is_some();
        self.answer(Err(failure.or_maybe(was_sent)));
    }

    /// Completes when nobody waits for the answer any more.
    pub(super) async fn gone(&mut self) {
        self.sender.closed().await;
    }

    pub(super) fn answer(self, result: AttemptResult<T>) {
        (self.on_answer)(&result);
        // If the caller has gone, only `on_answer` needed the outcome.
        let _ = self.sender.send(result);
    }
}

impl<O: BatchOp> BatchCall<O> {
    pub(super) fn new(
        item: O::Item,
        time: AttemptTime,
        on_answer: impl FnOnce(&AttemptResult<O::Reply>) + Send + 'static,
    ) -> (BatchCall<O>, Pending<O::Reply>) {
        let (sender, stage, under_way) = Pending::pair();
        let caller = Caller { time, stage, on_answer: Box::new(on_answer), sender };
        (BatchCall { item, caller }, under_way)
    }

    pub(super) fn name(&self) -> &str {
        O::name(&self.item)
    }
}

/// The time of a command for all these calls; `None` if there is none.
pub(super) fn longest<O: BatchOp>(batch: &[BatchCall<O>]) -> Option<AttemptTime> {
    let times = batch.iter().map(|call| call.caller.time);
    times.reduce(|one, other| AttemptTime {
        timeout: one.timeout.max(other.timeout),
        deadline: one.deadline.max(other.deadline),
    })
}
