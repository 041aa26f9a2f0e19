//! When leases are left behind, and when names are inserted without a look.

use std::time::Duration;

use super::chance::Chance;
use crate::rules::churn::{Ask, Churn, ENDS_MAX, End};
use crate::rules::time::Instant;

const SECOND: Duration = Duration::from_secs(1);

fn at(seconds: u64) -> Instant {
    Instant::START.after(SECOND * u32::try_from(seconds).expect("a small number"))
}

/// After so many releases at this moment.
fn after(releases: usize, moment: Instant) -> Churn {
    let mut churn = Churn::new(true, true);
    for _ in 0..releases {
        let _ = churn.ends(moment, 1);
    }
    churn
}

#[test]
fn so_many_releases_in_the_window_are_deletes_and_the_next_is_not() {
    let mut churn = Churn::new(true, true);
    let ends: Vec<End> = (0..1_200).map(|number| churn.ends(at(number / 5), 1)).collect();
    assert!(ends[..ENDS_MAX].iter().all(|end| *end == End::Delete), "{ends:?}");
    assert!(ends[ENDS_MAX..].iter().all(|end| *end == End::Leave), "{ends:?}");
}

#[test]
fn releases_that_are_further_apart_are_never_left_behind() {
    // A thousand of them take more than the whole window.
    let mut churn = Churn::new(true, true);
    for number in 0..10_000 {
        assert_eq!(churn.ends(at(number / 3), 1), End::Delete, "the release with number {number}");
        assert_eq!(churn.asks(at(number / 3), "a"), Ask::LookUp);
    }
}

#[test]
fn it_is_over_when_the_window_is() {
    assert_eq!(after(ENDS_MAX, at(0)).ends(at(299), 1), End::Leave);
    assert_eq!(after(ENDS_MAX, at(0)).ends(at(300), 1), End::Delete);
    assert_eq!(after(ENDS_MAX, at(0)).asks(at(299), "a"), Ask::Insert);
    assert_eq!(after(ENDS_MAX, at(0)).asks(at(300), "a"), Ask::LookUp);
}

#[test]
fn leases_that_end_together_count_each() {
    let mut churn = Churn::new(true, true);
    assert_eq!(churn.ends(at(0), ENDS_MAX - 1), End::Delete);
    assert_eq!(churn.ends(at(0), 1), End::Delete);
    assert_eq!(churn.ends(at(0), 1_000_000), End::Leave);
    assert_eq!(churn.ends(at(1), 1), End::Leave);
}

#[test]
fn a_name_that_was_asked_for_lately_is_looked_up() {
    let mut churn = after(ENDS_MAX, at(0));
    assert_eq!(churn.asks(at(1), "a"), Ask::Insert);
    assert_eq!(churn.asks(at(2), "a"), Ask::LookUp);
    assert_eq!(churn.asks(at(2), "b"), Ask::Insert);
    // Each time anew, as long as it comes again.
    assert_eq!(churn.asks(at(31), "a"), Ask::LookUp);
    assert_eq!(churn.asks(at(61), "a"), Ask::Insert);
}

#[test]
fn after_an_insert_that_has_found_a_document_some_names_are_looked_up() {
    let mut churn = after(ENDS_MAX, at(0));
    assert_eq!(churn.asks(at(1), "a"), Ask::Insert);
    churn.found_a_document();
    let asks: Vec<Ask> = (0..20).map(|name: u32| churn.asks(at(1), &name.to_string())).collect();
    assert!(asks[..8].iter().all(|ask| *ask == Ask::LookUp), "{asks:?}");
    assert!(asks[8..].iter().all(|ask| *ask == Ask::Insert), "{asks:?}");
}

/// Judged by a list of everything that has happened.
#[test]
fn at_random_it_is_on_exactly_where_so_many_have_ended_within_the_window() {
    let mut left = 0;
    for seed in 0..50 {
        let mut chance = Chance::new(seed);
        let mut churn = Churn::new(true, true);
        let (mut ends, mut now) = (Vec::new(), at(0));
        for step in 0..400 {
            now = now.after(Duration::from_millis(chance.below(6_000)));
            let within = ends.iter().filter(|end| now.since(**end) < 300 * SECOND).count();
            let leases = usize::try_from(chance.below(30)).expect("a small number");
            let expected = if within >= ENDS_MAX { End::Leave } else { End::Delete };
            assert_eq!(churn.ends(now, leases), expected, "seed {seed}, step {step}");
            left += usize::from(expected == End::Leave);
            ends.extend((0..leases).map(|_| now));
        }
    }
    assert!((1_000..19_000).contains(&left), "one of both is rare: {left} of 20,000");
}

/// A name that is asked for again and again is looked up, and none is inserted twice within the time for which it is
/// likely to have a document: but where another name has taken its place.
#[test]
fn at_random_hardly_any_name_is_inserted_twice() {
    let mut chance = Chance::new(7);
    let mut churn = after(ENDS_MAX, at(0));
    let mut inserted: Vec<(String, Instant)> = Vec::new();
    let (mut twice, mut inserts) = (0, 0);
    for step in 0..10_000_u64 {
        let now = at(1).after(Duration::from_millis(step));
        let name = format!("name {}", chance.below(500));
        if churn.asks(now, &name) == Ask::Insert {
            inserts += 1;
            twice += usize::from(inserted.iter().any(|(other, _)| *other == name));
            inserted.push((name, now));
        }
    }
    assert!(inserts >= 500, "{inserts}");
    // Of 500 names some 30 pairs have one place of the 4,096, and push each other out ten times each way.
    assert!(twice < 1_000, "{twice} of {inserts}");
}

/// Where nothing may be left behind, all is deleted; and new names are inserted all the same.
#[test]
fn who_may_leave_nothing_behind_deletes() {
    let mut churn = Churn::new(false, true);
    for number in 0..1_200 {
        assert_eq!(churn.ends(at(number / 5), 1), End::Delete, "the release with number {number}");
    }
    assert_eq!(churn.asks(at(241), "a"), Ask::Insert);
}

/// Where the server would not notice that the index has gone, nothing is inserted.
#[test]
fn who_may_insert_nothing_looks_up() {
    let mut churn = Churn::new(true, false);
    for _ in 0..ENDS_MAX {
        let _ = churn.ends(at(0), 1);
    }
    assert_eq!((churn.ends(at(1), 1), churn.asks(at(1), "a")), (End::Leave, Ask::LookUp));
}
