//! Renewals that are applied and unconfirmed.

use std::time::Duration;

use mongo_lease_core::rules::holder::{HoldAction, HoldEvent, HoldOptions, Holder, Loss};
use mongo_lease_core::rules::timing::acknowledgement_time;

use super::holder::{Lost, ONCE, RENEW, RENEWS, Timer, assert_answers, failed, renewed, wake};
use super::{SECOND, at, timing};

/// The renewal that was sent at this second is applied, and no majority has it.
fn applied(sent: u64) -> HoldEvent {
    HoldEvent::Applied(at(sent))
}

fn granted(options: HoldOptions) -> Holder {
    Holder::granted(&timing(), options, at(0))
}

/// It is not sent again at 15 s, and the next one goes at its own time.
#[test]
fn an_applied_renewal_is_not_repeated() {
    let events = [
        (10, Timer, RENEW),
        (11, applied(10), wake(20)),
        (15, Timer, wake(20)),
        (18, renewed(10), wake(20)),
        (20, Timer, RENEW),
    ];
    assert_answers(granted(RENEWS), &events);
}

#[test]
fn an_applied_renewal_prolongs_nothing_before_it_is_confirmed() {
    let events = [(10, Timer, RENEW), (11, applied(10), wake(20)), (20, Timer, RENEW)];
    let holder = assert_answers(granted(RENEWS), &events);
    let end = at(0).after(timing().validity());
    assert_eq!(holder.valid_until(), end);
    assert!(!holder.is_valid(end));
    assert_answers(holder, &[(30, renewed(10), Lost(Loss::OutOfReach(at(10))))]);
}

/// A majority that is late by 15 s: two renewals wait for it at a time.
#[test]
fn renewals_that_wait_for_a_majority_overlap() {
    let events = [
        (10, Timer, RENEW),
        (11, applied(10), wake(20)),
        (20, Timer, RENEW),
        (21, applied(20), HoldAction::WakeAt(at(0).after(timing().validity()))),
        (25, renewed(10), wake(30)),
        (30, Timer, RENEW),
        (31, applied(30), HoldAction::WakeAt(at(10).after(timing().validity()))),
        (35, renewed(20), wake(40)),
    ];
    assert_answers(granted(RENEWS), &events);
}

#[test]
fn a_renewal_that_a_failover_undid_is_sent_again() {
    let events = [
        (10, Timer, RENEW),
        (11, applied(10), wake(20)),
        (14, failed(10, SECOND), wake(15)),
        (15, Timer, RENEW),
    ];
    assert_answers(granted(RENEWS), &events);
    // A newer one is under way: its own answer decides.
    let events = [
        (10, Timer, RENEW),
        (11, applied(10), wake(20)),
        (20, Timer, RENEW),
        (21, failed(10, SECOND), wake(25)),
        (22, applied(20), HoldAction::WakeAt(at(0).after(timing().validity()))),
        (23, failed(20, SECOND), wake(24)),
    ];
    assert_answers(granted(RENEWS), &events);
}

/// A promotion is renewed once for its whole ttl, also where automatic renewal is off.
#[test]
fn the_one_renewal_of_a_promotion_is_confirmed_late() {
    let promoted = || Holder::promoted(&timing(), ONCE, at(5), at(5), 10 * SECOND);
    let term = at(5).after(timing().validity_of(10 * SECOND));
    let events = [
        (6, Timer, RENEW),
        (7, applied(6), HoldAction::WakeAt(term)),
        (9, renewed(6), HoldAction::WakeAt(at(6).after(timing().validity()))),
    ];
    assert_answers(promoted(), &events);
    // After it there is nothing to do until the end of a term, however long that is.
    let long = Holder::promoted(&timing(), ONCE, at(5), at(5), 20 * SECOND);
    let term = HoldAction::WakeAt(at(5).after(timing().validity_of(20 * SECOND)));
    assert_answers(long, &[(6, Timer, RENEW), (7, applied(6), term)]);
    let undone = [events[0], events[1], (9, failed(6, SECOND), wake(10)), (10, Timer, RENEW)];
    assert_answers(promoted(), &undone);
}

#[test]
fn a_majority_has_less_time_than_a_lock() {
    for millis in [1, 2, 100, 250, 500, 1_750, 30_000] {
        let time = Duration::from_millis(millis);
        let acknowledged = acknowledgement_time(time, Duration::ZERO);
        assert!(acknowledged < time && acknowledged <= SECOND / 4, "{acknowledged:?} of {time:?}");
        assert!(acknowledged >= (time / 2).min(SECOND / 4), "{acknowledged:?} of {time:?}");
        // One that is late is not waited for.
        let late = acknowledgement_time(time, SECOND);
        assert!(late <= (time / 2).min(SECOND / 1_000), "{late:?} of {time:?}");
    }
}
