use mongo_lease_core::rules::attempts::{Accepted, Attempts, CleanupAction, Effect};
use mongo_lease_core::rules::time::Instant;

/// The grant of the first attempt.
const ANSWER: Accepted = Accepted::Answer(Instant::from_nanos(1));

#[test]
fn a_grant_that_the_caller_takes_is_not_given_back() {
    let mut attempts = Attempts::default();
    assert_eq!(attempts.start(), 1);
    assert_eq!(attempts.answered(Effect::MaybeGranted), CleanupAction::Nothing);
    assert!(attempts.accept(ANSWER));
    assert_eq!(
        attempts.abandon(),
        CleanupAction::Nothing,
        "the call has ended, and its lease has not"
    );
    assert_eq!(attempts.settle(), CleanupAction::Nothing);
}

#[test]
fn a_grant_after_the_caller_is_gone_is_given_back_once() {
    let mut attempts = Attempts::default();
    attempts.start();
    assert_eq!(attempts.abandon(), CleanupAction::Nothing);
    assert_eq!(attempts.answered(Effect::MaybeGranted), CleanupAction::GiveBack);
    assert_eq!(attempts.abandon(), CleanupAction::Nothing);
}

#[test]
fn a_grant_that_nobody_took_is_given_back_when_the_caller_goes() {
    let mut attempts = Attempts::default();
    attempts.start();
    assert_eq!(attempts.answered(Effect::MaybeGranted), CleanupAction::Nothing);
    assert_eq!(attempts.abandon(), CleanupAction::GiveBack);
    assert!(!attempts.accept(ANSWER));
}

#[test]
fn an_attempt_that_did_nothing_leaves_nothing_to_give_back() {
    let mut attempts = Attempts::default();
    attempts.start();
    assert_eq!(attempts.answered(Effect::Nothing), CleanupAction::Nothing);
    assert_eq!(attempts.abandon(), CleanupAction::Nothing);
}

#[test]
fn a_second_attempt_answered_after_the_release_is_given_back() {
    let mut attempts = Attempts::default();
    attempts.start();
    assert_eq!(attempts.start(), 2);
    assert_eq!(attempts.answered(Effect::MaybeGranted), CleanupAction::Nothing);
    assert!(attempts.accept(ANSWER));
    assert_eq!(attempts.settle(), CleanupAction::Nothing);
    assert_eq!(attempts.answered(Effect::MaybeGranted), CleanupAction::GiveBack);
}

#[test]
fn a_second_attempt_answered_while_held_is_given_back() {
    let mut attempts = Attempts::default();
    attempts.start();
    attempts.start();
    assert_eq!(attempts.answered(Effect::MaybeGranted), CleanupAction::Nothing);
    assert!(attempts.accept(ANSWER));
    // It may have been applied after the release, whose own reply is still on its way.
    assert_eq!(attempts.answered(Effect::MaybeGranted), CleanupAction::Nothing);
    assert_eq!(attempts.settle(), CleanupAction::GiveBack);
}

#[test]
fn a_second_attempt_answered_before_the_take_is_given_back() {
    let mut attempts = Attempts::default();
    attempts.start();
    attempts.start();
    assert_eq!(attempts.answered(Effect::MaybeGranted), CleanupAction::Nothing);
    assert_eq!(attempts.answered(Effect::MaybeGranted), CleanupAction::Nothing);
    assert!(attempts.accept(ANSWER));
    assert_eq!(attempts.settle(), CleanupAction::GiveBack);
}

#[test]
fn a_call_is_kept_only_while_more_than_one_grant_is_possible() {
    let mut attempts = Attempts::default();
    attempts.start();
    assert!(!attempts.has_one_grant_only(ANSWER), "it is not answered");
    assert_eq!(attempts.answered(Effect::MaybeGranted), CleanupAction::Nothing);
    assert!(attempts.has_one_grant_only(ANSWER));
    attempts.start();
    assert!(!attempts.has_one_grant_only(ANSWER), "another one is under way");
    assert_eq!(attempts.answered(Effect::Nothing), CleanupAction::Nothing);
    assert!(attempts.has_one_grant_only(ANSWER));
    attempts.start();
    assert_eq!(attempts.answered(Effect::MaybeGranted), CleanupAction::Nothing);
    assert!(!attempts.has_one_grant_only(ANSWER), "it may have granted anew");
}

/// An attempt that was sent at this moment has joined the queue.
fn joined(sent: u64) -> Effect {
    Effect::Joined(Instant::from_nanos(sent))
}

fn answer(sent: u64) -> Accepted {
    Accepted::Answer(Instant::from_nanos(sent))
}

fn promotion(sent: u64) -> Accepted {
    Accepted::Promotion(Instant::from_nanos(sent))
}

/// A call whose attempts were answered like this, in this order.
fn answered(effects: &[Effect]) -> Attempts {
    let mut attempts = Attempts::default();
    for &effect in effects {
        attempts.start();
        assert_eq!(attempts.answered(effect), CleanupAction::Nothing);
    }
    attempts
}

#[test]
fn who_goes_leaves_the_line_in_which_it_stands() {
    let mut attempts = answered(&[joined(1)]);
    assert_eq!(attempts.abandon(), CleanupAction::LeaveQueue);
    assert_eq!(attempts.abandon(), CleanupAction::Nothing, "once");
    assert!(!attempts.accept(promotion(1)), "there is nobody to take it");
    // A possible grant is given back, and this also leaves the queue.
    for effects in [[joined(1), Effect::MaybeGranted], [Effect::MaybeGranted, joined(1)]] {
        let mut attempts = answered(&effects);
        assert_eq!(attempts.abandon(), CleanupAction::GiveBack);
        assert_eq!(attempts.abandon(), CleanupAction::Nothing);
    }
}

#[test]
fn an_attempt_that_joins_after_the_end_is_taken_out_again() {
    let mut attempts = answered(&[joined(1)]);
    let _ = (attempts.start(), attempts.start(), attempts.start());
    assert_eq!(attempts.abandon(), CleanupAction::LeaveQueue);
    assert_eq!(attempts.answered(joined(2)), CleanupAction::LeaveQueue);
    assert_eq!(attempts.answered(Effect::Nothing), CleanupAction::Nothing);
    assert_eq!(attempts.answered(Effect::MaybeGranted), CleanupAction::GiveBack);
    // After a release the same holds as after giving up.
    let mut attempts = answered(&[Effect::MaybeGranted]);
    let _ = (attempts.start(), attempts.start());
    assert!(attempts.accept(answer(1)));
    assert_eq!(attempts.settle(), CleanupAction::Nothing);
    assert_eq!(attempts.answered(joined(2)), CleanupAction::LeaveQueue);
    assert_eq!(attempts.answered(Effect::MaybeGranted), CleanupAction::GiveBack);
}

#[test]
fn a_grant_takes_its_call_out_of_the_line() {
    for taken in [answer(5), promotion(5)] {
        for (sent, at_the_end) in [
            (1, CleanupAction::Nothing),
            (5, CleanupAction::Nothing),
            (6, CleanupAction::LeaveQueue),
        ] {
            let mut attempts = match taken {
                Accepted::Answer(_) => answered(&[joined(sent), Effect::MaybeGranted]),
                Accepted::Promotion(_) => answered(&[joined(sent)]),
            };
            assert!(attempts.accept(taken));
            assert_eq!(attempts.abandon(), CleanupAction::Nothing, "the lease goes on");
            assert_eq!(attempts.settle(), at_the_end, "{taken:?} {sent}");
        }
    }
}

#[test]
fn an_attempt_that_joins_while_held_leaves_the_queue_at_the_end() {
    for sent in [1, 5, 6] {
        let mut attempts = answered(&[joined(1)]);
        attempts.start();
        assert!(attempts.accept(promotion(5)));
        // The order of the answers says nothing of the order on the server.
        assert_eq!(attempts.answered(joined(sent)), CleanupAction::Nothing);
        assert_eq!(attempts.settle(), CleanupAction::LeaveQueue, "{sent}");
        assert_eq!(attempts.settle(), CleanupAction::Nothing, "{sent}");
    }
}

#[test]
fn a_promotion_hands_over_no_answer() {
    // The attempt in between may have found the promotion, or have been granted again after its end.
    let mut attempts = answered(&[joined(1), Effect::MaybeGranted]);
    assert!(!attempts.has_one_grant_only(promotion(1)));
    assert!(attempts.has_one_grant_only(answer(1)));
    assert!(attempts.accept(promotion(1)));
    assert_eq!(attempts.settle(), CleanupAction::GiveBack);
}

#[test]
fn a_queue_entry_is_inheritable_only_without_a_possible_grant() {
    let in_line_only = |effects: &[Effect]| answered(effects).is_queued_only();
    assert!(!in_line_only(&[]));
    assert!(!in_line_only(&[Effect::Nothing]));
    assert!(!in_line_only(&[Effect::MaybeGranted]));
    assert!(!in_line_only(&[joined(1), Effect::MaybeGranted]));
    assert!(in_line_only(&[joined(1)]));
    assert!(in_line_only(&[joined(1), Effect::Nothing, joined(2)]));

    let mut attempts = answered(&[joined(1)]);
    attempts.start();
    assert!(!attempts.is_queued_only(), "another one is under way");
    assert_eq!(attempts.answered(joined(2)), CleanupAction::Nothing);
    assert!(attempts.is_queued_only());
    let mut taken = attempts.clone();
    assert!(taken.accept(promotion(2)));
    assert!(!taken.is_queued_only(), "it holds");
    assert_eq!(attempts.abandon(), CleanupAction::LeaveQueue);
    assert!(!attempts.is_queued_only(), "it has left");
}

#[test]
fn who_was_succeeded_leaves_nothing_behind() {
    let mut attempts = answered(&[joined(1)]);
    assert_eq!(attempts.succeeded(), CleanupAction::Nothing, "the place is another's");
    assert_eq!(attempts.abandon(), CleanupAction::Nothing);
    assert!(!attempts.accept(promotion(1)), "and so is what it was promoted to");
    // The call still cleans up after its own later attempts.
    let mut attempts = answered(&[joined(1)]);
    let _ = (attempts.start(), attempts.start());
    assert_eq!(attempts.succeeded(), CleanupAction::Nothing);
    assert_eq!(attempts.answered(joined(2)), CleanupAction::LeaveQueue);
    assert_eq!(attempts.answered(Effect::MaybeGranted), CleanupAction::GiveBack);
    let mut attempts = answered(&[joined(1), Effect::MaybeGranted]);
    assert_eq!(attempts.succeeded(), CleanupAction::GiveBack);
}

#[test]
fn a_joined_call_is_kept_only_if_it_joined_after_its_grant() {
    for (effects, taken, wanted) in [
        (vec![joined(1)], promotion(1), true),
        (vec![joined(1)], promotion(5), true),
        (vec![joined(1), joined(2)], promotion(1), false),
        (vec![joined(2), joined(1)], promotion(2), true),
        (vec![joined(1), Effect::MaybeGranted], answer(2), true),
        (vec![joined(3), Effect::MaybeGranted], answer(2), false),
        (vec![joined(1), Effect::MaybeGranted, Effect::MaybeGranted], answer(2), false),
        (vec![], promotion(1), true),
    ] {
        let mut attempts = answered(&effects);
        assert_eq!(attempts.has_one_grant_only(taken), wanted, "{effects:?} {taken:?}");
        assert!(attempts.accept(taken));
        assert_eq!(attempts.settle() == CleanupAction::Nothing, wanted, "{effects:?} {taken:?}");
        attempts.start();
        assert!(!attempts.has_one_grant_only(taken), "one is under way");
    }
}
