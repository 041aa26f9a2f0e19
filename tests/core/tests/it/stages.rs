//! All orders of the steps of a caller, which may withdraw an attempt, and of the tasks that send it.

use loom::sync::atomic;
use loom::thread;
use mongo_lease_core::rules::Instant;

use stage::Stage;

#[path = "../../../../src/runner/stage.rs"]
mod stage;

const FIRST: Instant = Instant::from_micros(5);
const AGAIN: Instant = Instant::from_micros(9);

/// An attempt is sent alone, and with others: by two tasks.
#[test]
fn an_attempt_is_sent_or_withdrawn() {
    loom::model(|| {
        let stage = Stage::default();
        let send = |at| {
            let stage = stage.clone();
            thread::spawn(move || stage.send(at))
        };
        let tasks = [send(FIRST), send(AGAIN)];
        let was_sent = stage.was_sent_or_withdraw();
        let [one, other] = tasks.map(|task| task.join().unwrap());
        assert_eq!((one, other), (was_sent, was_sent));
        assert_eq!((stage.sent_at().is_some(), stage.is_withdrawn()), (was_sent, !was_sent));
    });
}

/// It counts from its first sending, also where it is sent again and is applied meanwhile.
#[test]
fn an_attempt_that_is_applied_keeps_its_time() {
    loom::model(|| {
        let stage = Stage::default();
        let task = {
            let stage = stage.clone();
            thread::spawn(move || {
                let is_sent = stage.send(FIRST);
                if is_sent {
                    assert_eq!(stage.note_applied(), FIRST);
                    assert!(stage.send(AGAIN));
                }
                is_sent
            })
        };
        // An attempt that is applied was sent.
        let was_applied = stage.is_applied();
        stage.withdraw();
        let seen = stage.sent_at();
        assert!(seen.is_none_or(|at| at == FIRST));
        assert!(seen.is_some() || !was_applied);
        let is_sent = task.join().unwrap();
        assert_eq!(seen.is_some(), is_sent);
        assert_eq!((stage.is_applied(), stage.sent_at().is_some()), (is_sent, is_sent));
    });
}

/// A decision in two steps is found: each owner may decide before the other one has.
#[test]
#[should_panic(expected = "sent and withdrawn")]
fn a_decision_in_two_steps_is_found() {
    loom::model(|| {
        let stage = std::sync::Arc::new(atomic::AtomicU64::new(0));
        let decide = |stage: &atomic::AtomicU64, choice| {
            let is_free = stage.load(atomic::Ordering::Acquire) == 0;
            if is_free {
                stage.store(choice, atomic::Ordering::Release);
            }
            is_free
        };
        let task = {
            let stage = std::sync::Arc::clone(&stage);
            thread::spawn(move || decide(&stage, 1))
        };
        let is_withdrawn = decide(&stage, 2);
        assert!(!(task.join().unwrap() && is_withdrawn), "sent and withdrawn");
    });
}
