//! Clocks that are moved, and histories that are read while they go on.

use super::*;

/// A story in which members' clocks are off by at most `millis`.
fn off_by(millis: u64, max_clock_skew: u64) -> Story {
    let mut story = Story::new();
    story.0.terms.clock_error = millis * MILLI;
    story.0.terms.max_clock_skew = max_clock_skew * MILLI;
    story
}

#[test]
fn a_members_clock_that_is_behind_makes_no_early_removal() {
    // By the clock of the member that carried it out, the release came before it was sent.
    let release = |clock_error| {
        let mut story = off_by(clock_error, 1_000);
        let releasing = What::Releasing { call: "a/1".to_owned(), how: Letting::Release };
        story.grant(100, "a/1").note(700, "a", releasing).write(300, None);
        story.found()
    };
    assert_eq!(release(0), [Invariant::Removal]);
    assert_eq!(release(475), []);
    assert_eq!(release(300), [Invariant::Removal], "by more than a clock may be off");
}

#[test]
fn where_two_may_hold_tokens_rise_in_the_order_of_the_oplog() {
    // A holder was granted the lease first, and heard of it when the other had it already.
    let overlap = |clock_error| {
        let mut story = off_by(clock_error, 1_000);
        story.invoke(100, "a/1").write(110, Some(held("a/1", 110)));
        story.invoke(200, "b/1").write(210, Some(held("b/1", 3_000)));
        story.told(220, "b/1", 210, 2_100).told(230, "a/1", 110, 2_050);
        story.found()
    };
    assert!(overlap(0).contains(&Invariant::Tokens));
    let found = overlap(6_000);
    assert!(found.contains(&Invariant::Exclusion) && !found.contains(&Invariant::Tokens));
    let mut wrong = off_by(6_000, 1_000);
    wrong.invoke(100, "a/1").write(110, Some(held("a/1", 110))).told(120, "a/1", 111, 2_000);
    assert_eq!(wrong.found(), [Invariant::TokenTimes], "not the grant's time");
}

#[test]
fn what_is_not_over_yet_is_no_violation_yet() {
    let known = |millis| {
        let mut story = Story::new();
        // The worker never ends, and its grant is never freed.
        story.grant(100, "a/1").note(300, "a", What::Crashing).invoke(400, "b/1");
        story.0.ended = millis * MILLI;
        story.0.known_until = millis * MILLI;
        story.found_of(&[Invariant::Abandoned, Invariant::Deadline])
    };
    assert_eq!(known(6_300), []);
    assert_eq!(known(6_500), [Invariant::Deadline], "a wait of 5 s, and a second");
    assert_eq!(known(9_000), [Invariant::Abandoned, Invariant::Deadline]);
}
