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
