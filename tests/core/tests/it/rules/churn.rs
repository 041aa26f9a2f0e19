//! Which names are inserted blindly.

use std::time::Duration;

use mongo_lease_core::rules::churn::{Churn, FastForm};
use mongo_lease_core::rules::time::Instant;
use mongo_lease_core_tests::Chance;

const SECOND: Duration = Duration::from_secs(1);

fn at(seconds: u64) -> Instant {
    Instant::START.after(SECOND * u32::try_from(seconds).expect("a small number"))
}

#[test]
fn a_name_that_was_asked_for_lately_is_looked_up() {
    let mut churn = Churn::new(true);
    assert_eq!(churn.asks(at(1), "a"), FastForm::Insert);
    assert_eq!(churn.asks(at(2), "a"), FastForm::LookUp);
    assert_eq!(churn.asks(at(2), "b"), FastForm::Insert);
    // Each use counts again.
    assert_eq!(churn.asks(at(31), "a"), FastForm::LookUp);
    assert_eq!(churn.asks(at(61), "a"), FastForm::Insert);
}

#[test]
fn after_an_insert_finds_a_document_some_names_are_looked_up() {
    let mut churn = Churn::new(true);
    assert_eq!(churn.asks(at(1), "a"), FastForm::Insert);
    churn.found_a_document();
    let asks: Vec<FastForm> =
        (0..20).map(|name: u32| churn.asks(at(1), &name.to_string())).collect();
    assert!(asks[..8].iter().all(|ask| *ask == FastForm::LookUp), "{asks:?}");
    assert!(asks[8..].iter().all(|ask| *ask == FastForm::Insert), "{asks:?}");
}

/// A name that is used often is looked up.
///
/// None is inserted twice within the time for which it is likely to have a document, except where another name has
/// taken its slot.
#[test]
fn at_random_hardly_any_name_is_inserted_twice() {
    let mut chance = Chance::new(7);
    let mut churn = Churn::new(true);
    let mut inserted: Vec<(String, Instant)> = Vec::new();
    let (mut twice, mut inserts) = (0, 0);
    for step in 0..10_000_u64 {
        let now = at(1).after(Duration::from_millis(step));
        let name = format!("name {}", chance.below(500));
        if churn.asks(now, &name) == FastForm::Insert {
            inserts += 1;
            twice += usize::from(inserted.iter().any(|(other, _)| *other == name));
            inserted.push((name, now));
        }
    }
    assert!(inserts >= 500, "{inserts}");
    // Of 500 names, some 30 pairs share one of the 4,096 slots, and each name replaces the other ten times.
    assert!(twice < 1_000, "{twice} of {inserts}");
}

/// Without tombstones, or where the server would not notice that the index is missing.
#[test]
fn where_nothing_may_be_inserted_all_is_looked_up() {
    let mut churn = Churn::new(false);
    for name in 0..2_000_u32 {
        assert_eq!(churn.asks(at(1), &name.to_string()), FastForm::LookUp);
    }
}
