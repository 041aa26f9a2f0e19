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
use super::changes::{Change, OF_ACQUIRES, OF_HOLDERS, OF_QUEUES};
use super::compare::{Difference, compare};
use super::off::{Off, PROTECTIONS};
use super::real::Real;
use super::results::RESULTS;

/// The number of sequences in which a difference must be found.
const SEQUENCES: u64 = 1_000;
const SEED: u64 = 15;

#[tokio::test]
async fn each_protection_switched_off_is_found() {
    let seed = Seed::fixed("specifications without a protection", SEED);
    let database = Server::shared().database().await;
    for method in PROTECTIONS {
        let real = Real::new(&database, None).await;
        let (number, difference) = first_difference(&real, &Off(method), method, &seed).await;
        eprintln!("{method} off: the {} differs in sequence {number}", difference.what);
        assert!(difference.command.is_some(), "{method}: {difference}");
    }
    database.drop_database().await.unwrap();
}

#[tokio::test]
async fn each_changed_acquire_is_found() {
    find_each("changed acquires", &OF_ACQUIRES).await;
}

#[tokio::test]
async fn each_changed_command_of_a_holder_is_found() {
    find_each("changed commands of holders", &OF_HOLDERS).await;
}

#[tokio::test]
async fn each_changed_command_about_a_queue_is_found() {
    find_each("changed commands about queues", &OF_QUEUES).await;
}

#[test]
fn each_command_has_a_change() {
    let changes = [&OF_ACQUIRES[..], &OF_HOLDERS, &OF_QUEUES].concat();
    let changed: BTreeSet<_> = changes.iter().map(|change| change.command).collect();
    let commands: BTreeSet<_> = RESULTS.into_iter().filter_map(|(_, command, _)| command).collect();
    assert_eq!(changed, commands);
}

async fn find_each(what: &'static str, changes: &[Change]) {
    let seed = Seed::fixed(what, SEED);
    let database = Server::shared().database().await;
    for change in changes {
        let name = format!("{} {}", change.command, change.name);
        let real = Real::new(&database, Some(*change)).await;
        let (number, difference) = first_difference(&real, &AsBuilt, &name, &seed).await;
        eprintln!("{name}: the {} differs in sequence {number}", difference.what);
        assert_eq!(difference.command, Some(change.command), "{name}: {difference}");
    }
    database.drop_database().await.unwrap();
}

/// The number of the first sequence with a difference, from 1.
async fn first_difference(
    real: &Real,
    protections: &impl Protections,
    control: &str,
    seed: &Seed,
) -> (u64, Difference) {
    let found = stream::iter(0..SEQUENCES)
        .map(|number| async move {
            let name = format!("${control} {number}");
            let compared = compare(real, protections, &name, seed.number_of(number)).await;
            compared.err().map(|difference| (number + 1, difference))
        })
        .buffered(SIDE_BY_SIDE)
        .filter_map(async |found| found);
    let mut found = std::pin::pin!(found);
    found
        .next()
        .await
        .unwrap_or_else(|| panic!("{control}: no difference in {SEQUENCES} sequences"))
}
