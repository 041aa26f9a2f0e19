//! Which promotions a waiter accepts, and for how long.

use std::time::Duration;

use mongo_lease_core::rules::time::Instant;
use mongo_lease_core::rules::timing::{TTL_MAX, Timing};
use mongo_lease_core::rules::waiter::{WaitAction, WaitEvent, WaitRefusal, Waiter};

use super::waiter::{
    LIFE, NANO, SECOND, TAKEN, at, millis, promoted, promotion, refusal, refused, timing, until,
};

#[test]
fn a_promotion_is_taken_unless_older_than_the_newest_refusal() {
    let after = |events: &[(u64, WaitEvent)], sent| {
        let mut waiter = until(100);
        for &(second, event) in events {
            let _ = waiter.on(&timing(), at(second), event);
        }
        waiter.on(&timing(), at(44), promotion(sent))
    };
    // A waiter that was never refused does not know the server's time.
    assert_eq!(after(&[], at(40)), WaitAction::Acquire);
    let once = [(41, refused(40))];
    assert_eq!(after(&once, at(40)), TAKEN, "the refused attempt's own echo");
    assert_eq!(after(&once, at(40).after(NANO)), TAKEN, "a later heartbeat's");
    assert_eq!(after(&once, at(40).before(NANO)), WaitAction::Acquire, "overtaken");
    // Answers may arrive in any order.
    let crossed = [(41, refused(40)), (42, refused(39))];
    assert_eq!(after(&crossed, at(39)), WaitAction::Acquire);
    assert_eq!(after(&crossed, at(40)), TAKEN);
}

#[test]
fn a_promotion_is_taken_while_a_third_of_its_term_is_left() {
    // The ttl, the waiter ttl, and how long after its echo a promotion may be accepted.
    let third = |term: Duration, margin| term - term / 3 - margin;
    let table = [
        (30 * SECOND, LIFE, third(LIFE, millis(100))),
        (5 * SECOND, LIFE, third(5 * SECOND, millis(50))),
        (10 * SECOND, LIFE, third(LIFE, millis(100))),
        (millis(100), LIFE, third(millis(100), millis(2))),
        (30 * SECOND, millis(500), third(millis(500), millis(5))),
    ];
    for (ttl, waiter_ttl, longest) in table {
        let timing = Timing::new(ttl, SECOND, None).unwrap();
        let promoted_at = |now| {
            let mut waiter = Waiter::new(at(100), waiter_ttl);
            let _ = waiter.on(&timing, at(40), refused(40));
            waiter.on(&timing, now, promoted(40))
        };
        let taken = WaitAction::TakePromotion(ttl.min(waiter_ttl));
        let last = at(40).after(longest);
        assert_eq!(promoted_at(at(40)), taken, "{ttl:?} {waiter_ttl:?}");
        assert_eq!(promoted_at(last), taken, "{ttl:?} {waiter_ttl:?}");
        assert_eq!(promoted_at(last.after(NANO)), WaitAction::Acquire, "{ttl:?} {waiter_ttl:?}");
        assert_eq!(promoted_at(at(99)), WaitAction::Acquire, "{ttl:?} {waiter_ttl:?}");
    }
}

/// The margin covers the clock's drift during the term, not during the ttl.
#[test]
fn a_promotion_is_taken_however_long_the_ttl_is() {
    for ttl in [300 * SECOND, 1_800 * SECOND, 3_600 * SECOND, TTL_MAX] {
        let timing = Timing::new(ttl, SECOND, None).unwrap();
        let mut waiter = until(100);
        let _ = waiter.on(&timing, at(41), refused(40));
        assert_eq!(waiter.on(&timing, at(43), promoted(40)), TAKEN, "{ttl:?}");
    }
}

/// Only a forged document can have such an echo, and it would count forever.
#[test]
fn a_promotion_by_an_echo_from_the_future_is_not_taken() {
    let mut waiter = until(100);
    assert_eq!(waiter.on(&timing(), at(5), refused(4)), WaitAction::WakeAt(at(20)));
    for sent in [at(6), Instant::FAR_FUTURE] {
        let next = waiter.on(&timing(), at(5), promotion(sent));
        assert_eq!(next, WaitAction::Acquire, "{sent:?}");
    }
}

/// Another program may have damaged the numbers of which the expiry is made.
#[test]
fn a_promotion_is_taken_for_no_longer_than_its_expiry() {
    let after = |sent: u64, expires_at_ms: Option<i64>| {
        let mut waiter = until(100);
        // The server's clock is an hour ahead of ours, and showed this when it refused.
        let server_ms = Some(3_600_000 + 40_000);
        let refusal = WaitRefusal { server_ms, ..refusal(40) };
        let _ = waiter.on(&timing(), at(41), WaitEvent::Refused(refusal));
        waiter.on(&timing(), at(44), WaitEvent::Promoted { sent: at(sent), expires_at_ms })
    };
    let expiring = |second: i64| Some(3_600_000 + 1_000 * second);
    // From the refusal to the expiry, less the maximum clock skew, the server's whole milliseconds, and the margin.
    let left = 14 * SECOND - SECOND - millis(1);
    let shorter = WaitAction::TakePromotion(left - left / 100 - 3 * SECOND);
    for (sent, expires_at_ms, wanted) in [
        (43, expiring(60), TAKEN),
        (43, Some(i64::MAX), TAKEN),
        (43, expiring(54), shorter),
        (40, expiring(54), TAKEN),
        // Less than a third is left.
        (43, expiring(48), WaitAction::Acquire),
        (43, expiring(44), WaitAction::Acquire),
        (43, Some(0), WaitAction::Acquire),
        (43, Some(i64::MIN), WaitAction::Acquire),
        (43, None, WaitAction::Acquire),
    ] {
        assert_eq!(after(sent, expires_at_ms), wanted, "{expires_at_ms:?}");
    }
}
