//! The queue: its order, and first waiters that fit.

use super::shares::{ONE_OF_THREE, ONE_OF_TWO, TWO_OF_TWO, WRITER, shared};
use super::*;
use crate::check::gaps;

#[test]
fn who_is_passed_over_in_line_is_found() {
    let line = || vec![waits("b/1", 1_500), waits("c/1", 1_500)];
    let mut story = Story::new();
    story.grant(100, "a/1").write(200, Some(State { queue: line(), ..held("a/1", 110) }));
    let releasing = What::Releasing { call: "a/1".to_owned(), how: Letting::Drop };
    story.note(250, "a", releasing).write(300, Some(promoted("c/1", 300)));
    assert_eq!(story.found(), [Invariant::Order]);
    // A dead waiter may be passed over.
    let mut dead = Story::new();
    let line = vec![waits("b/1", 250), waits("c/1", 1_500)];
    dead.grant(100, "a/1").write(200, Some(State { queue: line, ..held("a/1", 110) }));
    let releasing = What::Releasing { call: "a/1".to_owned(), how: Letting::Drop };
    dead.note(250, "a", releasing).write(300, Some(promoted("c/1", 300)));
    assert_eq!(dead.found(), []);
}

#[test]
fn a_call_that_was_granted_before_may_leave_an_entry() {
    let story = |regrants: bool| {
        let mut story = Story::new();
        story.grant(100, "a/1").release(200, "a/1").grant(300, "c/1");
        // A late attempt of the first call.
        story.write(400, Some(State { queue: vec![waits("a/1", 3_000)], ..held("c/1", 310) }));
        let queue = vec![waits("a/1", 3_000), waits("b/1", 3_500)];
        story.write(500, Some(State { queue, ..held("c/1", 310) }));
        story.write(2_400, Some(promoted("b/1", 2_400)));
        if regrants {
            story.told(4_000, "a/1", 3_990, 5_000);
        }
        story.found_of(&[Invariant::Order])
    };
    assert_eq!(story(false), []);
    assert_eq!(story(true), [Invariant::Order], "it waited, for it was granted the lease later");
}

#[test]
fn a_call_may_leave_one_entry_and_go_on_with_another() {
    let granted_with = |value: &str| {
        let mut story = Story::new();
        story.grant(300, "c/1").invoke(350, "a/1");
        let queue = vec![waits("a/1", 3_000), waits("b/1", 3_500)];
        story.write(500, Some(State { queue, ..held("c/1", 310) }));
        story.write(2_400, Some(promoted("b/1", 2_400)));
        let (call, name, valid_until) = ("a/1".to_owned(), "n".to_owned(), 5_000_000_000);
        let what = What::Granted { call, name, token: 3_990, value: value.to_owned(), valid_until };
        story.note(4_000, "a", what).found_of(&[Invariant::Order])
    };
    assert_eq!(granted_with("another"), []);
    assert_eq!(granted_with(&value("a/1")), [Invariant::Order], "it was this one that waited");
}

/// The first of them belongs to a call that has ended: its late attempt came back into the queue, and then was granted.
#[test]
fn a_process_may_have_two_entries() {
    let granted = |call: &str, rest: Vec<Waiting>| {
        let mut story = Story::new();
        let line = vec![waits("a/1", 3_000), waits("b/1", 3_000), waits("a/2", 3_000)];
        story.grant(100, "c/1").write(200, Some(State { queue: line, ..held("c/1", 110) }));
        story.write(2_300, Some(State { queue: rest, ..held(call, 2_300) }));
        story.found_of(&[Invariant::Order])
    };
    let [first, between, last] = ["a/1", "b/1", "a/2"].map(|call| waits(call, 3_000));
    assert_eq!(granted("a/1", vec![between.clone(), last]), []);
    assert_eq!(granted("a/2", vec![first, between]), [Invariant::Order]);
}

#[test]
fn who_barges_in_or_changes_places_is_found() {
    let line = || vec![waits("b/1", 3_000), waits("c/1", 3_000)];
    let waiting = |queue: Vec<Waiting>| Some(State { queue, ..held("a/1", 110) });
    let mut barging = Story::new();
    barging.grant(100, "a/1").write(200, waiting(line()));
    barging.write(2_300, Some(State { queue: line(), ..held("d/1", 2_300) }));
    assert_eq!(barging.found(), [Invariant::Order]);
    let mut swapped = Story::new();
    swapped.grant(100, "a/1").write(200, waiting(line()));
    swapped.write(210, waiting(line().into_iter().rev().collect()));
    assert_eq!(swapped.found(), [Invariant::Order]);
    let mut cut_in = Story::new();
    cut_in.grant(100, "a/1").write(200, waiting(line()));
    let queue = vec![waits("d/1", 3_000), waits("b/1", 3_000), waits("c/1", 3_000)];
    cut_in.write(210, waiting(queue));
    assert_eq!(cut_in.found(), [Invariant::Order]);
    let mut successor = Story::new();
    successor.grant(100, "a/1").write(200, waiting(line()));
    successor.write(210, waiting(vec![waits("b/2", 3_000), waits("c/1", 3_000)]));
    assert_eq!(successor.found(), [], "of the same process");
}

#[test]
fn an_acquire_admits_the_first_of_the_line_and_joins_behind() {
    let [b, c, d] = ["b/1", "c/1", "d/1"].map(|call| waits(call, 3_000));
    let admits = |millis, call, queue: Vec<Waiting>| {
        let mut story = Story::new();
        let line = vec![b.clone(), c.clone()];
        story.grant(100, "a/1").write(200, Some(State { queue: line, ..held("a/1", 110) }));
        story.write(millis, Some(State { queue, ..promoted(call, millis) })).found()
    };
    let again = waits("c/1", 3_100);
    assert_eq!(admits(2_300, "b/1", vec![c.clone(), d.clone()]), []);
    assert_eq!(admits(2_300, "b/1", vec![again.clone()]), [], "its own entry lives longer");
    let passed_over = [Invariant::Order];
    assert_eq!(admits(2_300, "c/1", vec![d.clone()]), passed_over, "nobody leaves by an acquire");
    assert_eq!(admits(2_300, "c/1", vec![b.clone(), d.clone()]), passed_over);
    let early = [Invariant::Removal, Invariant::TakeOver];
    assert_eq!(admits(1_000, "b/1", vec![c.clone(), d]), early);
    assert_eq!(admits(1_000, "b/1", vec![again]), early);
}

/// A holder of one permit of two, and this queue: written at 200, and still so until the entries are dead.
fn queue(entries: Vec<Waiting>) -> Story {
    let mut story = Story::new();
    let a = granted("a/1", [110, 20_000], ONE_OF_TWO);
    story.joins(110, "a/1", ONE_OF_TWO, shared(vec![a.clone()]));
    story.write(200, Some(State { queue: entries, ..shared(vec![a]) }));
    story
}

#[test]
fn a_waiter_passed_over_by_another_share_is_found() {
    let line = || vec![waits_for("b/1", 1_500, TWO_OF_TWO), waits_for("c/1", 1_500, ONE_OF_TWO)];
    let a = granted("a/1", [110, 20_000], ONE_OF_TWO);
    let with = |call, queue| {
        let holders = vec![a.clone(), granted(call, [300, 2_300], ONE_OF_TWO)];
        State { queue, ..shared(holders) }
    };
    let only_b = || vec![line().remove(0)];
    let mut behind = queue(line());
    behind.write(300, Some(State { admitted: "c/1.1@1@2".to_owned(), ..with("c/1", only_b()) }));
    assert_eq!(behind.found(), [Invariant::Order], "it fitted, but it was not its turn");
    let mut newcomer = queue(line());
    newcomer.joins(300, "d/1", ONE_OF_TWO, with("d/1", line()));
    assert_eq!(newcomer.found(), [Invariant::Order]);
    // Its own process's entry excuses an exclusive call alone.
    let mut brother = queue(line());
    brother.joins(300, "b/2", ONE_OF_TWO, with("b/2", line()));
    assert_eq!(brother.found(), [Invariant::Order]);
    let mut dead = queue(vec![waits_for("b/1", 250, TWO_OF_TWO)]);
    dead.joins(300, "d/1", ONE_OF_TWO, with("d/1", Vec::new()));
    assert_eq!(dead.found(), []);
}

#[test]
fn a_waiter_that_leaves_makes_room_for_one_behind_it() {
    let line = || {
        let calls = [("b/1", TWO_OF_TWO), ("c/1", TWO_OF_TWO), ("d/1", ONE_OF_TWO)];
        calls.map(|(call, permits)| waits_for(call, 1_500, permits)).to_vec()
    };
    let a = granted("a/1", [110, 20_000], ONE_OF_TWO);
    let admitted = |line| {
        let mut story = queue(line);
        let holders = vec![a.clone(), granted("d/1", [300, 2_300], ONE_OF_TWO)];
        let admitted = "d/1.1@1@2".to_owned();
        story.write(300, Some(State { admitted, ..shared(holders) }));
        story
    };
    assert_eq!(admitted(line().split_off(1)).found(), []);
    assert_eq!(admitted(line()).found(), [Invariant::Order], "one write, and two have left");
    let mut beside_a_dead_one = line();
    beside_a_dead_one[0] = waits_for("b/1", 200, TWO_OF_TWO);
    assert_eq!(admitted(beside_a_dead_one).found(), [], "each admission removes the dead");
    let mut of_holder = queue(line().split_off(1));
    let d = vec![granted("d/1", [300, 2_300], ONE_OF_TWO)];
    of_holder.leaves(300, "a/1", Some(State { admitted: "d/1.1@1@2".to_owned(), ..shared(d) }));
    assert_eq!(of_holder.found(), [Invariant::Order], "the write is that of the holder");
    let mut granted_later = admitted(line().split_off(1));
    granted_later.invoke_for(150, "c/1", TWO_OF_TWO).told(900, "c/1", 890, 800);
    assert!(granted_later.found().contains(&Invariant::Order), "it has not given up");
}

#[test]
fn two_who_are_admitted_together_are_in_order() {
    let line = || ["b/1", "c/1", "d/1"].map(|call| waits_for(call, 1_500, ONE_OF_THREE)).to_vec();
    let after = |calls: [&str; 2], left: &str| {
        let mut story = Story::new();
        story.joins(110, "a/1", WRITER, State { queue: line(), ..held("a/1", 110) });
        let grants = calls.map(|call| granted(call, [300, 2_300], ONE_OF_THREE)).to_vec();
        let queue = line().into_iter().filter(|entry| entry.call == left).collect();
        let admitted = calls.map(|call| format!("{call}.1@1@2")).join(" ");
        let document = State { queue, admitted, ..shared(grants) };
        story.leaves(300, "a/1", Some(document)).write(400, None).found()
    };
    assert_eq!(after(["b/1", "c/1"], "d/1"), []);
    assert_eq!(after(["b/1", "d/1"], "c/1"), [Invariant::Order]);
}

#[test]
fn a_first_waiter_that_fits_and_stays_is_found() {
    let fits = |until, permits| queue(vec![waits_for("b/1", until, permits)]).found();
    assert_eq!(fits(20_000, TWO_OF_TWO), [], "it does not fit");
    assert_eq!(fits(20_000, ONE_OF_TWO), [Invariant::Gap]);
    assert_eq!(fits(2_500, ONE_OF_TWO), [], "it died");
    let blocked = [("b/1", TWO_OF_TWO), ("c/1", ONE_OF_TWO)];
    let blocked = blocked.map(|(call, permits)| waits_for(call, 20_000, permits)).to_vec();
    assert_eq!(queue(blocked).found(), [], "the one in front of it does not fit");
}

#[test]
fn a_gap_begins_when_a_holder_expires_and_faults_put_it_off() {
    let mut story = Story::new();
    let a = granted("a/1", [110, 2_110], ONE_OF_TWO);
    let b = granted("b/1", [110, 20_000], ONE_OF_TWO);
    let entries = vec![waits_for("c/1", 20_000, ONE_OF_TWO)];
    story.write(110, Some(State { queue: entries, ..shared(vec![a, b.clone()]) }));
    let admitted = |millis| {
        let mut story = Story(story.0.clone());
        let grants = vec![b.clone(), granted("c/1", [millis, 20_000], ONE_OF_TWO)];
        story.write(millis, Some(shared(grants)));
        story
    };
    assert_eq!(admitted(4_500).found(), []);
    let late = admitted(6_000);
    assert_eq!(late.found(), [Invariant::Gap]);
    let gaps = gaps(&late.0, &Facts::of(&late.0));
    assert_eq!(gaps.iter().map(|gap| gap.ended - gap.began).collect::<Vec<_>>(), [3_890 * MILLI]);
    let mut faulted = admitted(6_000);
    let (kind, detail) = ("lock".to_owned(), String::new());
    faulted.note(2_000, "suite", What::FaultBegan { fault: 0, kind, detail });
    faulted.note(3_000, "suite", What::FaultEnded { fault: 0 });
    assert_eq!(faulted.found(), []);
}

#[test]
fn an_exclusive_lease_that_is_free_beside_a_waiter_is_found() {
    let entries = vec![waits("b/1", 20_000)];
    let mut story = Story::new();
    story.grant(100, "a/1");
    let expired = State { queue: entries, ..held("a/1", 110) };
    assert_eq!(story.write(200, Some(expired)).write(3_000, None).found(), []);
    let mut late = Story(story.0.clone());
    late.0.changes.pop();
    assert_eq!(late.write(5_900, None).found(), [Invariant::Gap]);
}
