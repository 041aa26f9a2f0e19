//! The simulation itself: it is deterministic, and the library is right in it.

use std::collections::HashSet;

use simulation::{History, Plan, judge, run};

/// The seeds of rounds that ever broke a promise, and that are clean now.
const ONCE_BROKEN: &str = include_str!("../seeds");

#[test]
fn the_same_seed_gives_the_same_history() {
    let plan = Plan::new(100);
    let first = written(&run(&plan, None));
    assert!(first.len() > 100_000, "hardly anything happened");
    assert!(first == written(&run(&plan, None)), "it ran differently the second time");
}

/// Two tests, which can run side by side.
#[test]
fn rounds_break_no_promise() {
    assert_clean(plans().step_by(2));
}

#[test]
fn other_rounds_break_no_promise() {
    assert_clean(plans().skip(1).step_by(2));
}

/// The plans of these rounds. The older seeds are from before there were transactions.
fn plans() -> impl Iterator<Item = Plan> {
    let mut has_transactions = false;
    ONCE_BROKEN.lines().filter_map(move |line| {
        has_transactions |= line == "# Since there are transactions:";
        let seed = line.strip_prefix('#').is_none().then(|| line.trim().parse::<u64>());
        let plan = Plan::new(seed?.expect("a seed a line"));
        Some(Plan { has_transactions: plan.has_transactions && has_transactions, ..plan })
    })
}

/// The rounds with these seeds break no promise, and no two have the same history.
fn assert_clean(plans: impl Iterator<Item = Plan>) {
    let mut histories = HashSet::new();
    for plan in plans {
        let seed = plan.seed;
        let history = run(&plan, None);
        let (calls, granted) = history.calls();
        assert!(granted > 1_000, "seed {seed}: {granted} grants of {calls} calls");
        let broken: Vec<String> = judge(&plan, &history).iter().map(ToString::to_string).collect();
        assert!(broken.is_empty(), "seed {seed}: {broken:#?}");
        assert!(histories.insert(written(&history)), "seed {seed}: another seed has its history");
    }
    assert!(histories.len() > 10, "too few seeds to tell: {}", histories.len());
}

fn written(history: &History) -> Vec<u8> {
    let mut bytes = Vec::new();
    history.write(&mut bytes).expect("memory takes everything");
    bytes
}
