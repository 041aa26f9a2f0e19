//! Group commit: attempts of many callers share one command; each has its own deadline and answer.
//!
//! `rules::batching` decides when to flush. Calls gather until a slot is free, and leave for it in one command, so under
//! load commands get larger and not more. A call's result does not depend on its batch, with one exception: the server
//! answers a command as a whole, so a call waits for the slowest statement of its command. To keep that wait short, the
//! server is told to give up soon. A command that it cuts off is sent again in pieces, until the held-up document is
//! found. Commands for that document go alone from then on. Invariants:
//!
//! 1. Each call is answered exactly once, with its last answer, even when its caller has gone.
//! 2. A call goes alone if its document is known to be held up. A few calls do at a time if they have less time left than
//!    a batch may take.
//! 3. A command without an answer is not sent again here: each of its callers finds out by itself.
//! 4. A call that its caller has withdrawn, or whose time is over, is not sent.

pub(crate) mod acquires;
pub(crate) mod alone;
pub(crate) mod releases;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, oneshot};

use crate::clock;
use crate::commands::failure::Failure;
use crate::hints::HeldUpNames;
use crate::rules::backoff::MAJORITY;
use crate::rules::batching::{BATCH_MAX, Batching, is_server_slow, is_too_late, pieces};
use crate::rules::slots::Lane;
use crate::rules::time::Instant;
use crate::runner::{
    AttemptLimits, AttemptResult, AttemptTime, NOT_SENT, Pace, Pending, Runner, Slot, Stage,
};

/// The longest time for which a call waits for the command before it.
const PATIENCE: Duration = Duration::from_millis(250);

/// With fewer waiting calls, it is not worth while to look for those that are withdrawn.
const SWEEP_MIN: usize = 4 * BATCH_MAX;

/// One kind of batched operation: how its attempts share one command.
pub(crate) trait BatchOp: Send + Sync + 'static {
    /// One attempt.
    type Item: Send + Sync + 'static;
    /// The answer to one attempt.
    type Reply: Send + 'static;

    /// The lane of its commands.
    const LANE: Lane;

    /// The name of the lease that the attempt is about.
    fn name(item: &Self::Item) -> &str;

    /// Sends one command for all items, and a query after it where needed. Returns the answer to each, in their order,
    /// or why there is none.
    fn attempt(
        &self,
        slot: &Slot,
        items: &[Self::Item],
        limits: AttemptLimits,
    ) -> impl Future<Output = AttemptResult<Vec<AttemptResult<Self::Reply>>>> + Send;

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

/// Collects attempts of one kind into batches.
pub(crate) struct Batcher<O: BatchOp> {
    shared: Arc<Shared<O>>,
}

struct Shared<O: BatchOp> {
    runner: Runner,
    op: O,
    pace: Pace,
    held_up: HeldUpNames,
    state: Mutex<State<O>>,
    /// Notified when a call has to wait for a command in progress.
    left_waiting: Notify,
}

struct State<O: BatchOp> {
    batching: Batching,
    waiting: VecDeque<BatchCall<O>>,
    /// Whether a task waits for a slot, to send the waiting calls.
    waits_for_slot: bool,
    /// The number of waiting calls at which those that are withdrawn are removed.
    sweep_at: usize,
}

/// An attempt that has not been answered.
struct BatchCall<O: BatchOp> {
    item: O::Item,
    caller: Caller<O::Reply>,
}

/// Receives the outcome, even when the caller has gone.
type OnAnswer<T> = Box<dyn FnOnce(&AttemptResult<T>) + Send>;

struct Caller<T> {
    time: AttemptTime,
    stage: Stage,
    on_answer: OnAnswer<T>,
    sender: oneshot::Sender<AttemptResult<T>>,
}

impl<T> Caller<T> {
    /// Notes that it is sent now, for the first time or again. Returns false if it must not be sent. Commands like this
    /// take the time `typical`.
    fn send(&self, now: Instant, typical: Duration) -> bool {
        let left = self.time.deadline.since(now);
        !is_too_late(left, typical, self.time.timeout) && self.stage.send(now)
    }

    /// Answers a call that is not sent, or not again.
    fn give_up(self, failure: Failure) {
        let was_sent = self.stage.sent_at().is_some();
        self.answer(Err(failure.or_maybe(was_sent)));
    }

    fn answer(self, result: AttemptResult<T>) {
        (self.on_answer)(&result);
        // If the caller has gone, only `on_answer` needed the outcome.
        let _ = self.sender.send(result);
    }
}

impl<O: BatchOp> Batcher<O> {
    pub(crate) fn new(runner: Runner, op: O, pace: Pace, held_up: HeldUpNames) -> Batcher<O> {
        let state = Mutex::new(State {
            batching: Batching::default(),
            waiting: VecDeque::new(),
            waits_for_slot: false,
            sweep_at: SWEEP_MIN,
        });
        let left_waiting = Notify::new();
        Batcher { shared: Arc::new(Shared { runner, op, pace, held_up, state, left_waiting }) }
    }

    /// Starts one attempt: at once, or in one command with those that come meanwhile. `on_answer` gets its outcome in
    /// any case.
    pub(crate) fn start(
        &self,
        item: O::Item,
        time: AttemptTime,
        on_answer: impl FnOnce(&AttemptResult<O::Reply>) + Send + 'static,
    ) -> Pending<O::Reply> {
        let (call, under_way) = BatchCall::<O>::new(item, time, on_answer);
        if let Some(call) = Shared::go_alone_if_needed(&self.shared, call) {
            let withdrawn = self.shared.state().push(call);
            withdrawn.into_iter().for_each(|call| call.caller.give_up(NOT_SENT));
            Shared::go_next(&self.shared);
        }
        under_way
    }

    /// Starts many attempts, in as few commands as possible.
    pub(crate) fn start_all(
        &self,
        items: impl Iterator<Item = (O::Item, AttemptTime)>,
    ) -> Vec<Pending<O::Reply>> {
        let mut under_way = Vec::new();
        let mut waiting = VecDeque::new();
        for (item, time) in items {
            let (call, pending) = BatchCall::<O>::new(item, time, |_| ());
            under_way.push(pending);
            waiting.extend(Shared::go_alone_if_needed(&self.shared, call));
        }
        self.shared.state().waiting.append(&mut waiting);
        while Shared::go_next(&self.shared) {}
        under_way
    }

    /// Starts one attempt at once and alone.
    pub(crate) fn start_alone(
        &self,
        item: O::Item,
        time: AttemptTime,
        on_answer: impl FnOnce(&AttemptResult<O::Reply>) + Send + 'static,
    ) -> Pending<O::Reply> {
        let (call, under_way) = BatchCall::<O>::new(item, time, on_answer);
        let is_held_up = self.shared.held_up.has(call.name());
        Shared::go_alone(&self.shared, call, is_held_up, None);
        under_way
    }
}

impl<O: BatchOp> BatchCall<O> {
    fn new(
        item: O::Item,
        time: AttemptTime,
        on_answer: impl FnOnce(&AttemptResult<O::Reply>) + Send + 'static,
    ) -> (BatchCall<O>, Pending<O::Reply>) {
        let (sender, stage, under_way) = Pending::pair();
        let caller = Caller { time, stage, on_answer: Box::new(on_answer), sender };
        (BatchCall { item, caller }, under_way)
    }

    fn name(&self) -> &str {
        O::name(&self.item)
    }
}

impl<O: BatchOp> State<O> {
    /// Adds a waiting call. Now and then it returns those that are withdrawn, so that these do not pile up while no slot
    /// gets free.
    #[must_use]
    fn push(&mut self, call: BatchCall<O>) -> VecDeque<BatchCall<O>> {
        let mut withdrawn = VecDeque::new();
        if self.waiting.len() >= self.sweep_at {
            let all = std::mem::take(&mut self.waiting).into_iter();
            (withdrawn, self.waiting) = all.partition(|call| call.caller.stage.is_withdrawn());
            self.sweep_at = SWEEP_MIN.max(2 * self.waiting.len());
        }
        self.waiting.push_back(call);
        withdrawn
    }

    /// Takes the calls out that go now, in one command.
    fn take(&mut self) -> Vec<BatchCall<O>> {
        let go = self.batching.go(self.waiting.len());
        self.waiting.drain(..go).collect()
    }
}

impl<O: BatchOp> Shared<O> {
    fn state(&self) -> MutexGuard<'_, State<O>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends a call alone if it may hold others up, or if others may take more time than it has. Else it is returned.
    fn go_alone_if_needed(shared: &Arc<Shared<O>>, call: BatchCall<O>) -> Option<BatchCall<O>> {
        if shared.held_up.has(call.name()) {
            Shared::go_alone(shared, call, true, None);
            return None;
        }
        let now = shared.runner.clock().now();
        let left = call.caller.time.over(now).since(now);
        if left >= shared.pace.bound(false) || !shared.state().batching.go_alone() {
            return Some(call);
        }
        let back = CameBack { shared: Arc::clone(shared), calls: None };
        Shared::go_alone(shared, call, false, Some(back));
        None
    }

    fn go_alone(
        shared: &Arc<Shared<O>>,
        call: BatchCall<O>,
        is_held_up: bool,
        back: Option<CameBack<O>>,
    ) {
        let all = Arc::clone(shared);
        shared.runner.spawn(async move {
            all.send(None, vec![call], is_held_up).await;
            drop(back);
        });
    }

    /// Sends the waiting calls, if `rules::batching` lets them go and a slot is free. Returns whether any went.
    fn go_next(shared: &Arc<Shared<O>>) -> bool {
        let mut state = shared.state();
        let may_go = !state.waits_for_slot && state.batching.may_go(state.waiting.len());
        let slot = if may_go { shared.runner.free_slot(O::LANE) } else { None };
        let waits_for_slot = may_go && slot.is_none();
        state.waits_for_slot |= waits_for_slot;
        let batch = slot.map(|slot| (slot, state.take()));
        let is_left = !state.waiting.is_empty();
        drop(state);
        if is_left {
            shared.left_waiting.notify_waiters();
        }
        if waits_for_slot {
            shared.runner.spawn(Arc::clone(shared).go_when_slot_is_free());
        }
        let Some((slot, batch)) = batch else {
            return false;
        };
        Shared::go(shared, slot, batch);
        true
    }

    /// Waits for a slot, and sends the calls that wait then.
    async fn go_when_slot_is_free(self: Arc<Shared<O>>) {
        let slot = self.runner.slot(O::LANE, false, Instant::FAR_FUTURE).await;
        let mut state = self.state();
        state.waits_for_slot = false;
        match slot {
            Ok(slot) => {
                let batch = state.take();
                drop(state);
                if !batch.is_empty() {
                    Shared::go(&self, slot, batch);
                }
                Shared::go_next(&self);
            }
            // The manager shuts down.
            Err(failure) => {
                let all = std::mem::take(&mut state.waiting);
                drop(state);
                all.into_iter().for_each(|call| call.caller.give_up(failure.clone()));
            }
        }
    }

    fn go(shared: &Arc<Shared<O>>, slot: Slot, batch: Vec<BatchCall<O>>) {
        let next = CameBack { shared: Arc::clone(shared), calls: Some(batch.len()) };
        let all = Arc::clone(shared);
        let moment = shared.runner.clock().now().after(PATIENCE);
        shared.runner.spawn(async move {
            let mut sent = Arc::clone(&all).send(Some(slot), batch, false);
            tokio::select! {
                biased;
                () = &mut sent => return drop(next),
                () = all.delays_others(moment) => drop(next),
            }
            sent.await;
        });
    }

    /// Completes when a call waits, and `moment` has come.
    ///
    /// It sets no timer while nobody waits: one for each command, sooner than those of the process's other tasks,
    /// interrupts the thread that waits for the network each time.
    async fn delays_others(&self, moment: Instant) {
        let left = self.left_waiting.notified();
        tokio::pin!(left);
        left.as_mut().enable();
        if self.state().waiting.is_empty() {
            left.await;
        }
        self.runner.clock().sleep_until(moment).await;
    }

    /// Sends a batch, and answers each of its calls. Boxed, because the pieces of a batch are batches too.
    fn send(
        self: Arc<Shared<O>>,
        slot: Option<Slot>,
        batch: Vec<BatchCall<O>>,
        is_held_up: bool,
    ) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(async move {
            // A call that had to wait has to have the time that a command takes: its answer would come too late.
            let typical = slot.as_ref().map(|_| self.state().batching.typical());
            let Some((slot, batch)) = self.with_slot(slot, batch, is_held_up).await else {
                return;
            };
            let started = self.runner.clock().now();
            let batch = self.still_wanted(batch, started, typical.unwrap_or_default());
            let Some(time) = longest(&batch) else {
                return;
            };
            let (mut items, callers): (Vec<_>, Vec<_>) =
                batch.into_iter().map(|call| (call.item, call.caller)).unzip();
            let asked = self.pace.bound(is_held_up).min(time.over(started).since(started));
            let limits = AttemptLimits { time, pace: Some(self.pace.clone()), is_held_up };
            let failure = match self.op.attempt(&slot, &items, limits.clone()).await {
                Ok(answers) => return self.answer(items, callers, answers, started),
                Err(failure) => failure,
            };
            O::note_sent(&mut items, &failure, started);
            if !failure.is_held_up() {
                drop(slot);
                return self.without_majority(items, callers, failure, is_held_up).await;
            }
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
                true => self.runner.spawn(Arc::clone(&self).send(None, left, is_held_up)),
                false => self.send_pieces(left, &failure, took),
            }
        })
    }

    /// The batch with its slot. Without a slot in time, each of its calls is answered.
    async fn with_slot(
        &self,
        slot: Option<Slot>,
        batch: Vec<BatchCall<O>>,
        is_held_up: bool,
    ) -> Option<(Slot, Vec<BatchCall<O>>)> {
        if let Some(slot) = slot {
            return Some((slot, batch));
        }
        let deadline = longest(&batch)?.deadline;
        match self.runner.slot(O::LANE, is_held_up, deadline).await {
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

    /// Repeats a batch as a whole if its writes lack the confirmation of a majority, which is not one document's fault.
    /// (A call that went alone is repeated by its caller.) After any other failure, each caller finds out by itself.
    async fn without_majority(
        self: Arc<Shared<O>>,
        items: Vec<O::Item>,
        callers: Vec<Caller<O::Reply>>,
        failure: Failure,
        is_held_up: bool,
    ) {
        let delay = clock::jittered(MAJORITY).next().unwrap_or(MAJORITY.longest);
        let again_at = self.runner.clock().now().after(delay);
        let deadline = callers.iter().map(|caller| caller.time.deadline).max();
        let has_time = deadline.is_some_and(|deadline| again_at < deadline);
        if !failure.is_cut_off() || items.len() < 2 || !has_time {
            return callers.into_iter().for_each(|it| it.answer(Err(failure.clone())));
        }
        self.runner.clock().sleep_until(again_at).await;
        let calls = items.into_iter().zip(callers);
        let batch = calls.map(|(item, caller)| BatchCall { item, caller }).collect();
        self.send(None, batch, is_held_up).await;
    }

    fn answer(
        &self,
        items: Vec<O::Item>,
        callers: Vec<Caller<O::Reply>>,
        answers: Vec<AttemptResult<O::Reply>>,
        sent: Instant,
    ) {
        debug_assert_eq!(answers.len(), callers.len(), "an answer for each");
        self.state().batching.took(self.runner.clock().now().since(sent));
        for ((item, caller), answer) in items.iter().zip(callers).zip(answers) {
            if answer.as_ref().is_ok_and(O::has_written) {
                self.held_up.went_through(O::name(item));
            }
            caller.answer(answer);
        }
    }

    /// Splits a batch that was cut off, unless it is about one document, and sends the pieces.
    fn send_pieces(
        self: Arc<Shared<O>>,
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
                    alone::note_cut_off(&self.held_up, call.name(), failure, took);
                }
                batch.into_iter().for_each(|call| call.caller.answer(Err(failure.clone())));
            }
        }
    }
}

/// The time of a command for all these calls; `None` if there is none.
fn longest<O: BatchOp>(batch: &[BatchCall<O>]) -> Option<AttemptTime> {
    let times = batch.iter().map(|call| call.caller.time);
    times.reduce(|one, other| AttemptTime {
        timeout: one.timeout.max(other.timeout),
        deadline: one.deadline.max(other.deadline),
    })
}

/// When dropped, lets the calls go that waited for the command with these calls.
struct CameBack<O: BatchOp> {
    shared: Arc<Shared<O>>,
    /// `None` for a call that went alone.
    calls: Option<usize>,
}

impl<O: BatchOp> Drop for CameBack<O> {
    fn drop(&mut self) {
        match self.calls {
            Some(calls) => self.shared.state().batching.came_back(calls),
            None => self.shared.state().batching.alone_came_back(),
        }
        Shared::go_next(&self.shared);
    }
}
