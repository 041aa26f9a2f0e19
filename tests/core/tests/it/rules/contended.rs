//! The memory of leases that were not granted at once.

use std::collections::HashMap;

use mongo_lease_testbed::Seed;

use mongo_lease_core::rules::contended::{Contended, NAMES_MAX};
use mongo_lease_core_tests::Chance;

#[test]
fn what_was_found_last_counts() {
    let mut contended = Contended::default();
    assert!(!contended.has("a"));
    for is_contended in [false, true, true, false, false, true] {
        contended.found("a", is_contended);
        assert_eq!(contended.has("a"), is_contended);
        assert!(!contended.has("b") && !contended.has(""), "another name");
    }
}

#[test]
fn a_known_name_makes_nobody_forget() {
    let mut contended = Contended::default();
    (0..NAMES_MAX).for_each(|number| contended.found(&number.to_string(), true));
    contended.found("0", true);
    contended.found("unknown", false);
    let is_known = |number: &usize| contended.has(&number.to_string());
    assert_eq!((0..NAMES_MAX).filter(is_known).count(), NAMES_MAX);
}

#[test]
fn there_are_never_more_names_than_may_be() {
    let mut contended = Contended::default();
    let names = NAMES_MAX * 5 / 2;
    for number in 0..names {
        contended.found(&number.to_string(), true);
        assert!(contended.has(&number.to_string()), "what was found just now is known");
        if number % (NAMES_MAX / 4) == 0 || number + 1 == names {
            let known = (0..=number).filter(|it| contended.has(&it.to_string())).count();
            assert!(known <= NAMES_MAX, "{known}");
        }
    }
}

/// It may forget names, but never invents one.
#[test]
fn at_random_nothing_is_made_up() {
    let seed = Seed::fixed("contended names", 0);
    for run in 0..100 {
        let seed = seed.number_of(run);
        let mut chance = Chance::new(seed);
        let mut contended = Contended::default();
        let mut found = HashMap::new();
        for _ in 0..300 {
            let name = chance.below(20).to_string();
            let is_contended = chance.below(2) == 0;
            contended.found(&name, is_contended);
            found.insert(name, is_contended);
            for number in 0..20 {
                let name = number.to_string();
                let wanted = found.get(&name).copied().unwrap_or(false);
                assert_eq!(contended.has(&name), wanted, "{name}, seed {seed}");
            }
        }
    }
}
