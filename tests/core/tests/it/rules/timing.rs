use std::time::Duration;

use mongo_lease_core::rules::election::leader_notice;
use mongo_lease_core::rules::time::{Instant, from_millis, millis_up};
use mongo_lease_core::rules::timing::{Timing, TimingDefect, server_time};
use mongo_lease_core::rules::waiter::{heartbeat_again, heartbeat_every, heartbeat_slack};

use super::{SECOND, timing};

#[test]
fn the_default_timings_are_those_of_the_documentation() {
    let timing = timing();
    assert_eq!(timing.renew_after, 10 * SECOND);
    assert_eq!(timing.attempt_timeout, 5 * SECOND);
    assert_eq!(timing.margin, Duration::from_millis(300));
    assert_eq!(timing.validity(), Duration::from_millis(29_700));
}

#[test]
fn timings_that_contradict_each_other_are_refused() {
    let new = |ttl, max_clock_skew, attempt| Timing::new(ttl, max_clock_skew, attempt).unwrap_err();
    assert!(matches!(new(Duration::ZERO, SECOND, None), TimingDefect::Ttl(_)));
    assert!(matches!(new(Duration::MAX, SECOND, None), TimingDefect::Ttl(_)));
    assert!(matches!(new(SECOND, Duration::MAX, None), TimingDefect::MaxClockSkew(_)));
    for attempt in [Duration::ZERO, 501 * SECOND / 1000, Duration::MAX] {
        let defect = new(SECOND, SECOND, Some(attempt));
        assert!(matches!(defect, TimingDefect::AttemptTimeout { .. }), "{attempt:?}");
    }
}

#[test]
fn every_ttl_leaves_time_for_a_second_renewal() {
    for millis in [100, 101, 250, 999, 1_000, 9_999, 30_000, 86_400_000] {
        let timing = Timing::new(from_millis(millis), SECOND, None).unwrap();
        assert!(timing.renew_after + timing.attempt_timeout < timing.validity(), "{millis} ms");
        assert!(timing.validity() < timing.ttl, "{millis} ms");
        let longest = Timing::new(timing.ttl, SECOND, Some(timing.ttl / 2)).unwrap();
        assert_eq!(longest.attempt_timeout, timing.ttl / 2, "{millis} ms");
    }
}

#[test]
fn a_moment_in_a_document_is_never_later_than_the_real_one() {
    for (nanos, micros) in [(0, 0), (999, 0), (1_000, 1), (1_999, 1), (u64::MAX, u64::MAX / 1_000)]
    {
        let moment = Instant::from_nanos(nanos);
        assert_eq!(moment.as_micros(), micros);
        assert_eq!(Instant::from_micros(micros), moment.whole_micros());
        assert!(moment.whole_micros() <= moment);
        assert!(moment.since(moment.whole_micros()) < Duration::from_micros(1));
    }
    assert_eq!(Instant::from_micros(u64::MAX), Instant::FAR_FUTURE);
    assert_eq!(Instant::from_micros(7), Instant::from_nanos(7_000));
    assert_eq!(format!("{:?}", Instant::from_micros(7)), "7µs");
}

#[test]
fn moments_saturate() {
    let late = Instant::from_nanos(u64::MAX - 1);
    assert_eq!(late.after(SECOND), Instant::FAR_FUTURE);
    assert_eq!(Instant::FAR_FUTURE.after(SECOND), Instant::FAR_FUTURE);
    assert_eq!(Instant::FAR_FUTURE.before(SECOND), Instant::FAR_FUTURE);
    assert_eq!(Instant::START.before(SECOND), Instant::START);
    assert_eq!(Instant::START.since(late), Duration::ZERO);
    assert_eq!(millis_up(Duration::from_micros(1)), 1);
    assert_eq!(millis_up(Duration::MAX), i64::MAX);
    assert_eq!(from_millis(-1), Duration::ZERO);
}

#[test]
fn the_server_gives_up_a_little_before_its_caller() {
    let millis = Duration::from_millis;
    for (left, wanted) in [(0, 0), (8, 7), (800, 700), (2_000, 1_750), (60_000, 59_750)] {
        assert_eq!(server_time(millis(left)), millis(wanted), "{left} ms");
    }
}

#[test]
fn a_waiter_has_three_heartbeats_and_twelve_tries_in_its_ttl() {
    assert_eq!(heartbeat_every(12 * SECOND), 4 * SECOND);
    assert_eq!(heartbeat_slack(12 * SECOND), 2 * SECOND);
    assert_eq!(heartbeat_again(12 * SECOND), SECOND);
}

#[test]
fn a_leader_has_notice_of_a_sixth_of_its_ttl_and_of_half_at_most() {
    let whole = 12 * SECOND;
    for (asked, wanted) in [(None, 2), (Some(0), 0), (Some(5), 5), (Some(6), 6), (Some(9), 6)] {
        let notice = leader_notice(asked.map(|it| it * SECOND), whole);
        assert_eq!(notice, wanted * SECOND, "{asked:?}");
    }
}
