//! Several waiting calls of one process with entries of their own: the first of them leads.

use std::time::Duration;

use mongo_lease_core::rules::waiter::{WaitAction, WaitEvent, WaitRefusal};

use super::waiter::{
    Acquire, LIFE, SECOND, Timer, assert_answers, at, refusal, timing, until, wake,
};

/// An attempt of one call of a process admits all who fit: the others need not send one as often.
#[test]
fn the_first_call_of_a_process_rechecks_for_all() {
    let next_at = |led_by, refusal: WaitRefusal| {
        let refusal = WaitRefusal { led_by, ..refusal };
        let next = until(100_000).on(&timing(), at(40), WaitEvent::Refused(refusal));
        let WaitAction::WakeAt(next_at) = next else {
            panic!("{next:?}");
        };
        next_at.since(at(40))
    };
    let behind = WaitRefusal { ahead: 16, ..refusal(39) };
    assert_eq!(next_at(0, behind), LIFE);
    assert_eq!(next_at(1, behind), 2 * 15 * SECOND);
    assert_eq!(next_at(15, behind), 16 * 15 * SECOND);
    // In each waiter ttl the first of sixteen calls sends one attempt, and the others less than two together.
    let attempts = (0..16).map(|led_by| LIFE.as_secs_f64() / next_at(led_by, behind).as_secs_f64());
    let attempts: f64 = attempts.sum();
    assert!((2.0..3.0).contains(&attempts), "{attempts}");
    // The first entry is served by the clock, and without a stream each call polls for itself.
    assert_eq!(next_at(3, refusal(39)), 15 * SECOND);
    let unnoticed = WaitRefusal { is_notified: false, ..behind };
    assert_eq!(next_at(3, unnoticed), next_at(0, unnoticed));
    let endless = WaitRefusal { recheck_every: Duration::MAX, ..behind };
    assert_eq!(next_at(u32::MAX, endless), at(100_000).since(at(40)));
}

#[test]
fn the_next_call_rechecks_a_waiter_ttl_after_it_leads() {
    let leads = WaitEvent::Leads(15 * SECOND);
    let led = WaitEvent::Refused(WaitRefusal { ahead: 5, led_by: 3, ..refusal(39) });
    let refused = (40, led, wake(100));
    assert_answers(until(500), &[refused, (60, leads, wake(70)), (70, Timer, Acquire)]);
    // It does not put off what is due sooner, and makes a call that sends its first attempt no slower.
    assert_answers(until(500), &[refused, (95, leads, wake(100))]);
    assert_answers(until(500), &[(40, leads, Acquire)]);
    assert_answers(until(500), &[refused, (60, WaitEvent::Leads(SECOND), wake(61))]);
}
