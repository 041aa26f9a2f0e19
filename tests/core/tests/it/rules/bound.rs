//! How long a batch may take, and how it is split.

use std::time::Duration;

use mongo_lease_core::rules::batching::{BLOCKED_BOUND_MAX, BOUND_MAX, BOUND_MIN, Bound, pieces};
use mongo_lease_core::rules::time::Instant;

fn at(millis: u64) -> Instant {
    Instant::from_nanos(1_000_000_000_000).after(Duration::from_millis(millis))
}

fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

#[test]
fn a_batch_may_take_four_times_as_long_as_the_last_one() {
    let mut bound = Bound::default();
    assert_eq!(bound.get(), BOUND_MIN);
    bound.went_through(at(1), millis(2));
    assert_eq!(bound.get(), BOUND_MIN);
    bound.went_through(at(2), millis(400));
    assert_eq!(bound.get(), millis(1_600));
    assert_eq!(bound.get_blocked(), BLOCKED_BOUND_MAX);
    // A short command after it lowers the bound, but not at once.
    bound.went_through(at(3), millis(2));
    assert_eq!(bound.get(), millis(1_400));
    (0..100).for_each(|_| bound.went_through(at(3), millis(2)));
    assert_eq!(bound.get(), BOUND_MIN);
    bound.went_through(at(4), Duration::MAX);
    assert_eq!(bound.get(), BOUND_MAX);
}

#[test]
fn the_bound_doubles_where_no_command_went_through_meanwhile() {
    let mut bound = Bound::default();
    bound.went_through(at(0), millis(1));
    // Eight pieces in progress together count once.
    (0..8).for_each(|_| bound.timed_out(at(350), at(100)));
    assert_eq!(bound.get(), BOUND_MIN * 2);
    (0..64).for_each(|_| bound.timed_out(at(860), at(351)));
    assert_eq!(bound.get(), BOUND_MIN * 4);
    assert_eq!(bound.get_blocked(), BLOCKED_BOUND_MAX);
    // One that was sent when the bound was doubled was in progress with the others.
    bound.timed_out(at(1_500), at(860));
    assert_eq!(bound.get(), BOUND_MIN * 4);
    // One of the next pieces goes through, so the others are blocked.
    bound.went_through(at(900), millis(20));
    (0..8).for_each(|_| bound.timed_out(at(1_900), at(870)));
    bound.timed_out(at(1_900), at(900));
    assert_eq!(bound.get(), BOUND_MIN);
    for round in 0..100 {
        bound.timed_out(at(20_001 + round * 10), at(20_000 + round * 10));
    }
    assert_eq!(bound.get(), BOUND_MAX);
}

/// This many calls for each of this many documents, in order of arrival.
fn batch(documents: usize, calls: usize) -> Vec<String> {
    (0..documents * calls).map(|call| format!("{:04}", call % documents)).collect()
}

#[test]
fn a_batch_is_split_in_eight_by_its_documents() {
    for documents in 2..300 {
        for calls in [1, 3] {
            let pieces = pieces(batch(documents, calls), String::as_str).unwrap();
            let sizes: Vec<_> = pieces.iter().map(Vec::len).collect();
            assert!((2..=8).contains(&pieces.len()), "{documents}: {sizes:?}");
            assert!(sizes.iter().all(|size| *size <= documents.div_ceil(8) * calls), "{sizes:?}");
            // Calls for one document stay together, and none is lost.
            for pair in pieces.windows(2) {
                assert!(pair[0].last() < pair[1].first());
            }
            let mut all = batch(documents, calls);
            all.sort();
            assert_eq!(pieces.concat(), all);
        }
    }
}

#[test]
fn calls_for_one_document_are_not_split() {
    for calls in [1, 2, 50] {
        let batch = batch(1, calls);
        assert_eq!(pieces(batch.clone(), String::as_str), Err(batch));
    }
}
