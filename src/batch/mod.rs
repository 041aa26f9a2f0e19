//! Group commit: attempts of many callers share one command; each has its own deadline and answer.
//!
//! `rules::batching` decides when to flush. Calls gather until a slot is free, and leave for it in one command, so
//! under load commands get larger and not more. The server answers a command as a whole, so a call waits for the
//! slowest statement of its command. To keep that wait short, the server is told to give up soon. A command that it
//! cuts off is sent again in pieces, until the blocked document is found. Commands for that document go alone from then
//! on. Invariants:
//!
//! 1. Each call is answered exactly once, with its last answer, even when its caller has gone.
//! 2. A call goes alone if its document is known to be blocked. A few calls do at a time if they have less time left
//!    than a batch may take.
//! 3. A command without an answer is not sent again here: each of its callers finds out by itself.
//! 4. A call that its caller has withdrawn, or whose time is over, is not sent.

pub(crate) mod acquires;
pub(crate) mod op;
pub(crate) mod releases;
mod sending;
pub(crate) mod single;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use mongo_lease_core::rules::{BATCH_MAX, Batching, Instant};
use tokio::sync::Notify;

use crate::batch::op::{BatchCall, BatchOp};
use crate::failure::NOT_SENT;
use crate::hints::NameHint;
use crate::lock::Lock;
use crate::runner::{AttemptResult, AttemptTime, Pace, Pending, Runner, Slot};

/// The longest time for which a call waits for the command before it.
const PATIENCE: Duration = Duration::from_millis(250);

/// With fewer waiting calls, it is not worth while to look for those that are withdrawn.
const SWEEP_MIN: usize = 4 * BATCH_MAX;

/// Collects attempts of one kind into batches.
pub(crate) struct Batcher<O: BatchOp> {
    shared: Arc<Inner<O>>,
}

struct Inner<O: BatchOp> {
    runner: Runner,
    op: O,
    pace: Pace,
    blocked: NameHint,
    state: Lock<State<O>>,
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

impl<O: BatchOp> Batcher<O> {
    pub(crate) fn new(runner: Runner, op: O, pace: Pace, blocked: NameHint) -> Batcher<O> {
        let state = Lock::new(State {
            batching: Batching::default(),
            waiting: VecDeque::new(),
            waits_for_slot: false,
            sweep_at: SWEEP_MIN,
        });
        let shared = Inner { runner, op, pace, blocked, state, left_waiting: Notify::new() };
        Batcher { shared: Arc::new(shared) }
    }

    /// Starts one attempt: at once, or in one command with those that come meanwhile. `on_answer` gets its outcome in
    /// any case.
    pub(crate) fn start(
        &self,
        item: O::Item,
        time: AttemptTime,
        on_answer: impl FnOnce(&AttemptResult<O::Reply>) + Send + 'static,
    ) -> Pending<O::Reply> {
        let polls = self.shared.runner.polls_from_now();
        let (call, pending) = BatchCall::<O>::new(item, time, on_answer);
        if let Some(call) = Inner::go_alone_if_needed(&self.shared, call) {
            let withdrawn = self.shared.state.lock().push(call);
            withdrawn.into_iter().for_each(|call| call.caller.give_up(NOT_SENT));
            Inner::go_next(&self.shared);
        }
        pending.sent_by(polls)
    }

    /// Starts many attempts, in as few commands as possible.
    pub(crate) fn start_all(
        &self,
        items: impl Iterator<Item = (O::Item, AttemptTime)>,
    ) -> Vec<Pending<O::Reply>> {
        let mut started = Vec::new();
        let mut waiting = VecDeque::new();
        for (item, time) in items {
            let (call, pending) = BatchCall::<O>::new(item, time, |_| ());
            started.push(pending.sent_by(self.shared.runner.polls_from_now()));
            waiting.extend(Inner::go_alone_if_needed(&self.shared, call));
        }
        self.shared.state.lock().waiting.append(&mut waiting);
        while Inner::go_next(&self.shared) {}
        started
    }

    pub(crate) fn start_alone(
        &self,
        item: O::Item,
        time: AttemptTime,
        on_answer: impl FnOnce(&AttemptResult<O::Reply>) + Send + 'static,
    ) -> Pending<O::Reply> {
        let polls = self.shared.runner.polls_from_now();
        let (call, pending) = BatchCall::<O>::new(item, time, on_answer);
        let is_blocked = self.shared.blocked.has(call.name());
        Inner::go_alone(&self.shared, call, is_blocked, None);
        pending.sent_by(polls)
    }
}

impl<O: BatchOp> State<O> {
    /// Adds a waiting call. Now and then it returns those that are withdrawn, so that these do not pile up while no
    /// slot gets free.
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

impl<O: BatchOp> Inner<O> {
    /// Sends a call alone if it may delay others, or if others may take more time than it has. Else it is returned.
    fn go_alone_if_needed(shared: &Arc<Inner<O>>, call: BatchCall<O>) -> Option<BatchCall<O>> {
        if shared.blocked.has(call.name()) {
            Inner::go_alone(shared, call, true, None);
            return None;
        }
        let now = shared.runner.clock().now();
        let left = call.caller.time.over(now).since(now);
        if left >= shared.pace.bound(false) || !shared.state.lock().batching.go_alone() {
            return Some(call);
        }
        let back = CameBack { shared: Arc::clone(shared), calls: None };
        Inner::go_alone(shared, call, false, Some(back));
        None
    }

    fn go_alone(
        shared: &Arc<Inner<O>>,
        call: BatchCall<O>,
        is_blocked: bool,
        back: Option<CameBack<O>>,
    ) {
        let all = Arc::clone(shared);
        shared.runner.spawn(async move {
            all.send(None, vec![call], is_blocked).await;
            drop(back);
        });
    }

    /// Sends the waiting calls, if `rules::batching` lets them go and a slot is free. Returns whether any went.
    fn go_next(shared: &Arc<Inner<O>>) -> bool {
        let mut state = shared.state.lock();
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
        Inner::go(shared, slot, batch);
        true
    }

    /// Waits for a slot, and sends the calls that wait then.
    async fn go_when_slot_is_free(self: Arc<Inner<O>>) {
        let slot = self.runner.slot(O::LANE, false, Instant::FAR_FUTURE).await;
        let mut state = self.state.lock();
        state.waits_for_slot = false;
        match slot {
            Ok(slot) => {
                let batch = state.take();
                drop(state);
                if !batch.is_empty() {
                    Inner::go(&self, slot, batch);
                }
                Inner::go_next(&self);
            }
            // The manager shuts down.
            Err(failure) => {
                let all = std::mem::take(&mut state.waiting);
                drop(state);
                all.into_iter().for_each(|call| call.caller.give_up(failure.clone()));
            }
        }
    }

    fn go(shared: &Arc<Inner<O>>, slot: Slot, batch: Vec<BatchCall<O>>) {
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

    /// Completes when a call waits, and `moment` has come. It sets no timer while nobody waits: one for each command
    /// would interrupt the thread that waits for the network each time.
    async fn delays_others(&self, moment: Instant) {
        let left = self.left_waiting.notified();
        tokio::pin!(left);
        left.as_mut().enable();
        if self.state.lock().waiting.is_empty() {
            left.await;
        }
        self.runner.clock().sleep_until(moment).await;
    }
}

/// When dropped, lets the calls go that waited for the command with these calls.
struct CameBack<O: BatchOp> {
    shared: Arc<Inner<O>>,
    /// `None` for a call that went alone.
    calls: Option<usize>,
}

impl<O: BatchOp> Drop for CameBack<O> {
    fn drop(&mut self) {
        match self.calls {
            Some(calls) => self.shared.state.lock().batching.came_back(calls),
            None => self.shared.state.lock().batching.alone_came_back(),
        }
        Inner::go_next(&self.shared);
    }
}
