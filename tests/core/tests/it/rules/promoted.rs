//! A promoted holder: its term is short at first, and a renewal extends it.

use std::time::Duration;

use mongo_lease_testbed::Seed;

use mongo_lease_core::rules::holder::{HoldAction, HoldEvent, HoldOptions, Holder, Loss};
use mongo_lease_core::rules::time::Instant;
use mongo_lease_core_tests::Chance;

use super::holder::{
    Guarded, Lost, NotOurs, ONCE, RENEW, RENEWS, Timer, assert_answers, capped, end_of, failed,
    renewed, wake,
};
use super::{SECOND, at, timing};

const TERM: Duration = Duration::from_secs(10);

fn millis_at(millis: u64) -> Instant {
    Instant::START.after(Duration::from_millis(millis))
}

/// A holder promoted by the echo of 0, and notified at once.
fn promoted(options: HoldOptions) -> Holder {
    Holder::promoted(&timing(), options, at(0), at(0), TERM)
}

#[test]
fn a_promotion_is_valid_for_its_term_or_a_shorter_ttl() {
    for (term, wanted) in [
        (10_000, 9_900),
        (29_900, 29_601),
        (30_000, 29_700),
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
            assert!(holder.is_valid(before), "{term:?}");
            assert!(holder.wake_at(&timing()) <= until, "{term:?}");
        }
    }
}

#[test]
fn the_first_renewal_is_due_soon_and_within_a_third_of_the_term() {
    // The moment of the notification and that of the extending renewal, in milliseconds since the echo.
    let table = [
        (TERM, 3_000, 3_100),
        (TERM, 3_300, 3_333),
        // It is late already, so the renewal is due at once.
        (TERM, 6_000, 3_333),
        (SECOND / 2, 100, 166),
        (600 * SECOND, 20_000, 20_100),
    ];
    for (term, told, due) in table {
        for options in [RENEWS, ONCE] {
            let told = millis_at(told);
            let mut holder = Holder::promoted(&timing(), options, told, at(0), term);
            let wake_at = holder.wake_at(&timing());
            assert_eq!(wake_at.since(at(0)).as_millis(), due, "{term:?} {told:?}");
            let next = holder.on(&timing(), told.max(wake_at), Timer);
            let is_in_time = holder.valid_until() > told.max(wake_at);
            assert_eq!(next == RENEW, is_in_time, "{term:?} {told:?} {next:?}");
        }
    }
}

#[test]
fn a_first_renewal_that_failed_or_hangs_is_sent_again() {
    let failed = |sent| failed(sent, SECOND / 2);
    let again = |millis| HoldAction::WakeAt(millis_at(millis));
    for (options, whole) in [(RENEWS, wake(18)), (ONCE, end_of(8))] {
        let events = [
            (4, Timer, RENEW),
            (5, failed(4), again(5_500)),
            (6, Timer, RENEW),
            (7, failed(6), again(7_500)),
            (8, Timer, RENEW),
            (9, renewed(8), whole),
        ];
        assert_answers(promoted(options), &events);
        let events = [(4, Timer, RENEW), (8, Timer, wake(9)), (9, Timer, RENEW)];
        assert_answers(promoted(options), &events);
    }
}

/// The first renewal hangs, and is confirmed after all: a holder without automatic renewal then needs no second one.
#[test]
fn a_failure_after_the_only_needed_renewal_ends_as_asked() {
    let events = [
        (4, Timer, RENEW),
        (9, Timer, RENEW),
        (9, renewed(4), end_of(4)),
        (11, failed(9, SECOND), end_of(4)),
        (20, Timer, end_of(4)),
        (34, Timer, Lost(Loss::EndedAsAsked)),
    ];
    assert_answers(promoted(ONCE), &events);
}

#[test]
fn a_promotion_that_is_never_made_whole_is_lost_after_its_term() {
    let out_of_reach = Lost(Loss::OutOfReach(at(4)));
    let failed = (5, failed(4, SECOND), wake(6));
    for options in [RENEWS, ONCE] {
        let assert_lost = |events: &[_]| {
            assert_answers(promoted(options), events);
        };
        assert_lost(&[(4, Timer, RENEW), failed, (6, Timer, RENEW), (10, Timer, out_of_reach)]);
        // Too late.
        assert_lost(&[(4, Timer, RENEW), (10, renewed(4), out_of_reach)]);
        assert_lost(&[(4, Timer, RENEW), (5, NotOurs, Lost(Loss::NotOurs))]);
        // No renewal was tried: the process stood still, from when the first one was due.
        let due = millis_at(100);
        assert_lost(&[(10, Timer, Lost(Loss::NotRenewed(due)))]);
    }
}

#[test]
fn a_cap_counts_from_the_hand_over_and_needs_no_renewal_within() {
    let ended = Lost(Loss::EndedAsAsked);
    for options in [RENEWS, ONCE] {
        let short = promoted(capped(options, 5));
        assert_answers(short, &[(4, Timer, wake(5)), (5, Timer, ended)]);
        let long = promoted(capped(options, 20));
        assert_answers(long, &[(4, Timer, RENEW), (5, renewed(4), wake(20))]);
    }
    let options = capped(RENEWS, 4);
    let holder = Holder::promoted(&timing(), options, at(3), at(0), TERM);
    assert_eq!(holder.valid_until(), at(7));
    let late = Holder::promoted(&timing(), options, at(8), at(0), TERM);
    assert_eq!(late.valid_until(), millis_at(9_900), "the promotion ends before the cap does");
}

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
                0..=1 => Timer,
                2 => HoldEvent::Renewed(newest),
                3 => HoldEvent::RenewalFailed { sent: newest, retry_after },
                _ => Guarded,
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
                    assert!(event == Timer && (options.renews || !is_whole));
                    newest = now;
                    counts[0] += 1;
                }
                HoldAction::WakeAt(at) => {
                    assert!(is_in_time && at <= until);
                    let waits_for_the_end = at == until;
                    assert!(!is_whole || options.renews || waits_for_the_end);
                    counts[1] += 1;
                }
                Lost(_) => {
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

/// The delay between two tries is chosen for the ttl. The term may be much shorter.
#[test]
fn a_failed_first_renewal_is_retried_within_its_term() {
    // A quarter of the time to the end, which is at 9.9 s.
    let again = HoldAction::WakeAt(millis_at(6_225));
    let events = [(4, Timer, RENEW), (5, failed(4, 10 * SECOND), again), (7, Timer, RENEW)];
    assert_answers(promoted(RENEWS), &events);
}
