//! The protocol as built holds its claims in every state of these worlds, and each deliberate mistake is found.
//!
//! `MONGO_LEASE_MODEL=large` searches the large worlds as well, which takes minutes.

use std::time::Instant;

use mongo_lease_model::{
    PermitWrongTurn, Report, WrongTurn, check, check_permits, default_worlds, find, find_permits,
    harmless, large_worlds, permit_wrong_turns, worlds, wrong_turns,
};

/// Checks the protocol as it is built: no claim is broken, all sights are seen, and the search is complete.
fn holds(name: &str, search: impl FnOnce() -> Report) {
    let started = Instant::now();
    let report = search();
    eprintln!("{name}: {} states, {:.1?}", report.states, started.elapsed());
    let first = report.broken.first();
    assert!(first.is_none(), "{name}: {:#?}", report.broken);
    assert!(report.is_exhausted, "{name}: the search did not come to its end");
    assert!(report.unseen.is_empty(), "{name}: never seen: {:?}", report.unseen);
}

#[test]
fn every_claim_holds_in_every_world() {
    for (name, bounds) in worlds::every_run() {
        holds(name, || check(&bounds));
    }
    if searches_large_worlds() {
        for (name, bounds) in worlds::large().into_iter().chain(harmless()) {
            holds(name, || check(&bounds));
        }
    }
}

#[test]
fn every_claim_holds_in_every_world_with_permits() {
    let large = if searches_large_worlds() { large_worlds() } else { Vec::new() };
    for (name, bounds) in default_worlds().into_iter().chain(large) {
        holds(name, || check_permits(&bounds));
    }
}

fn searches_large_worlds() -> bool {
    std::env::var("MONGO_LEASE_MODEL").is_ok_and(|size| size == "large")
}

#[test]
fn every_wrong_turn_is_found() {
    for WrongTurn { what, bounds, claim } in wrong_turns() {
        let found = find(&bounds, claim);
        let Some(found) = found else {
            panic!("{what}: \"{}\" was not found broken", claim.name());
        };
        let (steps, states) = (found.steps.len(), found.states);
        eprintln!("{what}: not \"{}\" after {steps} steps, {states} states", found.claim);
        assert!(steps > 1, "{what}: {:#?}", found.steps);
    }
}

#[test]
fn every_wrong_turn_with_permits_is_found() {
    let turns = permit_wrong_turns();
    assert_eq!(turns.len(), 17);
    for PermitWrongTurn { what, bounds, claim } in turns {
        let found = find_permits(&bounds, claim);
        let Some(found) = found else {
            panic!("{what}: \"{}\" was not found broken", claim.name());
        };
        let (steps, states) = (found.steps.len(), found.states);
        eprintln!("{what}: not \"{}\" after {steps} steps, {states} states", found.claim);
        assert!(steps > 1, "{what}: {:#?}", found.steps);
    }
}
