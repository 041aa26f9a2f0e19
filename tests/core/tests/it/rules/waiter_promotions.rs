//! Which promotions a waiter accepts, and for how long.

use std::time::Duration;

use mongo_lease_core::rules::time::Instant;
use mongo_lease_core::rules::timing::{TTL_MAX, Timing};
use mongo_lease_core::rules::waiter::{WaitAction, WaitEvent, WaitRefusal, Waiter};

use super::waiter::{
    Acquire, LIFE, NANO, TAKEN, millis, promoted, promotion, refusal, refused, until,
};
use super::{SECOND, at, timing};

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
    assert_eq!(after(&[], at(40)), Acquire);
    let once = [(41, refused(40))];
    assert_eq!(after(&once, at(40)), TAKEN, "the refused attempt's own echo");
    assert_eq!(after(&once, at(40).after(NANO)), TAKEN, "a later heartbeat's");
    assert_eq!(after(&once, at(40).before(NANO)), Acquire, "overtaken");
    // Answers may arrive in any order.
    let crossed = [(41, refused(40)), (42, refused(39))];
    assert_eq!(after(&crossed, at(39)), Acquire);
    assert_eq!(after(&crossed, at(40)), TAKEN);
    // Only a forged document can have an echo from the future, and it would count forever.
    assert_eq!(after(&once, at(44)), TAKEN);
    for sent in [at(45), Instant::FAR_FUTURE] {
        assert_eq!(after(&once, sent), Acquire, "{sent:?}");
    }
}

#[test]
fn a_promotion_is_taken_while_a_third_of_its_term_is_left() {
    // The ttl, the waiter ttl, and how long after its echo a promotion may be accepted.
    let third = |term: Duration, margin| term - term / 3 - margin;
    let table = [
        (30 * SECOND, LIFE, third(LIFE, millis(100))),
        (5 * SECOND, LIFE, third(5 * SECOND, millis(50))),
        (millis(100), LIFE, third(millis(100), millis(2))),
        (30 * SECOND, millis(500), third(millis(500), millis(5))),
        // The margin covers the clock's drift during the term, not during the ttl.
        (TTL_MAX, LIFE, third(LIFE, millis(100))),
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
        assert_eq!(promoted_at(last.after(NANO)), Acquire, "{ttl:?} {waiter_ttl:?}");
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
        (43, expiring(48), Acquire),
        (43, Some(0), Acquire),
        (43, Some(i64::MIN), Acquire),
        (43, None, Acquire),
    ] {
        assert_eq!(after(sent, expires_at_ms), wanted, "{expires_at_ms:?}");
    }
}

/// Without the reserve a waiter would accept a lease that it loses before a late majority has its first renewal.
#[test]
fn a_promotion_leaves_its_first_renewal_the_delay_of_a_majority() {
    let promoted_at = |delay: Duration, now| {
        let mut waiter = Waiter::new(at(100), LIFE);
        let _ = waiter.on(&timing(), at(40), refused(40));
        waiter.expect_majority_after(delay);
        waiter.on(&timing(), now, promoted(40))
    };
    let end = at(40).after(timing().validity_of(LIFE));
    for seconds in [3, 6, 9] {
        let delay = Duration::from_secs(seconds);
        let last = end.before((delay + millis(200)).max(LIFE / 3));
        assert_eq!(promoted_at(delay, last), TAKEN, "{delay:?}");
        assert_eq!(promoted_at(delay, last.after(NANO)), Acquire, "{delay:?}");
    }
    // Without one, a promotion of any length is taken.
    let end = end.before(LIFE / 3);
    assert_eq!(promoted_at(Duration::ZERO, end), TAKEN);
    // No promotion lasts for so long.
    assert_eq!(promoted_at(10 * SECOND, at(40)), Acquire);
    assert_eq!(promoted_at(Duration::MAX, at(40)), Acquire);
}
