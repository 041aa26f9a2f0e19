//! The guesses about names: what was found last counts, for a while.

use std::collections::HashSet;

use mongo_lease_core::rules::guesses::{FastForm, Guess, Guesses, NAMES_MAX};
use mongo_lease_core::rules::time::Instant;
use mongo_lease_core_tests::Chance;
use mongo_lease_testbed::Seed;

use super::at;

const NOW: Instant = Instant::from_nanos(1_000_000_000_000);
const ALL: [Guess; 4] = [Guess::Contended, Guess::Blocked, Guess::Used, Guess::Awaited];

#[test]
fn a_known_name_makes_nobody_forget() {
    let mut guesses = Guesses::default();
    for number in 0..NAMES_MAX {
        guesses.note(NOW, Guess::Contended, &number.to_string(), true);
    }
    guesses.note(NOW, Guess::Contended, "0", true);
    guesses.note(NOW, Guess::Contended, "unknown", false);
    guesses.note(NOW, Guess::Blocked, "another guess", true);
    let is_known = |number: &usize| guesses.has(NOW, Guess::Contended, &number.to_string());
    assert_eq!((0..NAMES_MAX).filter(is_known).count(), NAMES_MAX);
}

#[test]
fn there_are_never_more_names_than_may_be() {
    let mut guesses = Guesses::default();
    guesses.note(NOW, Guess::Used, "another guess", true);
    let names = NAMES_MAX * 5 / 2;
    for number in 0..names {
        guesses.note(NOW, Guess::Contended, &number.to_string(), true);
        let is_known = |number: usize| guesses.has(NOW, Guess::Contended, &number.to_string());
        assert!(is_known(number), "what was found just now is known");
        if number % (NAMES_MAX / 4) == 0 || number + 1 == names {
            let known = (0..=number).filter(|it| is_known(*it)).count();
            assert!(known <= NAMES_MAX, "{known}");
        }
    }
    assert!(guesses.has(NOW, Guess::Used, "another guess"));
}

/// It may forget names, but never invents one. Each guess has names of its own.
#[test]
fn at_random_what_was_found_last_counts() {
    let seed = Seed::fixed("guessed names", 0);
    for run in 0..100 {
        let seed = seed.number_of(run);
        let mut chance = Chance::new(seed);
        let mut guesses = Guesses::default();
        let mut found = HashSet::new();
        for _ in 0..300 {
            let (guess, name) = (chance.one_of(&[0, 1, 2]), chance.below(20));
            let is_true = chance.below(2) == 0;
            guesses.note(NOW, ALL[guess], &name.to_string(), is_true);
            found.remove(&(guess, name));
            found.extend(is_true.then_some((guess, name)));
            let all = (0..ALL.len()).flat_map(|guess| (0..20).map(move |name| (guess, name)));
            let has =
                |(guess, name): &(usize, u64)| guesses.has(NOW, ALL[*guess], &name.to_string());
            assert_eq!(all.filter(has).collect::<HashSet<_>>(), found, "seed {seed}");
        }
    }
}

#[test]
fn a_name_that_was_used_lately_is_looked_up() {
    let mut guesses = Guesses::new(true);
    for (second, name, form) in [
        (1, "a", FastForm::Insert),
        (2, "a", FastForm::LookUp),
        (2, "b", FastForm::Insert),
        // Each use counts again.
        (31, "a", FastForm::LookUp),
        (60, "a", FastForm::LookUp),
        (90, "a", FastForm::Insert),
    ] {
        assert_eq!(guesses.fast_form(at(second), name), form, "{name} at {second} s");
    }
    // Without tombstones, or where the server would not notice that the index is missing.
    let mut guesses = Guesses::new(false);
    assert_eq!([1, 2].map(|second| guesses.fast_form(at(second), "a")), [FastForm::LookUp; 2]);
}

#[test]
fn after_an_insert_finds_a_document_some_names_are_looked_up() {
    let mut guesses = Guesses::new(true);
    assert_eq!(guesses.fast_form(at(1), "a"), FastForm::Insert);
    guesses.found_a_document();
    let forms: Vec<FastForm> =
        (0..20).map(|name: u32| guesses.fast_form(at(1), &name.to_string())).collect();
    assert!(forms[..8].iter().all(|form| *form == FastForm::LookUp), "{forms:?}");
    assert!(forms[8..].iter().all(|form| *form == FastForm::Insert), "{forms:?}");
}
