//! The protocol as built holds its claims in every state of these worlds, and each deliberate mistake is found.
//!
//! A plain run leaves out the worlds with more than 200,000 states, and the mistakes that are found behind more.
//! `MONGO_LEASE_MODEL=all` searches these too, as `.ci/full model` does. `MONGO_LEASE_MODEL=large` also searches the
//! large worlds, which takes minutes.

use std::time::Instant;

use mongo_lease_model::{
    Bounds, Claim, Clocks, PermitWrongTurn, Report, WrongTurn, check, check_permits,
    default_worlds, find, find_permits, harmless, large_worlds, permit_wrong_turns, worlds,
    wrong_turns,
};

/// A world with more states than this is one of [`worlds::BIG`].
const BIG_FROM: usize = 200_000;

/// The mistakes that are found behind more states than that.
const LATE: [(&str, Claim); 10] = [
    ("a renewal that is confirmed without its echo", Claim::OneBelieves),
    ("a plain $set in a renewal", Claim::OneBelieves),
    ("a plain $set in a repeated acquire", Claim::OneBelieves),
    ("a look behind many attempts that may see what was before them", Claim::TokensRise),
    ("a piece whose grant is valid from the piece's sending", Claim::OneBelieves),
    ("a piece with the identity of what was cut off", Claim::NothingStaysBehind),
    ("a piece with the identity of what was cut off, and a guard", Claim::LoserCannotCommit),
    ("a batch that goes on behind its error", Claim::NothingStaysBehind),
    ("a renewal for the ttl in the document", Claim::OneBelieves),
    ("a heartbeat that takes heartbeatAt back and keeps the echo", Claim::OneBelieves),
];

/// The only world with permits that is not big.
const SMALL_WITH_PERMITS: &str = "permits: a renewal, and members' clocks differ";

/// The worlds that a run searches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Extent {
    Plain,
    All,
    Large,
}

impl Extent {
    fn of_this_run() -> Extent {
        match std::env::var("MONGO_LEASE_MODEL").ok().as_deref() {
            None | Some("") => Extent::Plain,
            Some("all") => Extent::All,
            Some("large") => Extent::Large,
            Some(other) => panic!("MONGO_LEASE_MODEL={other} is neither all nor large"),
        }
    }
}

/// Checks the protocol as it is built: no claim is broken, all sights are seen, and the search is complete.
fn holds(name: &str, search: impl FnOnce() -> Report) -> Report {
    let started = Instant::now();
    let report = search();
    eprintln!("{name}: {} states, {:.1?}", report.states, started.elapsed());
    assert!(report.broken.is_none(), "{name}: {:#?}", report.broken);
    assert!(report.is_exhausted, "{name}: the search did not come to its end");
    assert!(report.unseen.is_empty(), "{name}: never seen: {:?}", report.unseen);
    report
}

#[test]
fn every_claim_holds_in_every_world() {
    let extent = Extent::of_this_run();
    let mut left_out = Vec::new();
    for (name, bounds) in worlds::every_run() {
        let is_big = worlds::BIG.contains(&name);
        if is_big && extent == Extent::Plain {
            left_out.push(name);
            continue;
        }
        let report = holds(name, || check(&bounds));
        assert_eq!(report.states > BIG_FROM, is_big, "{name}: {} states", report.states);
    }
    eprintln!("left to MONGO_LEASE_MODEL=all: {left_out:?}");
    if extent == Extent::Large {
        for (name, bounds) in worlds::large().into_iter().chain(harmless()) {
            holds(name, || check(&bounds));
        }
    }
}

/// The control: without time, no renewal prolongs anything.
#[test]
fn a_sight_that_no_state_shows_is_reported() {
    let renewed = worlds::every_run().into_iter().find(|(name, _)| *name == "renewals");
    let bounds = renewed.expect("a world").1;
    let report = check(&Bounds { clocks: Clocks::Bounded { ticks: 0, skew: 0 }, ..bounds });
    assert!(report.unseen.contains(&"a renewal is confirmed"), "{:?}", report.unseen);
    assert!(!report.unseen.contains(&"somebody is granted"), "{:?}", report.unseen);
}

#[test]
fn what_a_plain_run_leaves_out_is_in_the_lists() {
    let worlds = worlds::every_run();
    for big in worlds::BIG {
        assert!(worlds.iter().any(|(name, _)| *name == big), "{big}");
    }
    let turns = wrong_turns();
    for late in LATE {
        assert!(turns.iter().any(|turn| (turn.what, turn.claim) == late), "{late:?}");
    }
    let permits = default_worlds();
    assert!(permits.iter().any(|(name, _)| *name == SMALL_WITH_PERMITS), "{SMALL_WITH_PERMITS}");
}

#[test]
fn every_claim_holds_in_every_world_with_permits() {
    let extent = Extent::of_this_run();
    let large = if extent == Extent::Large { large_worlds() } else { Vec::new() };
    for (name, bounds) in default_worlds().into_iter().chain(large) {
        if extent == Extent::Plain && name != SMALL_WITH_PERMITS {
            continue;
        }
        holds(name, || check_permits(&bounds));
    }
}

#[test]
fn every_wrong_turn_is_found() {
    let is_plain = Extent::of_this_run() == Extent::Plain;
    for WrongTurn { what, bounds, claim } in wrong_turns() {
        if is_plain && LATE.contains(&(what, claim)) {
            continue;
        }
        let found = find(&bounds, claim);
        let Some(found) = found else {
            panic!("{what}: \"{}\" was not found broken", claim.name());
        };
        let (steps, states) = (found.steps.len(), found.states);
        eprintln!("{what}: not \"{}\" after {steps} steps, {states} states", found.claim);
        let is_late = LATE.contains(&(what, claim));
        assert_eq!(states > BIG_FROM, is_late, "{what}: {states} states");
        // This claim is about a waiter's next attempt, so it may be broken before anybody has done a thing.
        let of_plans = claim == Claim::NobodySleeps;
        assert!(steps > 1 || of_plans, "{what}: {:#?}", found.steps);
    }
}

#[test]
fn every_wrong_turn_with_permits_is_found() {
    let turns = permit_wrong_turns();
    assert_eq!(turns.len(), 18);
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
