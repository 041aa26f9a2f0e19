//! A promoted holder: its term is short at first, and a renewal extends it.

use std::time::Duration;

use mongo_lease_testbed::Seed;

use mongo_lease_core::rules::holder::{HoldAction, HoldEvent, HoldOptions, Holder, Loss};
use mongo_lease_core::rules::time::Instant;
use mongo_lease_core::rules::timing::Timing;
use mongo_lease_core_tests::Chance;

const RENEWS: HoldOptions = HoldOptions { renews: true, max_hold: None };
const ONCE: HoldOptions = HoldOptions { renews: false, max_hold: None };
const SECOND: Duration = Duration::from_secs(1);
const TERM: Duration = Duration::from_secs(10);
const RENEW: HoldAction = HoldAction::Renew { alone: false };

fn timing() -> Timing {
    Timing::new(30 * SECOND, SECOND, None).unwrap()
}

fn at(seconds: u64) -> Instant {
    Instant::START.after(Duration::from_secs(seconds))
}

fn millis_at(millis: u64) -> Instant {
    Instant::START.after(Duration::from_millis(millis))
}

/// A holder promoted by the echo of 0, and notified at once.
fn promoted(options: HoldOptions) -> Holder {
    Holder::promoted(&timing(), options, at(0), at(0), TERM)
}

/// Sends each event, at its second, to such a holder. Returns the answers.
fn answers(options: HoldOptions, events: &[(u64, HoldEvent)]) -> Vec<HoldAction> {
    let mut holder = promoted(options);
    events.iter().map(|&(second, event)| holder.on(&timing(), at(second), event)).collect()
}

#[test]
fn a_promotion_is_valid_for_its_term_or_a_shorter_ttl() {
    for (term, wanted) in [
        (10_000, 9_900),
        (500, 495),
        (29_900, 29_601),
        (30_000, 29_700),
        (30_001, 29_700),
        (600_000, 29_700),
        // No time is left.
        (2, 0),
        (0, 0),
    ] {
        let term = Duration::from_millis(term);
        for options in [RENEWS, ONCE] {
            let holder = Holder::promoted(&timing(), options, at(40), at(40), term);
            let until = at(40).after(Duration::from_millis(wanted));
            assert_eq!((holder.valid_until(), holder.renewed_until()), (until, until), "{term:?}");
            assert!(!holder.is_valid(until), "{term:?}");
            let before = until.before(Duration::from_nanos(1));
            assert_eq!(holder.is_valid(before), wanted > 0 || before < until, "{term:?}");
            assert!(holder.wake_at(&timing()) <= until, "{term:?}");
        }
    }
}

#[test]
fn the_first_renewal_makes_it_whole_and_the_next_ones_keep_it() {
    let mut holder = promoted(RENEWS);
    let mut on = |second, event| holder.on(&timing(), at(second), event);
    assert_eq!(on(4, HoldEvent::Timer), RENEW);
    assert_eq!(on(5, HoldEvent::Renewed(at(4))), HoldAction::WakeAt(at(14)));
    assert_eq!(on(14, HoldEvent::Timer), RENEW);
    assert_eq!(on(15, HoldEvent::Renewed(at(14))), HoldAction::WakeAt(at(24)));
    assert_eq!(holder.valid_until(), at(14).after(timing().validity()));
}

#[test]
fn who_does_not_renew_is_renewed_once() {
    let mut holder = promoted(ONCE);
    let mut on = |now, event| holder.on(&timing(), now, event);
    let end = at(4).after(timing().validity());
    assert_eq!(on(at(4), HoldEvent::Timer), RENEW);
    assert_eq!(on(at(5), HoldEvent::Renewed(at(4))), HoldAction::WakeAt(end));
    for second in [6, 14, 24, 33] {
        assert_eq!(on(at(second), HoldEvent::Timer), HoldAction::WakeAt(end), "{second}");
    }
    assert_eq!(on(end, HoldEvent::Timer), HoldAction::Lost(Loss::EndedAsAsked));
}

#[test]
fn the_first_renewal_is_due_soon_and_within_a_third_of_the_term() {
    // The moment of the notification and that of the extending renewal, in milliseconds since the echo.
    let table = [
        (TERM, 0, 100),
        (TERM, 3_000, 3_100),
        (TERM, 3_300, 3_333),
        // It is late already, so the renewal is due at once.
        (TERM, 6_000, 3_333),
        (SECOND / 2, 0, 100),
        (SECOND / 2, 100, 166),
        (600 * SECOND, 20_000, 20_100),
    ];
    for (term, told, due) in table {
        for options in [RENEWS, ONCE] {
            let told = millis_at(told);
            let mut holder = Holder::promoted(&timing(), options, told, at(0), term);
            let wake_at = holder.wake_at(&timing());
            assert_eq!(wake_at.since(at(0)).as_millis(), due, "{term:?} {told:?}");
            let next = holder.on(&timing(), told.max(wake_at), HoldEvent::Timer);
            let is_in_time = holder.valid_until() > told.max(wake_at);
            assert_eq!(next == RENEW, is_in_time, "{term:?} {told:?} {next:?}");
        }
    }
}

#[test]
fn a_first_renewal_that_failed_is_tried_again() {
    let failed = |sent| HoldEvent::RenewalFailed { sent: at(sent), retry_after: SECOND / 2 };
    for options in [RENEWS, ONCE] {
        let events = [
            (4, HoldEvent::Timer),
            (5, failed(4)),
            (6, HoldEvent::Timer),
            (7, failed(6)),
            (8, HoldEvent::Timer),
            (9, HoldEvent::Renewed(at(8))),
        ];
        let again = [5_500, 7_500].map(|millis| HoldAction::WakeAt(millis_at(millis)));
        let end = at(8).after(timing().validity());
        let whole = HoldAction::WakeAt(if options.renews { at(18) } else { end });
        assert_eq!(answers(options, &events), [RENEW, again[0], RENEW, again[1], RENEW, whole]);
    }
}

#[test]
fn a_first_renewal_that_hangs_is_sent_again() {
    for options in [RENEWS, ONCE] {
        let events = [(4, HoldEvent::Timer), (8, HoldEvent::Timer), (9, HoldEvent::Timer)];
        assert_eq!(answers(options, &events), [RENEW, HoldAction::WakeAt(at(9)), RENEW]);
    }
    // The first renewal is confirmed after all: a holder without automatic renewal then needs no second one.
    let events = [(2, HoldEvent::Timer), (4, HoldEvent::Timer), (9, HoldEvent::Timer)];
    let mut holder = promoted(ONCE);
    for (second, event) in events {
        let _ = holder.on(&timing(), at(second), event);
    }
    let end = at(4).after(timing().validity());
    let on = holder.on(&timing(), millis_at(9_500), HoldEvent::Renewed(at(4)));
    assert_eq!(on, HoldAction::WakeAt(end));
    assert_eq!(holder.on(&timing(), at(20), HoldEvent::Timer), HoldAction::WakeAt(end));
}

#[test]
fn a_promotion_that_is_never_made_whole_is_lost_after_its_term() {
    let failed = HoldEvent::RenewalFailed { sent: at(4), retry_after: SECOND };
    for options in [RENEWS, ONCE] {
        let next = answers(options, &[(4, HoldEvent::Timer), (5, failed), (10, HoldEvent::Timer)]);
        assert_eq!(next[2], HoldAction::Lost(Loss::OutOfReach(at(4))));
        let next = answers(options, &[(4, HoldEvent::Timer), (10, HoldEvent::Renewed(at(4)))]);
        assert_eq!(next[1], HoldAction::Lost(Loss::OutOfReach(at(4))), "too late");
        let next = answers(options, &[(4, HoldEvent::Timer), (5, HoldEvent::NotOurs)]);
        assert_eq!(next[1], HoldAction::Lost(Loss::NotOurs));
        // No renewal was tried: the process stood still.
        let next = answers(options, &[(10, HoldEvent::Timer)]);
        assert_eq!(next, [HoldAction::Lost(Loss::NotRenewed)]);
    }
}

#[test]
fn the_callers_own_renewal_makes_it_whole_as_well() {
    for options in [RENEWS, ONCE] {
        let end = at(1).after(timing().validity());
        let wake = if options.renews { at(11) } else { end };
        let next = answers(options, &[(2, HoldEvent::Renewed(at(1))), (4, HoldEvent::Timer)]);
        assert_eq!(next, [HoldAction::WakeAt(wake); 2]);
    }
}

#[test]
fn a_cap_within_the_term_needs_no_renewal() {
    for renews in [true, false] {
        let capped = |seconds| HoldOptions { renews, max_hold: Some(seconds * SECOND) };
        let next = answers(capped(5), &[(4, HoldEvent::Timer), (5, HoldEvent::Timer)]);
        assert_eq!(next, [HoldAction::WakeAt(at(5)), HoldAction::Lost(Loss::EndedAsAsked)]);
        let next = answers(capped(20), &[(4, HoldEvent::Timer), (5, HoldEvent::Renewed(at(4)))]);
        assert_eq!(next, [RENEW, HoldAction::WakeAt(at(20))]);
    }
}

/// Random histories of promoted holders.
///
/// Validity is what was requested and confirmed, a loss is final, and a holder without automatic renewal renews until
/// one renewal is confirmed, and never after that.
#[test]
fn a_promoted_holder_believes_in_what_was_confirmed() {
    let seed = Seed::fixed("histories of promoted holders", 6);
    let mut chance = Chance::new(seed.number());
    let mut counts = [0; 4];
    for _ in 0..3_000 {
        let options = chance.one_of(&[RENEWS, ONCE]);
        let term = chance.one_of(&[SECOND, TERM, 60 * SECOND]);
        let timing = timing();
        let mut now = Instant::START.after(term / 4);
        let mut holder = Holder::promoted(&timing, options, now, at(0), term);
        let mut until = holder.valid_until();
        let (mut newest, mut is_whole) = (at(0), false);
        for _ in 0..20 {
            let retry_after = chance.one_of(&[Duration::ZERO, SECOND / 10, SECOND]);
            let event = match chance.below(5) {
                0..=1 => HoldEvent::Timer,
                2 => HoldEvent::Renewed(newest),
                3 => HoldEvent::RenewalFailed { sent: newest, retry_after },
                _ => HoldEvent::Guarded,
            };
            let next = holder.on(&timing, now, event);
            let is_in_time = now < until;
            if let (HoldEvent::Renewed(sent), true) = (event, is_in_time) {
                until = until.max(sent.after(timing.validity()));
                is_whole = true;
            }
            assert_eq!((holder.valid_until(), holder.is_valid(now)), (until, is_in_time));
            match next {
                HoldAction::Renew { .. } => {
                    assert!(event == HoldEvent::Timer && (options.renews || !is_whole));
                    newest = now;
                    counts[0] += 1;
                }
                HoldAction::WakeAt(at) => {
                    assert!(is_in_time && at <= until);
                    let waits_for_the_end = at == until;
                    assert!(!is_whole || options.renews || waits_for_the_end);
                    counts[1] += 1;
                }
                HoldAction::Lost(_) => {
                    assert!(!is_in_time);
                    counts[2] += 1;
                }
                HoldAction::Nothing => counts[3] += 1,
            }
            let passes = chance.one_of(&[SECOND / 10, SECOND, 3 * SECOND]);
            now = now.after(passes);
        }
    }
    assert!(counts.iter().all(|&count| count > 1_000), "{counts:?}");
}

#[test]
fn a_failure_after_the_only_needed_renewal_ends_as_asked() {
    let mut holder = promoted(ONCE);
    let mut on = |now, event| holder.on(&timing(), now, event);
    let end = at(4).after(timing().validity());
    assert_eq!(on(at(4), HoldEvent::Timer), RENEW);
    assert_eq!(on(at(9), HoldEvent::Timer), RENEW, "the first of them hangs");
    let renewed = on(millis_at(9_500), HoldEvent::Renewed(at(4)));
    assert_eq!(renewed, HoldAction::WakeAt(end));
    let failed = HoldEvent::RenewalFailed { sent: at(9), retry_after: SECOND };
    assert_eq!(on(at(11), failed), HoldAction::WakeAt(end));
    assert_eq!(
        on(end, HoldEvent::Timer),
        HoldAction::Lost(Loss::EndedAsAsked),
        "it was held as long as asked for"
    );
}

/// The delay between two tries is chosen for the ttl. The term may be much shorter.
#[test]
fn a_failed_first_renewal_is_retried_within_its_term() {
    for seconds in [30, 150, 300, 600] {
        let timing = Timing::new(Duration::from_secs(seconds), SECOND, None).unwrap();
        // The next heartbeat was due.
        let told = at(0).after(TERM / 3);
        let mut holder = Holder::promoted(&timing, RENEWS, told, at(0), TERM);
        assert_eq!(holder.on(&timing, told, HoldEvent::Timer), RENEW);
        // The renewer's default delay.
        let retry_after = timing.renew_after / 20;
        let failed = HoldEvent::RenewalFailed { sent: told, retry_after };
        let next = holder.on(&timing, told.after(SECOND / 100), failed);
        let HoldAction::WakeAt(again) = next else {
            panic!("{next:?}");
        };
        assert!(again < holder.valid_until(), "{seconds} s: {again:?}");
        assert_eq!(holder.on(&timing, again, HoldEvent::Timer), RENEW, "{seconds} s");
    }
}

#[test]
fn the_callers_cap_counts_from_the_hand_over() {
    let options = HoldOptions { renews: true, max_hold: Some(4 * SECOND) };
    let holder = Holder::promoted(&timing(), options, at(3), at(0), TERM);
    assert_eq!(holder.valid_until(), at(7));
    let late = Holder::promoted(&timing(), options, at(8), at(0), TERM);
    assert_eq!(late.valid_until(), millis_at(9_900), "the promotion ends before the cap does");
}
