use std::time::Duration;

use mongo_lease_core::rules::time::{Instant, from_millis, millis_up};
use mongo_lease_core::rules::timing::{Timing, TimingDefect};

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
