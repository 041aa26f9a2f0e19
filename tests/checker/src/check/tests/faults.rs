//! Damaged numbers and overloads: histories made by hand.

use super::shares::{ONE_OF_THREE, shared_by};
use super::*;

impl Story {
    fn damage(&mut self, millis: u64, call: &str) -> &mut Story {
        let (name, value) = ("n".to_owned(), value(call));
        let (number, with) = ("queue.ttlMs".to_owned(), "null".to_owned());
        self.note(millis, "suite", What::Damaged { name, value, number, with })
    }

    fn load_over(&mut self, millis: u64, took_ms: u64, is_granted: bool) -> &mut Story {
        self.note(millis, "a", What::LoadOver { load: 1, wait_ms: 2_000, took_ms, is_granted })
    }
}

/// A document that expires 100 ms after its last holder.
fn lasting() -> State {
    let state = shared_by(&[("a/1", 110, ONE_OF_THREE)]);
    State { expires_at: state.expires_at + 100, ..state }
}

#[test]
fn a_document_expires_with_its_last_holder_unless_one_was_damaged() {
    let mut story = Story::new();
    story.joins(110, "a/1", ONE_OF_THREE, lasting());
    assert_eq!(story.found(), [Invariant::Records]);
    story.damage(60, "a/1");
    assert_eq!(story.found(), []);
}

#[test]
fn a_damaged_document_does_not_expire_before_its_last_holder() {
    let mut story = Story::new();
    let early = State { expires_at: lasting().expires_at - 200, ..lasting() };
    story.joins(110, "a/1", ONE_OF_THREE, early).damage(60, "a/1");
    assert_eq!(story.found(), [Invariant::Records]);
}

#[test]
fn damage_excuses_no_belief_that_is_too_long() {
    let mut story = Story::new();
    story.grant(100, "a/1").damage(300, "a/1");
    let renewed = What::Renewed { call: "a/1".to_owned(), valid_until: 5_000 * MILLI };
    story.note(400, "a", renewed).release(900, "a/1");
    assert_eq!(story.found(), [Invariant::Belief]);
}

#[test]
fn a_free_lease_is_granted_after_a_load() {
    let mut story = Story::new();
    story.load_over(20_000, 40, true);
    assert_eq!(story.found(), []);
    story.load_over(30_000, 2_000, false);
    assert_eq!(story.found(), [Invariant::Recovery]);
    let mut late = Story::new();
    late.load_over(20_000, 4_000, true);
    assert_eq!(late.found(), [Invariant::Recovery]);
}

#[test]
fn another_fault_may_keep_a_free_lease_from_its_caller() {
    for (kind, found) in [("partition", vec![]), ("overload", vec![Invariant::Recovery])] {
        let mut story = Story::new();
        let (kind, detail) = (kind.to_owned(), String::new());
        story.note(10_000, "suite", What::FaultBegan { fault: 0, kind, detail });
        story.note(15_000, "suite", What::FaultEnded { fault: 0 });
        story.load_over(20_000, 2_000, false);
        assert_eq!(story.found(), found);
    }
}

#[test]
fn an_overload_allows_a_second_more() {
    // The wait is 5 s.
    for (kind, answered, found) in [
        ("stop", 16_500, vec![Invariant::Deadline]),
        ("overload", 16_500, vec![]),
        ("overload", 17_500, vec![Invariant::Deadline]),
    ] {
        let mut story = Story::new();
        let (kind, detail) = (kind.to_owned(), String::new());
        story.note(9_000, "suite", What::FaultBegan { fault: 0, kind, detail });
        story.note(12_000, "suite", What::FaultEnded { fault: 0 }).invoke(10_000, "a/1");
        let (call, text) = ("a/1".to_owned(), String::new());
        story.note(answered, "a", What::Ended { call, how: Ending::TimedOut, text });
        assert_eq!(story.found(), found);
    }
}
