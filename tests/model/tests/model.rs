//! The protocol as it is built holds its claims in every state of these worlds, and each wrong turn is found.
//!
//! `MONGO_LEASE_MODEL=large` searches the large worlds as well, which takes minutes.

use std::time::Instant;

use mongo_lease_model::{Bounds, Claim, Variant, check, find, worlds};

/// The protocol as it is built: nothing is broken, everything that should happen does, and the search came to its end.
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
        for (name, bounds) in worlds::large() {
            holds(name, &bounds);
        }
    }
}

#[test]
fn every_wrong_turn_is_found() {
    for (what, bounds, claim) in wrong_turns() {
        let found = find(&bounds, claim);
        let Some(found) = found else {
            panic!("{what}: \"{}\" was not found broken", claim.name());
        };
        let (steps, states) = (found.steps.len(), found.states);
        eprintln!("{what}: not \"{}\" after {steps} steps, {states} states", found.claim);
        assert!(steps > 1, "{what}: {:#?}", found.steps);
    }
}

/// What is wrong, in which world, and which claim it breaks.
fn wrong_turns() -> Vec<(&'static str, Bounds, Claim)> {
    use Claim::{
        DocumentNamesBeliever, KeepsWhatIsHeld, LoserCannotCommit, LossIsFinal, NothingStaysBehind,
        OneBelieves, ReleasesOnlyOwn, TokensRise,
    };
    use worlds::{attempts, renewals, rollback, smallest, unbounded, with};
    vec![
        ("a plain $set in a renewal", with(Variant::PlainSetInRenewal, renewals()), OneBelieves),
        (
            "a plain $set in a repeated acquire",
            with(Variant::PlainSetInRepeatedAcquire, attempts()),
            OneBelieves,
        ),
        (
            "validity counted from the reply",
            with(Variant::ValidityFromReply, smallest()),
            OneBelieves,
        ),
        ("a retried token", with(Variant::RetriedToken, unbounded()), TokensRise),
        ("a value used twice", with(Variant::ValueUsedTwice, smallest()), OneBelieves),
        (
            "a guard by name and value only",
            with(Variant::GuardWithoutGrantId, unbounded()),
            LoserCannotCommit,
        ),
        (
            "w: 1 with a rollback, believers",
            with(Variant::AcknowledgedByOne, rollback()),
            OneBelieves,
        ),
        ("w: 1 with a rollback, tokens", with(Variant::AcknowledgedByOne, rollback()), TokensRise),
        (
            "w: 1 with a rollback, the document",
            with(Variant::AcknowledgedByOne, rollback()),
            DocumentNamesBeliever,
        ),
        (
            "a guard that writes nothing",
            with(Variant::GuardThatWritesNothing, unbounded()),
            LoserCannotCommit,
        ),
        ("a release by name", with(Variant::ReleaseByName, smallest()), ReleasesOnlyOwn),
        (
            "a late grant that is forgotten",
            with(Variant::LateGrantForgotten, attempts()),
            NothingStaysBehind,
        ),
        ("a loss that a late renewal revokes", with(Variant::LossRevoked, renewals()), LossIsFinal),
        ("giving back at once", with(Variant::GivenBackAtOnce, attempts()), KeepsWhatIsHeld),
        ("a clock slower than the margin covers", worlds::clock_too_slow(), OneBelieves),
        ("members' clocks too far apart", worlds::clocks_too_far_apart(), OneBelieves),
    ]
}
