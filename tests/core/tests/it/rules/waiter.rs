use std::time::Duration;

use mongo_lease_core::rules::time::Instant;
use mongo_lease_core::rules::timing::Timing;
use mongo_lease_core::rules::waiter::{
    WaitAction, WaitEvent, WaitRefusal, Waiter, next_heartbeat_at,
};

pub(super) const SECOND: Duration = Duration::from_secs(1);
pub(super) const LIFE: Duration = Duration::from_secs(10);
pub(super) const NANO: Duration = Duration::from_nanos(1);

pub(super) fn timing() -> Timing {
    Timing::new(30 * SECOND, SECOND, None).unwrap()
}

pub(super) fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

pub(super) fn at(seconds: u64) -> Instant {
    Instant::START.after(Duration::from_secs(seconds))
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

/// Sends each event at its second, and returns the answers.
pub(super) fn answers(mut waiter: Waiter, events: &[(u64, WaitEvent)]) -> Vec<WaitAction> {
    events.iter().map(|&(second, event)| waiter.on(&timing(), at(second), event)).collect()
}

#[test]
fn who_comes_asks_at_once_and_by_the_clock_until_it_is_refused() {
    assert_eq!(
        answers(until(100), &[(0, WaitEvent::Timer), (5, WaitEvent::Timer)]),
        [WaitAction::Acquire; 2]
    );
    let next =
        answers(until(100), &[(5, WaitEvent::Timer), (6, refused(5)), (7, WaitEvent::Timer)]);
    assert_eq!(next, [WaitAction::Acquire, WaitAction::WakeAt(at(21)), WaitAction::WakeAt(at(21))]);
}

#[test]
fn the_next_check_depends_on_position_stream_and_expiry() {
    let never = None;
    // Whether a stream reports, entries ahead, milliseconds left, and the milliseconds to the next attempt.
    let table = [
        // The first waiter tries right after the expiry, and at the `recheck_every` in any case.
        (true, 0, Some(3_000), 3_001),
        (true, 0, Some(0), 1),
        (true, 0, Some(14_998), 14_999),
        (true, 0, Some(15_000), 15_000),
        (true, 0, Some(60_000), 15_000),
        (true, 0, never, 15_000),
        // A later waiter gives those before it the waiter ttl, counted from the refusal.
        (true, 1, Some(0), 10_000),
        (true, 1, Some(3_000), 10_000),
        (true, 1, Some(9_999), 10_000),
        (true, 1, Some(12_000), 10_000),
        (true, 1, Some(60_000), 10_000),
        (true, 7, Some(3_000), 10_000),
        (true, 7, never, 10_000),
        (true, u32::MAX, Some(3_000), 10_000),
        // Without a stream, the first waiter polls often, and after the expiry if that is sooner.
        (false, 0, Some(60_000), 100),
        (false, 0, Some(50), 51),
        (false, 0, Some(0), 1),
        (false, 0, never, 100),
        // Each entry ahead makes the others poll more rarely, up to ten times.
        (false, 1, Some(60_000), 200),
        (false, 1, Some(0), 200),
        (false, 2, never, 300),
        (false, 8, never, 900),
        (false, 9, never, 1_000),
        (false, 10, never, 1_000),
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
        assert_eq!(waiter.on(&timing(), before, WaitEvent::Timer), WaitAction::WakeAt(wanted));
        assert_eq!(waiter.on(&timing(), wanted, WaitEvent::Timer), WaitAction::Acquire);
    }
}

#[test]
fn a_short_recheck_comes_first_even_with_a_stream() {
    for ahead in [0, 1, 9] {
        let refusal = WaitRefusal { ahead, recheck_every: SECOND, ..refusal(40) };
        let next = until(100).on(&timing(), at(40), WaitEvent::Refused(refusal));
        assert_eq!(next, WaitAction::WakeAt(at(41)), "{ahead}");
    }
}

#[test]
fn times_without_end_do_not_overflow() {
    let recheck_every = Duration::MAX;
    for remaining in [Some(Duration::MAX), None] {
        let refusal = WaitRefusal { remaining, ahead: 0, recheck_every, ..refusal(40) };
        let next = until(100).on(&timing(), at(40), WaitEvent::Refused(refusal));
        assert_eq!(next, WaitAction::WakeAt(at(100)), "the deadline is left");
        let mut forever = Waiter::new(Instant::FAR_FUTURE, LIFE);
        let next = forever.on(&timing(), at(40), WaitEvent::Refused(refusal));
        assert_eq!(next, WaitAction::WakeAt(Instant::FAR_FUTURE));
        assert_eq!(forever.on(&timing(), at(41), WaitEvent::Recheck), WaitAction::Acquire);
    }
}

#[test]
fn the_deadline_comes_before_the_next_look_and_ends_the_wait() {
    let next =
        answers(until(20), &[(10, refused(9)), (19, WaitEvent::Timer), (20, WaitEvent::Timer)]);
    assert_eq!(next, [WaitAction::WakeAt(at(20)), WaitAction::WakeAt(at(20)), WaitAction::GiveUp]);
    // On any event except a promotion; and it stays so.
    for event in [WaitEvent::Timer, WaitEvent::Recheck, refused(19), promoted(1)] {
        let next = answers(until(20), &[(18, refused(17)), (20, event), (21, event)]);
        assert_eq!(next[1..], [WaitAction::GiveUp; 2], "{event:?}");
    }
    // A waiter without any time does not even send an attempt.
    assert_eq!(answers(until(0), &[(0, WaitEvent::Timer)]), [WaitAction::GiveUp]);
}

#[test]
fn a_recheck_acquires_at_once_and_until_it_is_answered() {
    let events = [
        (10, refused(9)),
        (11, WaitEvent::Recheck),
        (12, WaitEvent::Timer),
        (13, WaitEvent::Recheck),
        (14, refused(13)),
    ];
    let wake = |second| WaitAction::WakeAt(at(second));
    assert_eq!(
        answers(until(100), &events),
        [wake(25), WaitAction::Acquire, WaitAction::Acquire, WaitAction::Acquire, wake(29)]
    );
}

#[test]
fn a_stale_promotion_makes_the_waiter_acquire_until_answered() {
    let events = [
        (41, refused(40)),
        (42, promoted(39)),
        (43, WaitEvent::Timer),
        (44, refused(43)),
        (55, promoted(45)),
        (56, WaitEvent::Timer),
    ];
    let next = answers(until(100), &events);
    let wake = |second| WaitAction::WakeAt(at(second));
    assert_eq!(
        next,
        [
            wake(56),
            WaitAction::Acquire,
            WaitAction::Acquire,
            wake(59),
            WaitAction::Acquire,
            WaitAction::Acquire
        ]
    );
}

#[test]
fn a_promotion_that_has_come_is_taken_at_the_deadline_too() {
    for now in [20, 21] {
        let next = answers(until(20), &[(15, refused(14)), (now, promoted(16))]);
        assert_eq!(next[1], TAKEN, "{now}");
        // An outdated promotion, or one that is nearly over, is not accepted: no attempt follows at the end.
        let next = answers(until(20), &[(15, refused(14)), (now, promoted(13))]);
        assert_eq!(next[1], WaitAction::GiveUp, "{now}");
        let next = answers(until(20), &[(now, promoted(10))]);
        assert_eq!(next[0], WaitAction::GiveUp, "{now}");
    }
}

#[test]
fn a_successor_has_another_deadline_and_the_same_moment() {
    let mut first = until(20);
    let second = 15 * SECOND;
    assert_eq!(first.on(&timing(), at(10), refused(9)), WaitAction::WakeAt(at(20)));
    assert_eq!(first.on(&timing(), at(20), WaitEvent::Timer), WaitAction::GiveUp);
    let mut successor = first.with_deadline(at(100));
    assert_eq!(
        successor.on(&timing(), at(21), WaitEvent::Timer),
        WaitAction::WakeAt(at(10).after(second))
    );
    assert_eq!(successor.on(&timing(), at(25), WaitEvent::Timer), WaitAction::Acquire);
    // A promotion that was too old for the predecessor is too old for this call.
    let overtaken = promotion(at(9).before(NANO));
    assert_eq!(first.with_deadline(at(100)).on(&timing(), at(11), overtaken), WaitAction::Acquire);
    assert_eq!(first.with_deadline(at(100)).on(&timing(), at(11), promoted(9)), TAKEN);
    // Its own time may be shorter.
    assert_eq!(
        first.with_deadline(at(22)).on(&timing(), at(21), WaitEvent::Timer),
        WaitAction::WakeAt(at(22))
    );
    assert_eq!(
        first.with_deadline(at(22)).on(&timing(), at(22), WaitEvent::Timer),
        WaitAction::GiveUp
    );
    // A call without any answer sends an attempt at once.
    assert_eq!(
        until(20).with_deadline(at(100)).on(&timing(), at(30), WaitEvent::Timer),
        WaitAction::Acquire
    );
}

#[test]
fn a_heartbeat_is_due_after_a_third_unless_the_wait_ends_first() {
    let never = Instant::FAR_FUTURE;
    for (beaten, deadline, wanted) in [
        (at(40), at(100), at(40).after(LIFE / 3)),
        (at(40), at(50).after(NANO), at(40).after(LIFE / 3)),
        (at(40), at(50), never),
        (at(40), at(41), never),
        (at(40), at(39), never),
        (at(40), Instant::FAR_FUTURE, at(40).after(LIFE / 3)),
        (Instant::START, at(10), never),
        (Instant::START, at(11), Instant::START.after(LIFE / 3)),
        (Instant::from_nanos(u64::MAX - 1), Instant::FAR_FUTURE, never),
    ] {
        assert_eq!(next_heartbeat_at(beaten, LIFE, deadline), wanted, "{beaten:?} {deadline:?}");
    }
}
