use crate::rules::attempts::{Attempts, Effect, Next, Taken};
use crate::rules::time::Instant;

/// What the first attempt was answered.
const ANSWER: Taken = Taken::Answer { sent: Instant::from_nanos(1) };

#[test]
fn a_grant_that_the_caller_takes_is_not_given_back() {
    let mut attempts = Attempts::new();
    assert_eq!(attempts.start(), 1);
    assert_eq!(attempts.answered(Effect::MaybeGranted), Next::Nothing);
    assert!(attempts.take(ANSWER));
    assert_eq!(attempts.abandon(), Next::Nothing, "the call has ended, and its lease has not");
    assert_eq!(attempts.settle(), Next::Nothing);
}

#[test]
fn a_grant_that_comes_after_the_caller_has_gone_is_given_back_once() {
    let mut attempts = Attempts::new();
    attempts.start();
    assert_eq!(attempts.abandon(), Next::Nothing);
    assert_eq!(attempts.answered(Effect::MaybeGranted), Next::GiveBack);
    assert_eq!(attempts.abandon(), Next::Nothing);
}

#[test]
fn a_grant_that_nobody_took_is_given_back_when_the_caller_goes() {
    let mut attempts = Attempts::new();
    attempts.start();
    assert_eq!(attempts.answered(Effect::MaybeGranted), Next::Nothing);
    assert_eq!(attempts.abandon(), Next::GiveBack);
    assert!(!attempts.take(ANSWER));
}

#[test]
fn an_attempt_that_did_nothing_leaves_nothing_to_give_back() {
    let mut attempts = Attempts::new();
    attempts.start();
    assert_eq!(attempts.answered(Effect::Nothing), Next::Nothing);
    assert_eq!(attempts.abandon(), Next::Nothing);
}

#[test]
fn a_second_attempt_that_is_answered_after_the_release_is_given_back() {
    let mut attempts = Attempts::new();
    attempts.start();
    assert_eq!(attempts.start(), 2);
    assert_eq!(attempts.answered(Effect::MaybeGranted), Next::Nothing);
    assert!(attempts.take(ANSWER));
    assert_eq!(attempts.settle(), Next::Nothing);
    assert_eq!(attempts.answered(Effect::MaybeGranted), Next::GiveBack);
}

#[test]
fn a_second_attempt_that_was_answered_while_the_caller_held_is_given_back_at_the_end() {
    let mut attempts = Attempts::new();
    attempts.start();
    attempts.start();
    assert_eq!(attempts.answered(Effect::MaybeGranted), Next::Nothing);
    assert!(attempts.take(ANSWER));
    // It may have come behind the release, whose own reply is still on its way.
    assert_eq!(attempts.answered(Effect::MaybeGranted), Next::Nothing);
    assert_eq!(attempts.settle(), Next::GiveBack);
}

#[test]
fn a_second_attempt_that_was_answered_before_the_caller_took_the_first_is_given_back_at_the_end() {
    let mut attempts = Attempts::new();
    attempts.start();
    attempts.start();
    assert_eq!(attempts.answered(Effect::MaybeGranted), Next::Nothing);
    assert_eq!(attempts.answered(Effect::MaybeGranted), Next::Nothing);
    assert!(attempts.take(ANSWER));
    assert_eq!(attempts.settle(), Next::GiveBack);
}

#[test]
fn a_call_is_remembered_only_when_more_may_come_of_it_than_one_grant() {
    let mut attempts = Attempts::new();
    attempts.start();
    assert!(!attempts.has_one_grant_only(ANSWER), "it is not answered");
    assert_eq!(attempts.answered(Effect::MaybeGranted), Next::Nothing);
    assert!(attempts.has_one_grant_only(ANSWER));
    attempts.start();
    assert!(!attempts.has_one_grant_only(ANSWER), "another one is under way");
    assert_eq!(attempts.answered(Effect::Nothing), Next::Nothing);
    assert!(attempts.has_one_grant_only(ANSWER));
    attempts.start();
    assert_eq!(attempts.answered(Effect::MaybeGranted), Next::Nothing);
    assert!(!attempts.has_one_grant_only(ANSWER), "it may have granted anew");
}
