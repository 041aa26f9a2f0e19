use std::time::Duration;

use mongo_lease_core::rules::time::Instant;
use mongo_lease_core::rules::waiter::{WaitAction, WaitEvent, WaitRefusal, Waiter};

use super::{SECOND, at, timing};

pub(super) use WaitAction::{Acquire, GiveUp};
pub(super) use WaitEvent::Timer;

pub(super) const LIFE: Duration = Duration::from_secs(10);
pub(super) const NANO: Duration = Duration::from_nanos(1);

pub(super) fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// A refusal of an attempt sent at this second.
///
/// A stream reports promotions, and the holder has a minute left.
pub(super) fn refusal(sent: u64) -> WaitRefusal {
    WaitRefusal {
        sent: at(sent),
        // The server's clock began with ours.
        server_ms: Some(i64::try_from(1_000 * sent).unwrap()),
        ahead: 0,
        led_by: 0,
        remaining: Some(60 * SECOND),
        is_notified: true,
        poll: millis(100),
        recheck_every: 15 * SECOND,
    }
}

pub(super) fn refused(sent: u64) -> WaitEvent {
    WaitEvent::Refused(refusal(sent))
}

/// A promotion that lasts for long on the server.
pub(super) fn promotion(sent: Instant) -> WaitEvent {
    WaitEvent::Promoted { sent, expires_at_ms: Some(i64::MAX) }
}

pub(super) fn promoted(sent: u64) -> WaitEvent {
    promotion(at(sent))
}

/// A promotion is accepted, for the longest term by [`timing`] and [`LIFE`].
pub(super) const TAKEN: WaitAction = WaitAction::TakePromotion(LIFE);

/// A waiter that gives up after this many seconds.
pub(super) fn until(deadline: u64) -> Waiter {
    Waiter::new(at(deadline), LIFE)
}

pub(super) fn wake(second: u64) -> WaitAction {
    WaitAction::WakeAt(at(second))
}

/// Sends each event at its second, and fails unless the answer is this one.
#[track_caller]
pub(super) fn assert_answers(mut waiter: Waiter, events: &[(u64, WaitEvent, WaitAction)]) {
    for &(second, event, wanted) in events {
        let answer = waiter.on(&timing(), at(second), event);
        assert_eq!(answer, wanted, "{event:?} at {second} s, of {events:?}");
    }
}

#[test]
fn the_next_check_depends_on_position_stream_and_expiry() {
    let never = None;
    // Whether a stream reports, entries ahead, milliseconds left, and the milliseconds to the next attempt.
    let table = [
        // The first waiter tries right after the expiry, and at the `recheck_every` in any case.
        (true, 0, Some(3_000), 3_001),
        (true, 0, Some(0), 1),
        (true, 0, Some(15_000), 15_000),
        (true, 0, never, 15_000),
        // A later waiter gives those before it the waiter ttl, counted from the refusal.
        (true, 1, Some(0), 10_000),
        (true, 7, never, 10_000),
        // Without a stream, the first waiter polls often, and after the expiry if that is sooner.
        (false, 0, Some(60_000), 100),
        (false, 0, Some(50), 51),
        (false, 0, never, 100),
        // Each entry ahead makes the others poll more rarely, up to ten times.
        (false, 1, Some(0), 200),
        (false, 8, never, 900),
        (false, 9, never, 1_000),
        (false, u32::MAX, never, 1_000),
    ];
    for (is_notified, ahead, left, wanted) in table {
        let remaining = left.map(millis);
        let refusal = WaitRefusal { is_notified, ahead, remaining, ..refusal(39) };
        let mut waiter = until(100);
        // Counted from the answer, and not from the attempt.
        let next = waiter.on(&timing(), at(40), WaitEvent::Refused(refusal));
        let wanted = at(40).after(millis(wanted));
        assert_eq!(next, WaitAction::WakeAt(wanted), "{is_notified} {ahead} {left:?}");
        // At this moment, and not before.
        let before = wanted.before(NANO);
        assert_eq!(waiter.on(&timing(), before, Timer), WaitAction::WakeAt(wanted));
        assert_eq!(waiter.on(&timing(), wanted, Timer), Acquire);
    }
}

#[test]
fn a_promotion_that_has_come_is_taken_at_the_deadline_too() {
    for now in [20, 21] {
        let refusal = (15, refused(14), wake(20));
        assert_answers(until(20), &[refusal, (now, promoted(16), TAKEN)]);
        // An outdated promotion, or one that is nearly over, is not accepted: no attempt follows at the end.
        assert_answers(until(20), &[refusal, (now, promoted(13), GiveUp)]);
        assert_answers(until(20), &[(now, promoted(10), GiveUp)]);
    }
}

#[test]
fn a_successor_has_another_deadline_and_the_same_moment() {
    let mut first = until(20);
    assert_eq!(first.on(&timing(), at(10), refused(9)), wake(20));
    assert_eq!(first.on(&timing(), at(20), Timer), GiveUp);
    let successor = first.with_deadline(at(100));
    assert_answers(successor, &[(21, Timer, wake(25)), (25, Timer, Acquire)]);
    // A promotion that was too old for the predecessor is too old for this call.
    let overtaken = promotion(at(9).before(NANO));
    assert_answers(successor, &[(11, overtaken, Acquire)]);
    assert_answers(successor, &[(11, promoted(9), TAKEN)]);
    // Its own time may be shorter.
    let short = first.with_deadline(at(22));
    assert_answers(short, &[(21, Timer, wake(22)), (22, Timer, GiveUp)]);
    // A call without any answer sends an attempt at once.
    assert_answers(until(20).with_deadline(at(100)), &[(30, Timer, Acquire)]);
}
