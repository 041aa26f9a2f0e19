//! Group commit without a database: each batch is answered when the test says so, with the test's answers.

mod overload;
mod single;
mod split;

use std::iter;
use std::time::Duration;

use mongo_lease_core::rules::{BATCH_MAX, Instant, Lane, MAYBE_APPLIED, UNDER_WAY_MAX};
use mongodb::error::{CommandError, ErrorKind};
use tokio::sync::{mpsc, oneshot};

use super::op::{Attempted, BatchOp};
use super::{Batcher, PATIENCE};
use crate::failure::{Cause, Failure, NOT_SENT, driver_failure};
use crate::hints::Hints;
use crate::memory::MemoryStore;
use crate::runner::{AttemptLimits, AttemptResult, Backend, Pace, Pending, Runner, Slot};

/// Longer than anything here takes.
const LONG: Duration = Duration::from_secs(30);

/// More than a test has commands in progress, but for those that want all of them.
const SLOTS: usize = 20;

/// An item at which sending panics.
const PANIC: u32 = 0;

/// The documents that the items are about, two items each.
const NAMES: &str = "abcdefghijklmnopqrst";

/// Nothing is sent, and the clock is tokio's, which the tests have paused.
fn runner() -> Runner {
    Runner::new(Backend::Memory(MemoryStore::new()), "locks", SLOTS).unwrap()
}

fn answer_to(item: u32) -> AttemptResult<u32> {
    match item % 2 {
        0 => Ok(item * 10),
        _ => Err(unanswered()),
    }
}

fn unanswered() -> Failure {
    Failure { outcome: MAYBE_APPLIED, cause: Cause::Deadline }
}

/// A failure that the server itself reports: the command was cut off at its time limit.
fn cut_off() -> Failure {
    let reply = serde_json::json!({ "code": 50, "codeName": "AsItIs", "errmsg": "wanted" });
    let command: CommandError = serde_json::from_value(reply).unwrap();
    driver_failure(ErrorKind::Command(command).into())
}

struct SentBatch {
    items: Vec<u32>,
    deadline: Instant,
    is_blocked: bool,
    come_back: oneshot::Sender<Result<(), Failure>>,
}

impl SentBatch {
    /// It is carried out, with an answer to each of its items.
    fn succeeds(self) {
        self.come_back.send(Ok(())).expect("it is awaited");
    }

    fn fails(self, failure: Failure) {
        self.come_back.send(Err(failure)).expect("it is awaited");
    }
}

/// Reports each command to the test, and answers it when the test says so.
struct Fake(mpsc::UnboundedSender<SentBatch>);

impl BatchOp for Fake {
    type Item = u32;
    type Reply = u32;

    const LANE: Lane = Lane::Acquire;

    fn name(item: &u32) -> &str {
        let at = (*item as usize / 2) % NAMES.len();
        &NAMES[at..=at]
    }

    async fn attempt(
        &self,
        _slot: &Slot,
        items: &[u32],
        limits: AttemptLimits,
    ) -> AttemptResult<Attempted<u32>> {
        assert!(!items.contains(&PANIC), "as the test wants it");
        let (come_back, comes_back) = oneshot::channel();
        let (deadline, is_blocked) = (limits.time.deadline, limits.is_blocked);
        let batch = SentBatch { items: items.to_vec(), deadline, is_blocked, come_back };
        self.0.send(batch).expect("the test goes on");
        match comes_back.await.expect("the test lets it come back") {
            Ok(()) => Ok(Attempted::Answers(items.iter().copied().map(answer_to).collect())),
            Err(failure) => Err(failure),
        }
    }

    fn note_sent(_items: &mut [u32], _failure: &Failure, _sent: Instant) {}

    /// Says that every seventh outcome is known.
    async fn after_cut_off(
        &self,
        _slot: &Slot,
        items: &[u32],
        _failure: &Failure,
        _limits: AttemptLimits,
    ) -> Vec<Option<AttemptResult<u32>>> {
        items.iter().map(|item| (item % 7 == 0).then_some(Ok(item * 100))).collect()
    }

    fn has_written(_reply: &u32) -> bool {
        true
    }
}

/// Calls of one kind, and the commands that they sent.
struct Harness {
    batcher: Batcher<Fake>,
    runner: Runner,
    batches: mpsc::UnboundedReceiver<SentBatch>,
    /// The answers to calls, whether or not their callers were still there.
    told: mpsc::UnboundedReceiver<(u32, Option<u32>)>,
    tell: mpsc::UnboundedSender<(u32, Option<u32>)>,
    /// The commands that keep others waiting, until the test answers them, and their callers.
    fillers: Vec<SentBatch>,
    callers: Vec<Pending<u32>>,
}

impl Harness {
    async fn new() -> Harness {
        let runner = runner();
        let (sender, batches) = mpsc::unbounded_channel();
        let (tell, told) = mpsc::unbounded_channel();
        let blocked = Hints::new(false, runner.clock()).blocked;
        let batcher = Batcher::new(runner.clone(), Fake(sender), Pace::default(), blocked);
        Harness { batcher, runner, batches, told, tell, fillers: Vec::new(), callers: Vec::new() }
    }

    /// All slots are occupied: every later call waits.
    async fn full() -> Harness {
        let mut harness = Harness::new().await;
        harness.fill(UNDER_WAY_MAX).await;
        harness
    }

    /// Occupies so many slots. Commands beyond the usual number go when the others take too long.
    async fn fill(&mut self, slots: usize) {
        while self.fillers.len() < slots {
            self.callers.push(self.start(2));
            let batch = self.batch().await;
            assert_eq!(batch.items, [2]);
            self.fillers.push(batch);
        }
    }

    fn now(&self) -> Instant {
        self.runner.clock().now()
    }

    fn start(&self, item: u32) -> Pending<u32> {
        self.start_until(item, self.now().after(LONG))
    }

    fn start_until(&self, item: u32, deadline: Instant) -> Pending<u32> {
        self.batcher.start(item, deadline.into(), self.teller(item))
    }

    fn teller(&self, item: u32) -> impl FnOnce(&AttemptResult<u32>) + Send + use<> {
        let tell = self.tell.clone();
        move |answer| {
            // At the end nobody listens any more.
            let _ = tell.send((item, answer.as_ref().ok().copied()));
        }
    }

    async fn batch(&mut self) -> SentBatch {
        soon(self.batches.recv()).await.expect("the batcher goes on")
    }

    /// The same without waiting for time to pass: it only lets the other tasks run.
    async fn batch_at_once(&mut self) -> SentBatch {
        for _ in 0..20 {
            if let Ok(batch) = self.batches.try_recv() {
                return batch;
            }
            tokio::task::yield_now().await;
        }
        panic!("it did not go at once");
    }

    fn nothing_goes(&mut self) {
        assert!(self.batches.try_recv().is_err(), "it went, and was to wait");
    }

    /// A command with these items goes at once, and is carried out.
    async fn carries_out(&mut self, items: &[u32]) {
        let batch = self.batch_at_once().await;
        assert_eq!(batch.items, items);
        batch.succeeds();
    }

    /// The next answers, ordered by their items.
    async fn told(&mut self, how_many: usize) -> Vec<(u32, Option<u32>)> {
        let mut told = Vec::new();
        for _ in 0..how_many {
            told.push(soon(self.told.recv()).await.expect("somebody can tell"));
        }
        told.sort_unstable();
        told
    }

    /// Answers one of the commands that occupy the slots.
    fn one_comes_back(&mut self) {
        self.fillers.pop().expect("there is one").succeeds();
    }

    /// Answers everything, then checks that the state is as at the start and that no task is left.
    async fn assert_is_idle(mut self) {
        while !self.fillers.is_empty() {
            self.one_comes_back();
        }
        self.runner.idle(self.now().after(LONG)).await;
        assert_eq!(self.runner.tasks(), 0);
        self.nothing_goes();
        let mut under_way = Vec::new();
        for _ in 0..UNDER_WAY_MAX {
            self.callers.push(self.start(4));
            under_way.push(self.batch_at_once().await);
        }
        assert!(under_way.iter().all(|batch| batch.items == [4]));
        self.callers.push(self.start(4));
        // Lets each task run once: a call that was due to go would have gone.
        tokio::task::yield_now().await;
        self.nothing_goes();
        drop(under_way);
    }
}

async fn soon<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(LONG, future).await.expect("it has to come")
}

async fn answered(under_way: Pending<u32>) -> Option<u32> {
    soon(under_way).await.ok()
}

async fn assert_answered(items: &[u32], calls: impl IntoIterator<Item = Pending<u32>>) {
    for (item, call) in iter::zip(items, calls) {
        assert_eq!(answered(call).await, answer_to(*item).ok(), "{item}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_lone_call_goes_at_once_and_alone() {
    let mut harness = Harness::new().await;
    for _ in 0..3 * UNDER_WAY_MAX {
        let deadline = harness.now().after(LONG);
        let call = harness.start_until(8, deadline);
        let batch = harness.batch_at_once().await;
        assert_eq!((&batch.items[..], batch.deadline), (&[8][..], deadline));
        batch.succeeds();
        assert_eq!(answered(call).await, Some(80));
        assert_eq!(harness.told(1).await, [(8, Some(80))]);
        harness.runner.idle(harness.now().after(LONG)).await;
    }
    harness.assert_is_idle().await;
}

#[tokio::test(start_paused = true)]
async fn queued_calls_share_a_batch_in_order_with_a_result_each() {
    let mut harness = Harness::full().await;
    let deadlines = [3, 9, 5].map(|more| harness.now().after(LONG * more));
    let items = [14, 11, 12];
    let calls: Vec<_> = iter::zip(items, deadlines)
        .map(|(item, deadline)| harness.start_until(item, deadline))
        .collect();
    harness.nothing_goes();
    harness.one_comes_back();
    let batch = harness.batch_at_once().await;
    // The command runs as long as one of its calls waits: until the later deadline.
    assert_eq!((&batch.items[..], batch.deadline), (&items[..], deadlines[1]));
    batch.succeeds();
    assert_answered(&items, calls).await;
    harness.assert_is_idle().await;
}

#[tokio::test(start_paused = true)]
async fn no_more_go_together_than_may() {
    let mut harness = Harness::full().await;
    let items: Vec<u32> = (1..).take(BATCH_MAX + 3).collect();
    let calls: Vec<_> = items.iter().map(|item| harness.start(*item)).collect();
    harness.one_comes_back();
    harness.carries_out(&items[..BATCH_MAX]).await;
    harness.carries_out(&items[BATCH_MAX..]).await;
    assert_answered(&items, calls).await;
    harness.assert_is_idle().await;
}

#[tokio::test(start_paused = true)]
async fn a_call_whose_time_is_over_sends_nothing_and_is_told_so() {
    let mut harness = Harness::new().await;
    let failure = soon(harness.start_until(6, harness.now())).await.unwrap_err();
    assert_eq!(failure.outcome, NOT_SENT.outcome);
    harness.nothing_goes();
    harness.assert_is_idle().await;
}

#[tokio::test(start_paused = true)]
async fn nobody_waits_for_a_command_that_takes_too_long() {
    let mut harness = Harness::full().await;
    let started = harness.now();
    let items = [12, 14];
    let waiting = items.map(|item| harness.start(item));
    let batch = harness.batch().await;
    assert_eq!(batch.items, items);
    let waited = harness.now().since(started);
    assert!(waited < PATIENCE * 20, "{waited:?}");
    batch.succeeds();
    assert_answered(&items, waiting).await;
    // The late commands are answered all the same, and free no second slot when they are.
    while !harness.fillers.is_empty() {
        harness.one_comes_back();
    }
    let mut told = harness.told(UNDER_WAY_MAX + 2).await;
    told.dedup();
    assert_eq!(told, [(2, Some(20)), (12, Some(120)), (14, Some(140))]);
    harness.assert_is_idle().await;
}

#[tokio::test(start_paused = true)]
async fn a_command_in_which_something_breaks_does_not_stop_the_line() {
    let mut harness = Harness::full().await;
    let broken = harness.start(PANIC);
    harness.one_comes_back();
    // It is unknown how much of it was carried out.
    let failure = soon(broken).await.unwrap_err();
    assert!(failure.outcome.maybe_applied);
    let next = harness.start(16);
    harness.carries_out(&[16]).await;
    assert_eq!(answered(next).await, Some(160));
    harness.assert_is_idle().await;
}

#[tokio::test(start_paused = true)]
async fn what_was_answered_is_told_when_the_caller_has_gone() {
    let mut harness = Harness::full().await;
    let (gone, kept) = (harness.start(18), harness.start(20));
    drop(harness.start_until(22, harness.now()));
    // It is withdrawn before it was sent.
    drop(harness.start(24));
    harness.one_comes_back();
    let batch = harness.batch_at_once().await;
    // Also for a caller that has gone: the cleanup that follows may need the result.
    assert_eq!(batch.items, [18, 20]);
    drop(gone);
    batch.succeeds();
    assert_eq!(answered(kept).await, Some(200));
    let wanted = [(2, Some(20)), (18, Some(180)), (20, Some(200)), (22, None), (24, None)];
    assert_eq!(harness.told(5).await, wanted);
    harness.assert_is_idle().await;
}
