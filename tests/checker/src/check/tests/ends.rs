//! Dead processes, waits, and remains: histories made by hand.

use super::*;

#[test]
fn a_name_that_a_dead_process_keeps_is_found() {
    let mut story = Story::new();
    story.grant(100, "a/1").note(300, "a", What::Crashing);
    assert_eq!(story.found(), [Invariant::Abandoned], "for ever");
    story.write(2_500, None);
    assert_eq!(story.found(), []);
    let mut late = Story::new();
    late.grant(100, "a/1").note(300, "a", What::Crashing).write(10_000, None);
    assert_eq!(late.found(), [Invariant::Abandoned]);
    let (kind, detail) = ("kill".to_owned(), String::new());
    late.note(310, "suite", What::FaultBegan { fault: 0, kind, detail });
    late.note(5_000, "suite", What::FaultEnded { fault: 0 });
    assert_eq!(late.found(), [], "the database was away meanwhile");
}

#[test]
fn a_grant_of_which_nobody_heard_and_that_stays_is_found() {
    let mut story = Story::new();
    story.write(110, Some(held("a/1", 110))).write(9_000, None);
    assert_eq!(story.found(), [Invariant::Abandoned]);
    let mut in_time = Story::new();
    in_time.write(110, Some(held("a/1", 110))).write(3_000, Some(held("b/1", 3_000)));
    assert_eq!(in_time.write(5_100, None).found(), []);
}

#[test]
fn a_grant_that_a_damaged_ttl_ended_before_it_began_has_its_time_from_then_on() {
    let mut story = Story::new();
    // It is an expired one for whoever comes, and the TTL monitor's.
    story.write(9_000, Some(held("a/1", 110)));
    let mut later = story.clone();
    assert_eq!(story.write(9_500, None).found(), []);
    // Writes of waiters give it no more time.
    for millis in [11_000, 13_000, 15_000] {
        later.write(millis, Some(State { queue: vec![waits("b/1", millis)], ..held("a/1", 110) }));
    }
    assert_eq!(later.write(16_000, None).found_of(&[Invariant::Abandoned]), [Invariant::Abandoned]);
}

#[test]
fn a_wait_that_does_not_end_in_time_is_found() {
    // The lease is free, and nothing explains the wait.
    let of_deadlines = |story: &Story| story.found_of(&[Invariant::Deadline]);
    let ended = |millis| {
        let mut story = Story::new();
        let how = Ending::TimedOut;
        let what = What::Ended { call: "a/1".to_owned(), how, text: String::new() };
        story.invoke(100, "a/1").note(millis, "a", what);
        story
    };
    assert_eq!(of_deadlines(&ended(5_110)), []);
    assert_eq!(of_deadlines(&ended(6_200)), [Invariant::Deadline]);
    let mut stopped = ended(8_000);
    stopped.note(1_000, "a", What::Stopped).note(4_000, "a", What::Resumed);
    assert_eq!(of_deadlines(&stopped), [], "it could not");
    let mut twice = ended(8_000);
    twice.note(1_000, "a", What::Stopped).note(2_000, "a", What::Stopped);
    twice.note(4_000, "a", What::Resumed).note(7_000, "a", What::Resumed);
    assert_eq!(of_deadlines(&twice), [], "it was stopped once");
    let mut shortly = ended(9_200);
    shortly.note(1_000, "a", What::Stopped).note(2_000, "a", What::Stopped);
    shortly.note(4_000, "a", What::Resumed).note(9_000, "a", What::Resumed);
    assert_eq!(of_deadlines(&shortly), [Invariant::Deadline], "it ran from the fourth second on");
    let mut never = Story::new();
    assert_eq!(of_deadlines(never.invoke(100, "a/1")), [Invariant::Deadline]);
    let mut without_limit = Story::new();
    without_limit.invoke_with(100, "a/1", FOREVER_MS, Permits::EXCLUSIVE);
    assert_eq!(of_deadlines(&without_limit), [Invariant::Deadline], "faults are over");
    without_limit.0.known_until = 90 * SECOND;
    assert_eq!(of_deadlines(&without_limit), [], "the run goes on");
    without_limit.told(70_000, "a/1", 69_990, 71_000);
    assert_eq!(of_deadlines(&without_limit), []);
}

#[test]
fn what_is_left_over_is_found() {
    let with = |left: LeftOver| {
        let mut story = Story::new();
        story.grant(100, "a/1").release(200, "a/1");
        story.0.left = left;
        story.found()
    };
    let documents = vec!["{}".to_owned()];
    assert_eq!(with(LeftOver { documents, ..LeftOver::default() }), [Invariant::LeftOver]);
    assert_eq!(with(LeftOver { workers: 1, ..LeftOver::default() }), [Invariant::LeftOver]);
    let cursor = |millis, is_at_primary| {
        let shown = "a cursor for a-".to_owned();
        vec![Cursor { id: 1, used: wall(millis), is_at_primary, shown }]
    };
    let cursors = |cursors| LeftOver { cursors, ..LeftOver::default() };
    assert_eq!(with(cursors(cursor(61_000, true))), [Invariant::LeftOver]);
    assert_eq!(with(cursors(cursor(30_000, true))), [], "its connection broke under a fault");
    assert_eq!(with(cursors(cursor(61_000, false))), [], "the driver asks the new primary");
    let mut story = Story::new();
    let what = What::Left { tasks: 0, sockets: 1, memory_kb: 1, memory_peak_kb: 1 };
    assert_eq!(story.note(100, "a", what).found(), [Invariant::LeftOver]);
}
