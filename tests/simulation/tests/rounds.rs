//! The simulation itself: it is deterministic, and the library is right in it.

use simulation::{Plan, judge, run};

/// The seeds of rounds that ever broke a promise, and that are clean now.
const ONCE_BROKEN: &str = include_str!("../seeds");

/// A part of the round with this seed: its first faults alone.
fn part_of(seed: u64, faults: usize) -> Plan {
    let mut plan = Plan::new(seed);
    plan.faults.truncate(faults);
    plan
}

fn history(plan: &Plan) -> Vec<u8> {
    let mut bytes = Vec::new();
    run(plan, None).write(&mut bytes).expect("memory takes everything");
    bytes
}

#[test]
fn the_same_seed_gives_the_same_history() {
    let plan = Plan::new(100);
    let first = history(&plan);
    assert!(first.len() > 100_000, "hardly anything happened");
    assert!(first == history(&plan), "it ran differently the second time");
}

#[test]
fn another_seed_gives_another_history() {
    assert!(history(&part_of(1, 3)) != history(&part_of(2, 3)));
}

/// Two tests, which can run side by side.
#[test]
fn rounds_break_no_promise() {
    assert_clean(seeds().step_by(2));
}

#[test]
fn other_rounds_break_no_promise() {
    assert_clean(seeds().skip(1).step_by(2));
}

fn seeds() -> impl Iterator<Item = u64> {
    let once_broken = ONCE_BROKEN.lines().filter(|line| !line.starts_with('#'));
    let once_broken = once_broken.map(|line| line.trim().parse::<u64>().expect("a seed a line"));
    (200..204).chain(once_broken)
}

fn assert_clean(seeds: impl Iterator<Item = u64>) {
    for seed in seeds {
        let plan = Plan::new(seed);
        let history = run(&plan, None);
        let (calls, granted) = history.calls();
        assert!(granted > 1_000, "seed {seed}: {granted} grants of {calls} calls");
        let broken: Vec<String> = judge(&plan, &history).iter().map(ToString::to_string).collect();
        assert!(broken.is_empty(), "seed {seed}: {broken:#?}");
    }
}
