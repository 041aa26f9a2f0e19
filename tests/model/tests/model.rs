//! The protocol as built holds its claims in every state of these worlds, and each deliberate mistake is found.
//!
//! `MONGO_LEASE_MODEL=large` searches the large worlds as well, which takes minutes.

use std::time::Instant;

use mongo_lease_model::{Bounds, WrongTurn, check, find, harmless, worlds, wrong_turns};

/// Checks the protocol as it is built: no claim is broken, all sights are seen, and the search is complete.
fn holds(name: &str, bounds: &Bounds) {
    let started = Instant::now();
    let report = check(bounds);
    eprintln!("{name}: {} states, {:.1?}", report.states, started.elapsed());
    let first = report.broken.first();
    assert!(first.is_none(), "{name}: {:#?}", report.broken);
    assert!(report.is_exhausted, "{name}: the search did not come to its end");
    assert!(report.unseen.is_empty(), "{name}: never seen: {:?}", report.unseen);
}

#[test]
fn every_claim_holds_in_every_world() {
    for (name, bounds) in worlds::every_run() {
        holds(name, &bounds);
    }
    if std::env::var("MONGO_LEASE_MODEL").is_ok_and(|size| size == "large") {
        for (name, bounds) in worlds::large().into_iter().chain(harmless()) {
            holds(name, &bounds);
        }
    }
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
