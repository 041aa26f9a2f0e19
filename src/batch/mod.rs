//! Group commit: attempts of many callers share one command; each has its own deadline and answer.
//!
//! `rules::batching` decides when to flush. A call's result does not depend on its batch, with one exception: the
//! server answers a command as a whole, so a call waits for the slowest statement of its command. To keep that wait
//! short, the server is told to give up soon. A command that it cuts off is sent again in pieces, until the held-up
//! document is found. Commands for that document go alone from then on. Invariants:
//!
//! 1. Each call is answered exactly once, with its last answer, even when its caller has gone.
//! 2. A call goes alone if its document is known to be held up, or if it has less time left than a batch may take.
//! 3. A command without an answer is not sent again here: each of its callers finds out by itself.

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
use crate::rules::backoff::RETRY;
use crate::rules::batching::{Batching, pieces};
use crate::rules::time::Instant;
use crate::runner::{AttemptLimits, AttemptResult, NO_ANSWER, Pace, Pending, Runner};

/// The longest time for which a call waits for the command before it.
const PATIENCE: Duration = Duration::from_millis(250);

/// One kind of batched operation: how its attempts share one command.
pub(crate) trait BatchOp: Send + Sync + 'static {
    /// One attempt.
    type Item: Send + Sync + 'static;
    /// The answer to one attempt.
    type Reply: Send + 'static;

    /// The name of the lease that the attempt is about.
    fn name(item: &Self::Item) -> &str;

    /// Sends one command for all items. Returns the answer to each, in their order, or why there is none.
    fn attempt(
        &self,
        runner: &Runner,
        items: &[Self::Item],
        limits: AttemptLimits,
    ) -> impl Future<Output = AttemptResult<Vec<AttemptResult<Self::Reply>>>> + Send;

    /// Notes that a command with these items failed and may have been carried out, in part or whole.
    fn note_sent(items: &mut [Self::Item], failure: &Failure);

    /// The known outcome of each item, in order, after the server cut the command off.
    ///
    /// The server has answered `failure`, so it carries out nothing more of the command; it may have carried out a
    /// part. Items of which nothing is known are sent again.
    fn after_cut_off(
        &self,
        runner: &Runner,
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
}

/// An attempt that has not been answered.
struct BatchCall<O: BatchOp> {
    item: O::Item,
    caller: Caller<O::Reply>,
}

/// Receives the outcome, even when the caller has gone.
type OnAnswer<T> = Box<dyn FnOnce(&AttemptResult<T>) + Send>;

struct Caller<T> {
    deadline: Instant,
    on_answer: OnAnswer<T>,
    sender: oneshot::Sender<AttemptResult<T>>,
}

impl<T> Caller<T> {
    fn answer(self, result: AttemptResult<T>) {
        (self.on_answer)(&result);
        // If the caller has gone, only `on_answer` needed the outcome.
        let _ = self.sender.send(result);
    }
}

impl<O: BatchOp> Batcher<O> {
    pub(crate) fn new(runner: Runner, op: O, pace: Pace, held_up: HeldUpNames) -> Batcher<O> {
        let state = Mutex::new(State { batching: Batching::default(), waiting: VecDeque::new() });
        let left_waiting = Notify::new();
        Batcher { shared: Arc::new(Shared { runner, op, pace, held_up, state, left_waiting }) }
    }

    /// Starts one attempt: at once, or in one command with those that come meanwhile. `on_answer` gets its outcome in
    /// any case.
    pub(crate) fn start(
        &self,
        item: O::Item,
        deadline: Instant,
        on_answer: impl FnOnce(&AttemptResult<O::Reply>) + Send + 'static,
    ) -> Pending<O::Reply> {
        let (call, under_way) = BatchCall::<O>::new(item, deadline, on_answer);
        if self.shared.goes_alone(&call) {
            Shared::go_alone(&self.shared, call);
            return under_way;
        }
        self.shared.state().waiting.push_back(call);
        Shared::go_next(&self.shared);
        under_way
    }

    /// Starts many attempts, in as few commands as possible.
    pub(crate) fn start_all(
        &self,
        items: impl Iterator<Item = (O::Item, Instant)>,
    ) -> Vec<Pending<O::Reply>> {
        let mut under_way = Vec::new();
        let mut waiting = VecDeque::new();
        for (item, deadline) in items {
            let (call, pending) = BatchCall::<O>::new(item, deadline, |_| ());
            under_way.push(pending);
            match self.shared.goes_alone(&call) {
                true => Shared::go_alone(&self.shared, call),
                false => waiting.push_back(call),
            }
        }
        self.shared.state().waiting.append(&mut waiting);
        while Shared::go_next(&self.shared) {}
        under_way
    }

    /// Starts one attempt at once and alone.
    pub(crate) fn start_alone(
        &self,
        item: O::Item,
        deadline: Instant,
        on_answer: impl FnOnce(&AttemptResult<O::Reply>) + Send + 'static,
    ) -> Pending<O::Reply> {
        let (call, under_way) = BatchCall::<O>::new(item, deadline, on_answer);
        Shared::go_alone(&self.shared, call);
        under_way
    }
}

impl<O: BatchOp> BatchCall<O> {
    fn new(
        item: O::Item,
        deadline: Instant,
        on_answer: impl FnOnce(&AttemptResult<O::Reply>) + Send + 'static,
    ) -> (BatchCall<O>, Pending<O::Reply>) {
        let (sender, under_way) = Pending::pair();
        let caller = Caller { deadline, on_answer: Box::new(on_answer), sender };
        (BatchCall { item, caller }, under_way)
    }

    fn name(&self) -> &str {
        O::name(&self.item)
    }
}

impl<O: BatchOp> Shared<O> {
    fn state(&self) -> MutexGuard<'_, State<O>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn goes_alone(&self, call: &BatchCall<O>) -> bool {
        let left = call.caller.deadline.since(self.runner.clock().now());
        left < self.pace.bound(false) || self.held_up.has(call.name())
    }

    fn go_alone(shared: &Arc<Shared<O>>, call: BatchCall<O>) {
        let is_held_up = shared.held_up.has(call.name());
        shared.runner.spawn(Arc::clone(shared).send(vec![call], is_held_up));
    }

    /// Sends the waiting calls, if `rules::batching` lets them go. Returns whether any went.
    fn go_next(shared: &Arc<Shared<O>>) -> bool {
        let mut state = shared.state();
        let waiting = state.waiting.len();
        let go = state.batching.go(waiting);
        let batch: Vec<_> = state.waiting.drain(..go).collect();
        let is_left = !state.waiting.is_empty();
        drop(state);
        if is_left {
            shared.left_waiting.notify_waiters();
        }
        let goes = !batch.is_empty();
        if goes {
            Shared::go(shared, batch);
        }
        goes
    }

    fn go(shared: &Arc<Shared<O>>, batch: Vec<BatchCall<O>>) {
        let next = FlushNext { shared: Arc::clone(shared), calls: batch.len() };
        let all = Arc::clone(shared);
        let moment = shared.runner.clock().now().after(PATIENCE);
        shared.runner.spawn(async move {
            let mut sent = Arc::clone(&all).send(batch, false);
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
        batch: Vec<BatchCall<O>>,
        is_held_up: bool,
    ) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(async move {
            // A call whose deadline passed while it waited sends nothing.
            let now = self.runner.clock().now();
            let (batch, late): (Vec<_>, Vec<_>) =
                batch.into_iter().partition(|call| now < call.caller.deadline);
            late.into_iter().for_each(|call| call.caller.answer(Err(NO_ANSWER)));
            let Some(deadline) = batch.iter().map(|call| call.caller.deadline).max() else {
                return;
            };
            let (mut items, callers): (Vec<_>, Vec<_>) =
                batch.into_iter().map(|call| (call.item, call.caller)).unzip();
            let started = self.runner.clock().now();
            let limits = AttemptLimits { deadline, pace: Some(self.pace.clone()), is_held_up };
            let failure = match self.attempt(&mut items, limits.clone()).await {
                Ok(answers) => return self.answer(items, callers, answers),
                Err(failure) => failure,
            };
            if !failure.is_held_up() {
                return callers.into_iter().for_each(|it| it.answer(Err(failure.clone())));
            }
            O::note_sent(&mut items, &failure);
            let known = self.op.after_cut_off(&self.runner, &items, &failure, limits).await;
            debug_assert_eq!(known.len(), callers.len(), "something of each");
            let mut left = Vec::new();
            for ((item, caller), known) in items.into_iter().zip(callers).zip(known) {
                match known {
                    Some(answer) => caller.answer(answer),
                    None => left.push(BatchCall { item, caller }),
                }
            }
            self.send_pieces(left, &failure, started);
        })
    }

    /// Sends a batch until it is answered, or cut off because of one of its documents.
    ///
    /// A missing majority confirmation is not one document's fault: the whole batch is repeated. (A call that went
    /// alone is repeated by its caller.)
    async fn attempt(
        &self,
        items: &mut [O::Item],
        limits: AttemptLimits,
    ) -> AttemptResult<Vec<AttemptResult<O::Reply>>> {
        let mut delays = clock::jittered(RETRY);
        loop {
            let answer = self.op.attempt(&self.runner, items, limits.clone()).await;
            let Err(failure) = &answer else {
                return answer;
            };
            let again_at = self.runner.clock().now().after(delays.next().unwrap_or(RETRY.longest));
            let is_whole = !failure.is_held_up() && failure.is_cut_off() && items.len() > 1;
            if !is_whole || again_at >= limits.deadline {
                return answer;
            }
            O::note_sent(items, failure);
            self.runner.clock().sleep_until(again_at).await;
        }
    }

    fn answer(
        &self,
        items: Vec<O::Item>,
        callers: Vec<Caller<O::Reply>>,
        answers: Vec<AttemptResult<O::Reply>>,
    ) {
        debug_assert_eq!(answers.len(), callers.len(), "an answer for each");
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
        started: Instant,
    ) {
        if batch.is_empty() {
            return;
        }
        match pieces(batch, BatchCall::name) {
            Ok(pieces) => {
                for piece in pieces {
                    self.runner.spawn(Arc::clone(&self).send(piece, false));
                }
            }
            Err(batch) => {
                if let Some(call) = batch.first() {
                    let after = self.runner.clock().now().since(started);
                    alone::note_cut_off(&self.held_up, call.name(), failure, after);
                }
                batch.into_iter().for_each(|call| call.caller.answer(Err(failure.clone())));
            }
        }
    }
}

/// When dropped, lets the calls go that waited for the command with these calls.
struct FlushNext<O: BatchOp> {
    shared: Arc<Shared<O>>,
    calls: usize,
}

impl<O: BatchOp> Drop for FlushNext<O> {
    fn drop(&mut self) {
        self.shared.state().batching.came_back(self.calls);
        Shared::go_next(&self.shared);
    }
}
