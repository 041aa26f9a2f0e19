//! Searches worlds to their ends, and prints how large they are.
//!
//! `cargo run --release -p mongo-lease-model --example explore [name | large | permits | wrong]`
//!
//! `permits` searches all worlds with permits. `wrong` prints, for each deliberate mistake, the steps to the claim that
//! it breaks.

#![allow(clippy::print_stdout)]

use std::time::Instant;

use mongo_lease_model::{
    PermitWrongTurn, Report, WrongTurn, check, check_permits, default_worlds, find, find_permits,
    harmless, large_worlds, permit_wrong_turns, worlds, wrong_turns,
};

fn main() {
    let wanted = std::env::args().nth(1);
    if wanted.as_deref() == Some("wrong") {
        return print_wrong_turns(std::env::args().nth(2));
    }
    let is_large = wanted.as_deref() == Some("large");
    let is_permits = wanted.as_deref() == Some("permits");
    let is_meant = |name: &str, is_of_group: bool| match &wanted {
        None => true,
        Some(wanted) => is_of_group || wanted == name,
    };
    let mut all = if is_large { worlds::large() } else { worlds::every_run() };
    if !is_large && wanted.is_some() {
        all.extend(worlds::large());
        all.extend(harmless());
    }
    for (name, bounds) in all.into_iter().filter(|(name, _)| is_meant(name, is_large)) {
        search(name, || check(&bounds));
    }
    let mut all = if is_large { Vec::new() } else { default_worlds() };
    all.extend(wanted.iter().flat_map(|_| large_worlds()));
    for (name, bounds) in all {
        if is_meant(name, is_large || is_permits) {
            search(name, || check_permits(&bounds));
        }
    }
}

fn search(name: &str, search: impl FnOnce() -> Report) {
    let started = Instant::now();
    let report = search();
    println!(
        "{name}: {} states, depth {}, {:.1?}, exhausted {}, unseen {:?}",
        report.states,
        report.depth,
        started.elapsed(),
        report.is_exhausted,
        report.unseen,
    );
    if let Some(found) = &report.broken {
        println!("  BROKEN: {}", found.claim);
        found.steps.iter().for_each(|step| println!("    {step}"));
    }
}

fn print_wrong_turns(wanted: Option<String>) {
    for WrongTurn { what, bounds, claim } in wrong_turns() {
        if wanted.as_ref().is_some_and(|wanted| wanted != what) {
            continue;
        }
        let steps = find(&bounds, claim).map(|found| found.steps).unwrap_or_default();
        println!("{what}: not \"{}\" after {} steps", claim.name(), steps.len());
        steps.iter().for_each(|step| println!("    {step}"));
    }
    for PermitWrongTurn { what, bounds, claim } in permit_wrong_turns() {
        if wanted.as_ref().is_some_and(|wanted| wanted != what) {
            continue;
        }
        let found = find_permits(&bounds, claim);
        let (states, steps) = found.map(|found| (found.states, found.steps)).unwrap_or_default();
        println!("{what}: not \"{}\" after {} steps, {states} states", claim.name(), steps.len());
        steps.iter().for_each(|step| println!("    {step}"));
    }
}
