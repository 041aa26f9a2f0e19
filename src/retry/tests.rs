//! The attempt loop without a database: the test sends and answers the attempts.

use std::time::Duration;

use mongo_lease_core::rules::{Advice, MAYBE_APPLIED, Outcome, REFUSED};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

use super::{RetryPolicy, StartedAttempts, until_answered, until_one_is_answered};
use crate::clock::{Clock, MemoryClock};
use crate::failure::{Cause, Failure};
use crate::runner::{AttemptResult, Pending, PriorEffect, Stage};

const LONG: Duration = Duration::from_secs(30);
const SHORT: Duration = Duration::from_millis(20);

type Attempt = (oneshot::Sender<AttemptResult<u32>>, Stage);

/// Starts a call whose attempts come to the test, by the clock that the test has paused.
fn call(
    clock: &Clock,
    attempt_timeout: Duration,
    wait: Duration,
) -> (mpsc::UnboundedReceiver<Attempt>, JoinHandle<AttemptResult<(u32, PriorEffect)>>) {
    let (sender, attempts) = mpsc::unbounded_channel();
    let policy = RetryPolicy { attempt_timeout, deadline: clock.now().after(wait) };
    let clock = clock.clone();
    let call = async move {
        let start_attempt = |_| {
            let (answer, stage, pending) = Pending::pair();
            // At the end nobody listens any more.
            let _ = sender.send((answer, stage));
            pending
        };
        let answer = until_answered(&clock, policy, start_attempt, |_| false);
        answer.await.map(|answer| (answer.reply, answer.earlier))
    };
    (attempts, tokio::spawn(call))
}

fn paused() -> Clock {
    MemoryClock::new().into()
}

/// An attempt begins when its command is sent: what waits in this process is not repeated, however long it waits.
#[tokio::test(start_paused = true)]
async fn an_attempt_that_waits_in_this_process_is_not_repeated() {
    // A second one that was not sent cannot have been applied.
    for earlier in [PriorEffect::NotApplied, PriorEffect::Unanswered] {
        let clock = paused();
        let (mut attempts, call) = call(&clock, SHORT, LONG);
        let (answer, stage) = attempts.recv().await.unwrap();
        clock.sleep(SHORT * 10).await;
        assert!(attempts.try_recv().is_err(), "it was repeated before it was sent");
        assert!(stage.send(clock.now()));
        // From now on its time counts.
        let (_second, second_stage) = attempts.recv().await.unwrap();
        if earlier == PriorEffect::Unanswered {
            assert!(second_stage.send(clock.now()), "its caller still waits");
            drop(attempts.recv().await.unwrap());
        }
        assert!(answer.send(Ok(7)).is_ok());
        assert_eq!(call.await.unwrap().unwrap(), (7, earlier));
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_that_was_never_sent_has_changed_nothing() {
    let clock = paused();
    let (mut attempts, call) = call(&clock, SHORT, SHORT * 3);
    let failure = call.await.unwrap().unwrap_err();
    assert!(matches!(failure.cause, Cause::NotSent) && !failure.outcome.maybe_applied);
    assert!(crate::Error::from(failure).to_string().ends_with("it sent nothing"));
    let (_answer, stage) = attempts.recv().await.unwrap();
    assert!(stage.is_withdrawn() && !stage.send(clock.now()));
}

#[tokio::test(start_paused = true)]
async fn a_call_that_was_sent_may_have_been_applied() {
    let clock = paused();
    let (mut attempts, call) = call(&clock, LONG, SHORT * 3);
    let (_answer, stage) = attempts.recv().await.unwrap();
    assert!(stage.send(clock.now()));
    let failure: Failure = call.await.unwrap().unwrap_err();
    assert!(matches!(failure.cause, Cause::Deadline) && failure.outcome == MAYBE_APPLIED);
    assert!(!stage.is_withdrawn());
}

fn refused(outcome: Outcome) -> Failure {
    Failure { outcome, cause: Cause::Reply("as the test wants it".to_owned()) }
}

/// A later attempt shows nothing of an earlier one that may have been applied.
#[tokio::test(start_paused = true)]
async fn a_call_that_fails_may_have_been_applied_by_any_of_its_attempts() {
    let not_applied = Outcome { advice: Advice::Retry, maybe_applied: false };
    // The outcomes of its first attempts, where they are answered, and whether the last one is refused for good. It is
    // not answered otherwise, and was not sent.
    for (answers, is_refused, wanted) in [
        (vec![Some(not_applied)], true, false),
        (vec![Some(MAYBE_APPLIED)], true, true),
        (vec![None], true, true),
        (vec![Some(not_applied)], false, false),
        (vec![Some(MAYBE_APPLIED)], false, true),
        (vec![None], false, true),
        (vec![Some(MAYBE_APPLIED), Some(not_applied)], false, true),
        (vec![None, Some(not_applied)], false, true),
    ] {
        let clock = paused();
        let (mut attempts, call) = call(&clock, SHORT, LONG);
        let mut unanswered = Vec::new();
        for outcome in &answers {
            let (answer, stage) = attempts.recv().await.unwrap();
            assert!(stage.send(clock.now()));
            match outcome {
                Some(outcome) => assert!(answer.send(Err(refused(*outcome))).is_ok()),
                None => unanswered.push(answer),
            }
        }
        let (last, stage) = attempts.recv().await.unwrap();
        if is_refused {
            assert!(stage.send(clock.now()));
            assert!(last.send(Err(refused(REFUSED))).is_ok());
        }
        let failure = call.await.unwrap().unwrap_err();
        assert_eq!(failure.outcome.maybe_applied, wanted, "{answers:?} {is_refused}");
    }
}

/// Answers each in its turn, whose attempts come to the test, for a command that goes on in another form each time.
fn two_forms(clock: &Clock) -> (mpsc::UnboundedReceiver<Attempt>, JoinHandle<[u32; 2]>) {
    let (sender, attempts) = mpsc::unbounded_channel();
    let policy = RetryPolicy { attempt_timeout: SHORT, deadline: clock.now().after(LONG) };
    let clock = clock.clone();
    let call = async move {
        let (mut started, mut answers) = (StartedAttempts::new(), [0; 2]);
        for answer in &mut answers {
            let start_attempt = |_| {
                let (answer, stage, pending) = Pending::pair();
                // At the end nobody listens any more.
                let _ = sender.send((answer, stage));
                pending
            };
            let (clock, started) = (&clock, &mut started);
            let answering = until_one_is_answered(started, clock, policy, start_attempt, |_| false);
            *answer = answering.await.unwrap().reply;
        }
        answers
    };
    (attempts, tokio::spawn(call))
}

/// An answer may make its command go on in another form, while attempts in the first form are under way.
#[tokio::test(start_paused = true)]
async fn of_attempts_in_a_former_form_only_one_that_waits_for_a_majority_counts() {
    for is_applied in [true, false] {
        let clock = paused();
        let (mut attempts, call) = two_forms(&clock);
        let mut sent = async || {
            let (answer, stage): Attempt = attempts.recv().await.unwrap();
            assert!(stage.send(clock.now()));
            (answer, stage)
        };
        let ((first, _), (second, stage)) = (sent().await, sent().await);
        assert!(first.send(Ok(1)).is_ok());
        // The other form goes out at once.
        let (third, _) = sent().await;
        if is_applied {
            let _ = stage.note_applied();
            clock.sleep(SHORT * 10).await;
            assert!(attempts.try_recv().is_err(), "a fourth one was sent");
        }
        assert!(second.send(Ok(2)).is_ok());
        clock.sleep(SHORT / 2).await;
        assert_eq!(third.send(Ok(3)).is_err(), is_applied);
        assert_eq!(call.await.unwrap(), if is_applied { [1, 2] } else { [1, 3] });
    }
}
