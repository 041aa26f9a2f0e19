//! The simulation finds each deliberate mistake. It takes minutes, so `.ci/full` runs it, and `.ci/run` does not.

use std::collections::BTreeSet;

use simulation::{CONTROLS, Control, Plan, judge, run};

/// Two tests, which can run side by side.
#[test]
fn each_deliberate_mistake_is_found() {
    find(CONTROLS.iter().step_by(2));
}

#[test]
fn each_other_deliberate_mistake_is_found() {
    find(CONTROLS.iter().skip(1).step_by(2));
}

/// Other promises are broken earlier in the round.
#[test]
fn a_commit_that_nobody_answers_breaks_its_own_promise() {
    let control = CONTROLS.iter().find(|control| control.name == "unanswered-commits");
    let plan = Plan::new(11);
    let found = judge(&plan, &run(&plan, Some(control.expect("a control of this name"))));
    assert!(found.iter().any(|broken| broken.promise == "Commits"), "{found:?}");
}

/// Whatever the members' clocks show, tokens rise, and the fence and transactions hold. Nothing else is promised then.
#[test]
fn with_dates_that_are_off_by_seconds_what_needs_no_clock_holds() {
    let plans = || (1_000..1_020).map(|seed| Plan { dates_off_ms: 6_000, ..Plan::new(seed) });
    for plan in plans() {
        let broken = judge(&plan, &run(&plan, None));
        assert!(broken.is_empty(), "seed {}: {broken:?}", plan.seed);
    }
    for (name, promise) in [("open-resource", "Fence"), ("unguarded", "Transactions")] {
        let control = CONTROLS.iter().find(|control| control.name == name);
        let control = control.expect("a control of this name");
        let mut found = plans().flat_map(|plan| judge(&plan, &run(&plan, Some(control))));
        assert!(found.any(|broken| broken.promise == promise), "{name}");
    }
}

fn find(controls: impl Iterator<Item = &'static Control>) {
    // Rounds that are clean without a mistake.
    let mut clean = BTreeSet::new();
    let mut missed = Vec::new();
    for control in controls {
        let mut plans = (control.seed..control.seed + 40).map(Plan::new);
        let found = |plan: &Plan| !judge(plan, &run(plan, Some(control))).is_empty();
        let Some(plan) = plans.find(found) else {
            missed.push(control.name);
            continue;
        };
        if clean.insert(plan.seed) {
            let without = judge(&plan, &run(&plan, None));
            assert!(without.is_empty(), "seed {}: {without:?} without {}", plan.seed, control.name);
        }
    }
    assert!(missed.is_empty(), "not found: {missed:?}");
}
