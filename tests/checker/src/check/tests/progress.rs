//! Waits that nobody before the call explains.

use super::shares::{ONE_OF_THREE, ONE_OF_TWO, TWO_OF_TWO, shared};
use super::*;

const PROGRESS: [Invariant; 1] = [Invariant::Progress];

impl Story {
    fn progress(&self) -> Vec<Violation> {
        check_only(&self.0, &PROGRESS)
    }

    /// A call that ends without a lease.
    fn times_out(&mut self, millis: u64, call: &str) -> &mut Story {
        let (id, text) = (call.to_owned(), String::new());
        self.note(millis, worker(call), What::Ended { call: id, how: Ending::TimedOut, text })
    }

    fn fault(&mut self, [began, ended]: [u64; 2], kind: &str) -> &mut Story {
        let (kind, detail) = (kind.to_owned(), String::new());
        self.note(began, "suite", What::FaultBegan { fault: 0, kind, detail });
        self.note(ended, "suite", What::FaultEnded { fault: 0 });
        self.0.records.sort_by_key(|record| record.at);
        self
    }
}

/// `a/1` holds until 20 s, and renews as it should.
fn held_for_long() -> Story {
    let mut story = Story::new();
    story.invoke(100, "a/1").write(110, Some(long(Vec::new())));
    let until = What::Renewed { call: "a/1".to_owned(), valid_until: 19_900 * MILLI };
    story.told(120, "a/1", 110, 2_000).note(150, "a", until);
    story
}

/// The document of that holder with this queue.
fn long(queue: Vec<Waiting>) -> State {
    State { queue, ..held_until("a/1", [110, 20_000]) }
}

#[test]
fn a_wait_in_the_queue_behind_a_holder_is_explained() {
    let mut story = held_for_long();
    story.invoke(200, "b/1").write(210, Some(long(vec![waits("b/1", 20_000)])));
    story.invoke(300, "c/1");
    story.write(310, Some(long(["b/1", "c/1"].map(|call| waits(call, 20_000)).to_vec())));
    story.times_out(5_200, "b/1").times_out(5_300, "c/1");
    assert_eq!(story.progress(), []);
}

#[test]
fn a_call_that_never_joins_the_queue_is_found_although_others_hold() {
    let mut story = held_for_long();
    story.invoke(200, "b/1").times_out(5_200, "b/1");
    let found = story.progress();
    let [violation] = &found[..] else { panic!("{found:?}") };
    assert_eq!((violation.at, violation.since), (3_200 * MILLI, 200 * MILLI));
    let name_and_calls = (violation.lease.as_deref(), &violation.calls[..]);
    assert_eq!(name_and_calls, (Some("n"), &["b/1".to_owned()][..]));
    assert_eq!(violation.text, "b/1 waited for n behind nobody, 5000 ms");
    // It joins within the waiter ttl and the round trip.
    let mut late = held_for_long();
    late.invoke(200, "b/1").write(3_100, Some(long(vec![waits("b/1", 20_000)])));
    assert_eq!(late.times_out(5_200, "b/1").progress(), []);
}

#[test]
fn a_call_that_loses_its_entry_is_found() {
    let mut story = held_for_long();
    story.invoke(200, "b/1").write(210, Some(long(vec![waits("b/1", 1_500)])));
    let answered = |millis| Story(story.0.clone()).times_out(millis, "b/1").found_of(&PROGRESS);
    assert_eq!(answered(4_400), [], "its entry died at 1.5 s");
    assert_eq!(answered(4_600), PROGRESS);
}

#[test]
fn a_call_that_does_not_take_a_free_lease_is_found() {
    let mut story = held_for_long();
    story.invoke(200, "b/1").write(210, Some(long(vec![waits("b/1", 20_000)])));
    story.leaves(1_000, "a/1", None);
    let answered = |millis| Story(story.0.clone()).times_out(millis, "b/1").found_of(&PROGRESS);
    assert_eq!(answered(3_900), []);
    assert_eq!(answered(4_100), PROGRESS, "the document has gone, and with it the queue");
}

#[test]
fn a_call_that_does_not_hear_of_its_own_grant_is_found() {
    let granted_at = |told| {
        let mut story = held_for_long();
        story.invoke(200, "b/1").write(210, Some(long(vec![waits("b/1", 20_000)])));
        let own = State { promoted: "b/1.1@1".to_owned(), ..held_until("b/1", [1_000, 20_000]) };
        story.leaves(1_000, "a/1", Some(own)).told(told, "b/1", 1_000, 19_000);
        story.found_of(&PROGRESS)
    };
    assert_eq!(granted_at(3_900), []);
    assert_eq!(granted_at(4_100), PROGRESS);
}

#[test]
fn a_first_waiter_that_fits_is_found_and_one_that_does_not_is_explained() {
    let waiting = |permits| {
        let mut story = Story::new();
        let a = granted("a/1", [110, 20_000], ONE_OF_TWO);
        story.joins(110, "a/1", ONE_OF_TWO, shared(vec![a.clone()]));
        let queue = vec![waits_for("b/1", 20_000, permits)];
        story.invoke_for(200, "b/1", permits);
        story.write(210, Some(State { queue, ..shared(vec![a]) })).times_out(5_200, "b/1");
        story.found_of(&PROGRESS)
    };
    assert_eq!(waiting(TWO_OF_TWO), []);
    assert_eq!(waiting(ONE_OF_TWO), PROGRESS);
    assert_eq!(waiting(ONE_OF_THREE), PROGRESS);
}

#[test]
fn a_waiter_that_nobody_refreshes_explains_nothing_for_long() {
    let behind = |until| {
        let mut story = held_for_long();
        let line = vec![waits("dead/1", until), waits("b/1", 20_000)];
        story.invoke(200, "b/1").write(210, Some(long(line.clone())));
        let free = State { queue: line, ..held_until("a/1", [110, 1_000]) };
        story.write(1_000, Some(free)).times_out(5_200, "b/1").found_of(&PROGRESS)
    };
    assert_eq!(behind(2_400), []);
    assert_eq!(behind(2_000), PROGRESS);
}

#[test]
fn a_grant_that_stays_although_its_call_has_ended_is_no_holder() {
    // The ttl is 2 s, and noticing takes 2 s: it explains the wait until 5 s, and the wait may last for 3 s more.
    let waits_until = |millis, let_go: Option<u64>| {
        let mut story = held_for_long();
        story.invoke_with(200, "b/1", 15_000, Permits::EXCLUSIVE);
        story.write(210, Some(long(vec![waits("b/1", 20_000)])));
        for at in [3_000, 5_100, 7_000] {
            story.write(at, Some(long(vec![waits("b/1", 20_000 + at)])));
        }
        if let Some(at) = let_go {
            let releasing = What::Releasing { call: "a/1".to_owned(), how: Letting::Drop };
            story.note(at, "a", releasing);
        }
        story.times_out(millis, "b/1").found_of(&PROGRESS)
    };
    assert_eq!(waits_until(9_000, None), []);
    assert_eq!(waits_until(8_000, Some(1_000)), []);
    assert_eq!(waits_until(8_200, Some(1_000)), PROGRESS);
}

#[test]
fn calls_of_a_process_take_turns() {
    // `b/2` waits in its process; later the entry of `b/1` is its own.
    let second = |answered| {
        let mut story = held_for_long();
        story.invoke(200, "b/1").invoke(300, "b/2");
        story.write(310, Some(long(vec![waits("b/1", 4_500)])));
        story.times_out(4_400, "b/1").times_out(answered, "b/2").found_of(&PROGRESS)
    };
    assert_eq!(second(7_400), []);
    assert_eq!(second(7_600), PROGRESS, "it has no entry since 4.5 s");
    let mut other = held_for_long();
    other.invoke(200, "b/1").invoke(300, "c/1");
    other.write(310, Some(long(vec![waits("b/1", 20_000)])));
    assert_eq!(other.times_out(5_300, "c/1").times_out(5_300, "b/1").progress().len(), 1);
}

#[test]
fn faults_stops_and_deaths_explain_a_wait() {
    let waiting = || {
        let mut story = held_for_long();
        story.invoke(200, "b/1").times_out(5_200, "b/1");
        story
    };
    assert_eq!(waiting().found_of(&PROGRESS), PROGRESS);
    assert_eq!(waiting().fault([300, 400], "partition").progress(), []);
    assert_eq!(waiting().fault([300, 400], CURSOR).found_of(&PROGRESS), PROGRESS);
    let mut stopped = waiting();
    stopped.note(1_000, "b", What::Stopped).note(3_100, "b", What::Resumed);
    assert_eq!(stopped.progress(), []);
    let mut dead = held_for_long();
    dead.invoke(200, "b/1").note(1_000, "b", What::Killed);
    assert_eq!(dead.progress(), []);
    let mut dying = held_for_long();
    dying.note(200, "b", What::Crashing).invoke(201, "b/1");
    assert_eq!(dying.progress(), [], "called by another thread of it");
}

#[test]
fn a_call_waits_for_the_release_of_what_its_process_dropped_in_a_fault() {
    let story = |fault: [u64; 2], ends: u64| {
        let mut story = Story::new();
        story.grant(100, "b/0");
        let dropping = What::Releasing { call: "b/0".to_owned(), how: Letting::Drop };
        story.note(900, "b", dropping).write(910, None);
        // Half of its ttl of 2 s is the time of an attempt.
        story.invoke(6_500, "b/1").times_out(ends, "b/1").fault(fault, "cut-off");
        story
    };
    let fair = 3_000;
    assert_eq!(story([800, 2_000], 6_500 + fair + 900).progress(), []);
    assert_eq!(story([800, 2_000], 6_500 + fair + 1_100).progress().len(), 1, "for longer");
    assert_eq!(story([1_000, 2_000], 6_500 + fair + 900).progress().len(), 1, "dropped before it");
    assert_eq!(story([800, 1_400], 6_500 + fair + 900).progress().len(), 1, "the release is over");
}

#[test]
fn a_wait_without_a_limit_ends_when_faults_are_over() {
    let mut story = Story::new();
    story.fault([1_000, 59_000], "partition");
    story.invoke_with(2_000, "a/1", FOREVER_MS, Permits::EXCLUSIVE);
    let found = story.progress();
    let texts: Vec<&str> = found.iter().map(|found| &found.text[..]).collect();
    assert_eq!(texts, ["a/1 waits for n for ever, behind nobody"]);
    assert!(found[0].at > 63_000 * MILLI, "not before the fault and its aftermath are over");
    story.0.known_until = 64_000 * MILLI;
    assert_eq!(story.progress(), [], "not yet");
    story.0.known_until = Nanos::MAX;
    story.told(64_500, "a/1", 64_490, 66_000);
    assert_eq!(story.progress(), []);
}

#[test]
fn damage_and_moved_clocks_are_excused() {
    let mut story = held_for_long();
    story.invoke(200, "b/1").times_out(5_200, "b/1");
    let (name, value) = ("n".to_owned(), value("a/1"));
    let (number, with) = ("grant.ttlMs".to_owned(), "null".to_owned());
    story.note(160, "suite", What::Damaged { name, value, number, with });
    assert_eq!(story.progress(), []);
    let mut terms = story.0.terms;
    (terms.max_clock_skew, terms.clock_error) = (SECOND, 6 * SECOND);
    assert!(terms.may_break(Invariant::Progress) && !story.0.terms.may_break(Invariant::Progress));
}
