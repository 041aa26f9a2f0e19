//! Negative controls: the comparison finds each deliberate change to the specification, and to a command.
//!
//! The sequences are the same in each run, so no control fails by chance. Half of the changes are found within ten
//! sequences, and each within 300. Each control ends at its first difference. The differing step is one of the
//! changed command, and the server accepted the command: a change that the server refuses shows nothing.

use std::collections::BTreeSet;

use crate::spec::{AsBuilt, Protections};
use futures_util::stream::{self, StreamExt};
use mongo_lease_testbed::{Seed, Server};

use super::SIDE_BY_SIDE;
use super::changes::{self, Change};
use super::compare::{Difference, compare};
use super::off::{Off, PROTECTIONS};
use super::real::Real;
use super::results::RESULTS;

/// The number of sequences in which a difference must be found.
const SEQUENCES: u64 = 3_000;
const SEED: u64 = 15;

#[tokio::test]
async fn each_protection_switched_off_is_found() {
    let seed = Seed::fixed("specifications without a protection", SEED);
    let database = Server::shared().database().await;
    for method in PROTECTIONS {
        let real = Real::new(&database, None).await;
        let found = first_difference(&real, &Off(method), method, &seed).await;
        let (number, difference) =
            found.unwrap_or_else(|| panic!("{method}: no difference in {SEQUENCES} sequences"));
        eprintln!("{method} off: the {} differs in sequence {number}", difference.what);
        assert!(difference.command.is_some(), "{method}: {difference}");
    }
    database.drop_database().await.unwrap();
}

#[tokio::test]
async fn each_changed_acquire_is_found() {
    find_each("changed acquires", changes::OF_ACQUIRES).await;
}

#[tokio::test]
async fn each_changed_admission_is_found() {
    find_each("changed admissions", changes::OF_ADMISSIONS).await;
}

#[tokio::test]
async fn each_changed_fast_attempt_is_found() {
    find_each("changed fast attempts", changes::OF_FAST_ATTEMPTS).await;
}

#[tokio::test]
async fn each_changed_end_is_found() {
    find_each("changed ends", changes::OF_ENDS).await;
}

#[tokio::test]
async fn each_changed_release_is_found() {
    find_each("changed releases", changes::OF_RELEASES).await;
}

#[tokio::test]
async fn each_changed_command_that_prolongs_is_found() {
    find_each("changed commands that prolong", changes::OF_RENEWALS).await;
}

#[test]
fn each_command_has_a_change() {
    let changes = changes::ALL.into_iter().flatten();
    let changed: BTreeSet<_> = changes.map(|change| change.command).collect();
    let commands: BTreeSet<_> = RESULTS.into_iter().filter_map(|(_, command, _)| command).collect();
    assert_eq!(changed, commands);
}

async fn find_each(what: &'static str, changes: &[Change]) {
    let seed = Seed::fixed(what, SEED);
    let database = Server::shared().database().await;
    let mut missed = Vec::new();
    for change in changes {
        let name = format!("{} {}", change.command, change.name);
        let real = Real::new(&database, Some(*change)).await;
        let Some((number, difference)) = first_difference(&real, &AsBuilt, &name, &seed).await
        else {
            missed.push(name);
            continue;
        };
        eprintln!("{name}: the {} differs in sequence {number}", difference.what);
        assert_eq!(difference.command, Some(change.command), "{name}: {difference}");
        // A command that the server refuses shows nothing.
        assert_ne!(difference.what, "refusal", "{name}: {difference}");
    }
    assert!(missed.is_empty(), "no difference in {SEQUENCES} sequences: {missed:#?}");
    database.drop_database().await.unwrap();
}

/// The number of the first sequence with a difference, from 1.
async fn first_difference(
    real: &Real,
    protections: &impl Protections,
    control: &str,
    seed: &Seed,
) -> Option<(u64, Difference)> {
    let found = stream::iter(0..SEQUENCES)
        .map(|number| async move {
            let name = format!("${control} {number}");
            let compared = compare(real, protections, &name, seed.number_of(number)).await;
            compared.err().map(|difference| (number + 1, difference))
        })
        .buffered(SIDE_BY_SIDE)
        .filter_map(async |found| found);
    std::pin::pin!(found).next().await
}
