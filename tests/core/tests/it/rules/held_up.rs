//! The memory of held-up documents, and its duration.

use std::time::Duration;

use mongo_lease_core::rules::held_up::{HeldUp, KEPT, NAMES_MAX};
use mongo_lease_core::rules::time::Instant;

const NOW: Instant = Instant::from_nanos(1_000_000_000_000);

#[test]
fn a_document_is_held_up_until_a_write_or_a_timeout() {
    let mut held_up = HeldUp::default();
    assert!(!held_up.has(NOW, "a"));
    held_up.found(NOW, "a");
    held_up.found(NOW, "b");
    assert!(held_up.has(NOW, "a") && held_up.has(NOW, "b") && !held_up.has(NOW, "c"));
    held_up.went_through("a");
    held_up.went_through("c");
    assert!(!held_up.has(NOW, "a") && held_up.has(NOW, "b"));
    let last = NOW.after(KEPT - Duration::from_nanos(1));
    assert!(held_up.has(last, "b") && !held_up.has(NOW.after(KEPT), "b"));
    // It is found held up again, and counts from then.
    held_up.found(last, "b");
    assert!(held_up.has(NOW.after(KEPT), "b"));
}

#[test]
fn no_more_names_are_kept_than_may_be() {
    let mut held_up = HeldUp::default();
    for number in 0..NAMES_MAX {
        held_up.found(NOW, &number.to_string());
    }
    held_up.found(NOW, "7");
    assert!(held_up.has(NOW, "0") && held_up.has(NOW, "7"));
    held_up.found(NOW, "one more");
    assert!(held_up.has(NOW, "one more") && !held_up.has(NOW, "0"));
}
