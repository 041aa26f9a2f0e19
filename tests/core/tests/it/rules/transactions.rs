//! A transaction under the lease holds the lease's own renewals back.

use mongo_lease_core::rules::Instant;
use mongo_lease_core::rules::holder::{HoldAction, HoldEvent, Holder, Loss};

use super::holder::{
    Guarded, Lost, NotOurs, ONCE, RENEW, RENEWS, Timer, assert_answers, end_of, failed, renewed,
    wake,
};
use super::{SECOND, at, timing};

use HoldEvent::{TransactionBegun, TransactionEnded};

fn granted() -> Holder {
    Holder::granted(&timing(), RENEWS, at(0))
}

/// When a third is left of the validity that was confirmed at this second.
fn last_third(sent: u64) -> Instant {
    at(sent).after(timing().validity()).before(timing().validity() / 3)
}

#[test]
fn renewals_wait_for_a_transaction_until_a_third_is_left() {
    let held_back = HoldAction::WakeAt(last_third(0));
    let events = [(1, TransactionBegun, held_back), (10, Timer, held_back)];
    let mut holder = assert_answers(granted(), &events);
    // 19.8 s, and a renewal may be sent a little sooner, beside others.
    assert_eq!(holder.on(&timing(), last_third(0), Timer), RENEW);
    // Once it is confirmed, the next one waits as long.
    let next = HoldAction::WakeAt(last_third(20));
    assert_eq!(holder.on(&timing(), at(21), renewed(20)), next);
}

#[test]
fn at_the_end_of_the_last_transaction_what_is_due_is_sent() {
    let held_back = HoldAction::WakeAt(last_third(0));
    let events = [
        (1, TransactionBegun, held_back),
        (2, TransactionBegun, held_back),
        (11, TransactionEnded, held_back),
        (12, TransactionEnded, wake(10)),
        (12, Timer, RENEW),
    ];
    assert_answers(granted(), &events);
}

/// The guard is a renewal, once its transaction is committed.
#[test]
fn a_commit_puts_the_next_renewal_off() {
    let held_back = HoldAction::WakeAt(last_third(0));
    let events = [
        (1, TransactionBegun, held_back),
        (9, Guarded, held_back),
        (9, renewed(9), HoldAction::WakeAt(last_third(9))),
        (9, TransactionEnded, wake(19)),
        (19, Timer, RENEW),
    ];
    assert_answers(granted(), &events);
}

#[test]
fn a_failed_renewal_is_held_back_as_well() {
    let held_back = HoldAction::WakeAt(last_third(0));
    let events = [
        (10, Timer, RENEW),
        (11, TransactionBegun, held_back),
        (12, failed(10, SECOND), held_back),
        (15, Timer, held_back),
        (20, Timer, RENEW),
        (30, Timer, Lost(Loss::OutOfReach(at(10)))),
    ];
    assert_answers(granted(), &events);
}

#[test]
fn a_transaction_waits_for_a_renewal_until_its_deadline() {
    let mut holder = granted();
    assert_eq!(holder.renewal_under_way(&timing()), None);
    assert_eq!(holder.on(&timing(), at(10), Timer), RENEW);
    let deadline = at(10).after(timing().attempt_timeout);
    assert_eq!(holder.renewal_under_way(&timing()), Some(deadline));
    assert_eq!(holder.on(&timing(), at(11), renewed(10)), wake(20));
    assert_eq!(holder.renewal_under_way(&timing()), None);
    // It does not wait for the renewal of a lease that is lost.
    assert_eq!(holder.on(&timing(), at(20), Timer), RENEW);
    assert_eq!(holder.on(&timing(), at(21), NotOurs), Lost(Loss::NotOurs));
    assert_eq!(holder.renewal_under_way(&timing()), None);
}

#[test]
fn without_renewals_a_transaction_holds_nothing_back() {
    let events = [(1, TransactionBegun, end_of(0)), (2, TransactionEnded, end_of(0))];
    let holder = assert_answers(Holder::granted(&timing(), ONCE, at(0)), &events);
    assert_eq!(holder.renewal_under_way(&timing()), None);
}

/// Its first renewal makes it whole, and little is left until then.
#[test]
fn the_first_renewal_of_a_promoted_lease_is_not_held_back() {
    let mut holder = Holder::promoted(&timing(), RENEWS, at(5), at(0), 10 * SECOND);
    let HoldAction::WakeAt(due) = holder.on(&timing(), at(5), TransactionBegun) else {
        panic!("it is held");
    };
    assert!(due < at(6), "{due:?}");
    assert_eq!(holder.on(&timing(), due, Timer), RENEW);
}
