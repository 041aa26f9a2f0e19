//! Failures and late answers, as the runner takes them.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use mongo_lease_core::commands::probe::{Hello, Ping};
use mongo_lease_core::commands::{Heartbeat, SharedSnapshot, StreamEvent, Unconfirmed};
use mongo_lease_core::rules::{Instant, Lane, NOT_APPLIED};
use mongo_lease_memory::CommandKind;
use mongodb::Client;
use mongodb::bson::{Timestamp, doc};

use super::attempt::ServerTimes;
use super::{AttemptResult, AttemptTime, Backend, Pace, PriorEffect, Runner, Stage};
use crate::clock::Clock;
use crate::failure::{Failure, NOT_SENT, UNANSWERED, command_error, driver_failure, not_confirmed};
use crate::lock::Lock;
use crate::memory::simulated::{BoxedTask, SentCommand, SimulatedAnswer, SimulatedProcess};
use crate::memory::{MemoryFault, MemoryStore};

const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3_600);

/// A process whose commands get the planned answers after the planned times, and further ones a reply at once.
struct Planned {
    clock: Clock,
    answers: Lock<VecDeque<(Duration, SimulatedAnswer)>>,
    /// When each command was sent, and whether its time for a majority ends before the rest of its time.
    sent: Lock<Vec<(Instant, bool)>>,
    tasks: AtomicUsize,
}

impl SimulatedProcess for Planned {
    fn drift(&self) -> i32 {
        0
    }

    fn run(&self, task: BoxedTask) -> BoxedTask {
        self.tasks.fetch_add(1, Ordering::Relaxed);
        task
    }

    fn send(&self, mut command: Box<dyn SentCommand>) {
        let is_apart = command.acknowledged_within() < command.time_limit();
        self.sent.lock().push((self.clock.now(), is_apart));
        let planned = self.answers.lock().pop_front();
        let (after, answer) = planned.unwrap_or((Duration::ZERO, SimulatedAnswer::Reply));
        let clock = self.clock.clone();
        tokio::spawn(async move {
            clock.sleep(after).await;
            command.carry_out();
            command.answer(answer);
        });
    }

    fn hear(&self) -> Pin<Box<dyn Future<Output = bool> + Send>> {
        Box::pin(std::future::pending())
    }

    fn change(&self, _event: &mut StreamEvent) {}
}

impl Planned {
    /// A runner whose commands get these answers.
    fn runner(answers: &[(Duration, SimulatedAnswer)]) -> (Arc<Planned>, Runner) {
        let store = MemoryStore::simulated(0, 1);
        let process = Arc::new(Planned {
            clock: store.clock().clone().into(),
            answers: Lock::new(answers.iter().copied().collect()),
            sent: Lock::default(),
            tasks: AtomicUsize::default(),
        });
        let client = store.client_of(process.clone());
        (process, runner(&client))
    }

    /// How long after its beginning each command was sent.
    fn sent_after(&self, begin: Instant) -> Vec<Duration> {
        self.sent.lock().iter().map(|(sent, _)| sent.since(begin)).collect()
    }
}

fn runner(store: &MemoryStore) -> Runner {
    Runner::new(Backend::Memory(store.clone()), "locks", 9).expect("a runtime")
}

fn unconfirmed() -> Unconfirmed {
    Unconfirmed { at: Timestamp { time: 1, increment: 1 }, message: "late".to_owned() }
}

/// Waits until a majority has a write, or for a minute. Returns how long that took, too.
async fn shown(runner: &Runner) -> (AttemptResult<Vec<SharedSnapshot>>, Duration) {
    let begin = runner.clock().now();
    let deadline = begin.after(60 * SECOND);
    let shown = runner.shown(Vec::new(), unconfirmed(), begin, deadline).await;
    (shown, runner.clock().now().since(begin))
}

/// A read of two seconds that a server has cut off early, and one that failed, would be repeated without a pause.
#[tokio::test(start_paused = true)]
async fn a_read_that_failed_is_repeated_at_once_only_if_it_was_cut_off_near_its_end() {
    use SimulatedAnswer::{ConnectionBroke, CutOff, NoPrimary};
    for (after_ms, answer, is_at_once) in [
        (1_500, CutOff, true),
        (1_000, CutOff, false),
        (0, CutOff, false),
        (1_500, NoPrimary, false),
        (0, ConnectionBroke, false),
    ] {
        let after = Duration::from_millis(after_ms);
        let (process, runner) = Planned::runner(&[(after, answer)]);
        let begin = runner.clock().now();
        let (found, took) = shown(&runner).await;
        assert!(found.is_ok(), "{found:?}");
        assert_eq!(process.sent_after(begin), [Duration::ZERO, took]);
        assert_eq!(took == after, is_at_once, "{answer:?} after {after:?}: {took:?}");
        assert!(took <= after + SECOND && process.tasks.load(Ordering::Relaxed) > 0);
    }
}

/// Each read that is not answered occupies a slot.
#[tokio::test(start_paused = true)]
async fn two_reads_at_most_are_left_without_an_answer_and_a_late_one_counts() {
    let never = (HOUR, SimulatedAnswer::Reply);
    // The answers of the first two, in seconds, and when each read is sent.
    for (first, sent) in [(HOUR, vec![0, 2, 12]), (5 * SECOND, vec![0, 2])] {
        let (process, runner) = Planned::runner(&[(first, SimulatedAnswer::Reply), never]);
        let begin = runner.clock().now();
        let (found, took) = shown(&runner).await;
        assert!(found.is_ok(), "{found:?}");
        assert_eq!(took, first.min(12 * SECOND));
        let sent: Vec<_> = sent.into_iter().map(Duration::from_secs).collect();
        assert_eq!(process.sent_after(begin), sent);
    }
}

#[tokio::test(start_paused = true)]
async fn nobody_waits_for_a_read_that_cannot_be_sent_any_more() {
    let (process, runner) = Planned::runner(&[]);
    runner.close();
    let (found, took) = shown(&runner).await;
    assert!(found.is_err_and(|failure| failure.is_cut_off()));
    assert_eq!((took, process.sent.lock().len()), (Duration::ZERO, 0));
}

/// Where none can, the command has to wait for the majority itself.
#[tokio::test(start_paused = true)]
async fn a_command_leaves_its_majority_to_a_read_where_one_can_show_its_write() {
    let (process, runner) = Planned::runner(&[]);
    let deadline = runner.clock().now().after(SECOND);
    let slot = runner.slot(Lane::Critical, false, deadline).await.expect("it is free");
    let beat = Heartbeat { entries: Vec::new(), waiter_ttl: SECOND };
    let limits = || AttemptTime::from(deadline).into();
    for has_majority_reads in [true, false] {
        runner.shared.has_no_majority_reads.store(!has_majority_reads, Ordering::Relaxed);
        let _ = slot.apply(&beat, limits()).await.expect("a reply");
        let _ = slot.apply(&Ping, limits()).await.expect("a reply");
        let apart: Vec<bool> =
            process.sent.lock().drain(..).map(|(_, is_apart)| is_apart).collect();
        assert_eq!(apart, [has_majority_reads, false]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_query_is_repeated_until_it_is_answered_or_refused_or_its_time_is_over() {
    use MemoryFault::{NoPrimary, Refused};
    // The faults that it meets, how many of them are left, and whether it is answered.
    for (faults, left, is_answered) in [
        (vec![NoPrimary, NoPrimary], Some(0), true),
        (vec![Refused, Refused], Some(1), false),
        (vec![NoPrimary; 1_000], None, false),
    ] {
        let store = MemoryStore::new();
        for fault in &faults {
            store.fail_next(CommandKind::Read, *fault);
        }
        let runner = runner(&store);
        let deadline = runner.clock().now().after(SECOND);
        let slot = runner.slot(Lane::Critical, false, deadline).await.expect("it is free");
        let answer = slot.run_until_answered(&Hello, deadline.into()).await;
        assert_eq!(answer.is_ok(), is_answered, "{faults:?}");
        assert!(slot.clock().now() < deadline);
        assert!(left.is_none_or(|left| store.faults_left() == left), "{faults:?}");
    }
}

/// So its caller can tell a runtime that nobody drives.
#[tokio::test(start_paused = true)]
async fn an_attempt_is_driven_once_its_task_has_run() {
    let runner = runner(&MemoryStore::new());
    assert_eq!(runner.database_name(), "memory");
    let deadline = runner.clock().now().after(SECOND);
    let attempt = runner.start(Ping, AttemptTime::from(deadline), |_, _| ());
    assert!(attempt.is_not_driven());
    runner.clock().sleep(SECOND).await;
    assert!(!attempt.is_not_driven());
}

#[test]
fn an_attempt_that_was_sent_is_not_withdrawn_whenever_that_was() {
    let (first, last) = (Instant::from_nanos(1), Instant::from_nanos(u64::MAX / 2 - 1));
    let usual = Instant::from_micros(7);
    for (sent, noted) in [(Instant::START, first), (usual, usual), (Instant::FAR_FUTURE, last)] {
        let stage = Stage::default();
        assert!(stage.send(sent) && stage.was_sent_or_withdraw());
        assert!(!stage.is_withdrawn() && !stage.is_applied());
        assert_eq!(stage.sent_at(), Some(noted));
        assert_eq!(stage.note_applied(), noted);
        assert!(!stage.is_withdrawn() && stage.is_applied());
    }
}

#[test]
fn a_command_that_the_server_cut_off_does_nothing_more_and_the_next_one_has_more_time() {
    let command = |code| driver_failure(command_error(code, ""));
    for (failure, effect, is_longer) in [
        (command(50), PriorEffect::CutOff, true),
        (not_confirmed(unconfirmed()), PriorEffect::CutOff, true),
        (UNANSWERED, PriorEffect::Unanswered, false),
        (command(13), PriorEffect::NotApplied, false),
        (NOT_SENT, PriorEffect::NotApplied, false),
    ] {
        assert_eq!(PriorEffect::of(&failure), effect, "{failure:?}");
        let pace = Pace::default();
        let (before, sent) = (pace.bound(false), Instant::START.after(SECOND));
        let answer: Result<(), Failure> = Err(failure);
        pace.answered(sent.after(SECOND), sent, &answer);
        assert_eq!(pace.bound(false), before * if is_longer { 2 } else { 1 }, "{answer:?}");
    }
}

#[test]
fn a_command_tells_the_server_its_times() {
    let (write, read) = (doc! { "writeConcern": { "w": "majority" } }, doc! { "find": "locks" });
    let apart = doc! { "writeConcern": { "w": "majority", "wtimeout": 3_i64 }, "maxTimeMS": 7_i64 };
    let mut together = write.clone();
    together.insert("maxTimeMS", 7_i64);
    let reads = doc! { "find": "locks", "maxTimeMS": 7_i64 };
    for (acknowledged_ms, command, wanted) in
        [(Some(3), &write, apart), (None, &write, together), (Some(3), &read, reads)]
    {
        let mut command = command.clone();
        ServerTimes { max_ms: 7, acknowledged_ms }.insert_into(&mut command);
        assert_eq!(command, wanted);
    }
}

#[tokio::test]
async fn without_a_server_nothing_was_written() {
    let nobody = "mongodb://127.0.0.1:1/?serverSelectionTimeoutMS=0";
    let database = Client::with_uri_str(nobody).await.expect("a client").database("app");
    let failure = driver_failure(database.run_command(doc! { "ping": 1 }).await.unwrap_err());
    assert!(failure.is_out_of_reach(), "{failure:?}");
    assert_eq!(failure.outcome, NOT_APPLIED);
}
