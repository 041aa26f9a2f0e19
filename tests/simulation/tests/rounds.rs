//! The simulation itself: it is deterministic, the library is right in it, and each deliberate mistake is found.

use std::collections::BTreeSet;

use simulation::{CONTROLS, Control, Plan, judge, run};

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
    for seed in 100..110 {
        let plan = Plan::new(seed);
        let first = history(&plan);
        assert!(first.len() > 100_000, "seed {seed}: hardly anything happened");
        assert!(first == history(&plan), "seed {seed} ran differently the second time");
    }
}

#[test]
fn another_seed_gives_another_history() {
    assert!(history(&part_of(1, 3)) != history(&part_of(2, 3)));
}

#[test]
fn rounds_break_no_promise() {
    let once_broken = ONCE_BROKEN.lines().filter(|line| !line.starts_with('#'));
    let once_broken = once_broken.map(|line| line.trim().parse::<u64>().expect("a seed a line"));
    for seed in (200..204).chain(once_broken) {
        let plan = Plan::new(seed);
        let history = run(&plan, None);
        let (calls, granted) = history.calls();
        assert!(granted > 1_000, "seed {seed}: {granted} grants of {calls} calls");
        let broken: Vec<String> = judge(&plan, &history).iter().map(ToString::to_string).collect();
        assert!(broken.is_empty(), "seed {seed}: {broken:#?}");
    }
}

/// Two tests, which can run side by side.
#[test]
fn each_deliberate_mistake_is_found() {
    find(CONTROLS.iter().step_by(2));
}

#[test]
fn each_other_deliberate_mistake_is_found() {
    find(CONTROLS.iter().skip(1).step_by(2));
}

fn find(controls: impl Iterator<Item = &'static Control>) {
    // Rounds that are clean without a mistake.
    let mut clean = BTreeSet::new();
    for control in controls {
        let mut plans = (control.seed..control.seed + 40).map(Plan::new);
        let found = |plan: &Plan| !judge(plan, &run(plan, Some(control))).is_empty();
        let Some(plan) = plans.find(found) else {
            panic!("{} was not found", control.name);
        };
        if clean.insert(plan.seed) {
            let without = judge(&plan, &run(&plan, None));
            assert!(without.is_empty(), "seed {}: {without:?} without {}", plan.seed, control.name);
        }
    }
}
