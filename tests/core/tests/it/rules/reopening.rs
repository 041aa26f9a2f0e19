//! When a change stream that has failed is tried again.

use std::iter::repeat_with;
use std::time::Duration;

use mongo_lease_core::rules::StreamFailure::{Lasting, Passing};
use mongo_lease_core::rules::{REOPEN, REOPEN_RARELY, Reopening, STEADY};

const SECOND: Duration = Duration::from_secs(1);

/// So many delays of one kind, in milliseconds.
fn millis(times: usize, delay: impl FnMut() -> Duration) -> Vec<u128> {
    repeat_with(delay).take(times).map(|delay| delay.as_millis()).collect()
}

#[test]
fn tries_become_rarer_and_what_lasts_much_rarer() {
    let mut tries = Reopening::default();
    let soon = [200, 400, 800, 1_600, 3_200, 6_400, 10_000, 10_000];
    assert_eq!(millis(8, || tries.after(Passing, None)), soon);
    let lasting = millis(13, || tries.after(Lasting, None));
    assert_eq!(lasting[..8], [200, 400, 800, 1_600, 3_200, 6_400, 12_800, 25_600]);
    assert_eq!(lasting[10..], [204_800, 300_000, 300_000]);
    // Neither forgets the other.
    assert_eq!(tries.later(), REOPEN.longest);
}

/// A database that stalls for a moment ends its streams as a pool that is too small does.
#[test]
fn a_stream_that_has_worked_is_tried_again_at_once_whatever_its_end_was() {
    let mut tries = Reopening::default();
    for _ in 0..20 {
        assert_eq!(tries.after(Lasting, Some(SECOND)), REOPEN.first);
        tries.later();
    }
    assert_eq!(tries.after(Lasting, None), REOPEN_RARELY.first);
}

/// A pool that is too small now and then: what was learned is not forgotten at once.
#[test]
fn a_steady_stream_halves_the_delay() {
    let mut tries = Reopening::default();
    millis(20, || tries.after(Lasting, None));
    tries.after(Lasting, Some(STEADY - SECOND));
    assert_eq!(tries.after(Lasting, None), REOPEN_RARELY.longest);
    tries.after(Passing, Some(STEADY));
    assert_eq!(tries.after(Lasting, None), REOPEN_RARELY.longest / 2);
    for _ in 0..20 {
        tries.after(Passing, Some(STEADY));
    }
    assert_eq!(tries.after(Lasting, None), REOPEN_RARELY.first);
}
