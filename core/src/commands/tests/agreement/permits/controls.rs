//! Negative controls: the comparison finds each deliberate change to the specification of permits, and to a command.

use std::collections::BTreeSet;

use crate::spec::AsBuilt;
use crate::spec::permits::PermitProtections;
use futures_util::stream::{self, StreamExt};
use mongo_lease_testbed::{Seed, Server};

use super::changes::{OF_ADMISSIONS, OF_HOLDERS};
use super::off::{Off, PROTECTIONS};
use super::sequence::compare;
use crate::commands::tests::agreement::SIDE_BY_SIDE;
use crate::commands::tests::agreement::changes::Change;
use crate::commands::tests::agreement::compare::Difference;
use crate::commands::tests::agreement::real::Real;

/// The number of sequences in which a difference must be found.
const SEQUENCES: u64 = 1_000;
const SEED: u64 = 17;

#[tokio::test]
async fn each_protection_of_permits_switched_off_is_found() {
    let seed = Seed::fixed("permits without a protection", SEED);
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
async fn each_changed_admission_is_found() {
    find_each("changed admissions", &OF_ADMISSIONS).await;
}

#[tokio::test]
async fn each_changed_command_of_a_sharer_is_found() {
    find_each("changed commands of sharers", &OF_HOLDERS).await;
}

#[test]
fn each_command_for_permits_has_a_change() {
    let changes = OF_ADMISSIONS.iter().chain(&OF_HOLDERS);
    let changed: BTreeSet<_> = changes.map(|change| change.command).collect();
    let commands = [
        "Admit",
        "DeleteLastHolder",
        "FastAdmit",
        "HandOff",
        "ReleaseAndAdmit",
        "ReleasePermit",
        "RenewHolders",
    ];
    assert_eq!(changed, BTreeSet::from(commands));
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
        // A command that the server refuses shows nothing.
        assert_ne!(difference.what, "reply", "{name}: {difference}");
    }
    database.drop_database().await.unwrap();
}

/// The number of the first sequence with a difference, from 1.
async fn first_difference(
    real: &Real,
    protections: &impl PermitProtections,
    control: &str,
    seed: &Seed,
) -> (u64, Difference) {
    let found = stream::iter(0..SEQUENCES)
        .map(|number| async move {
            let name = format!("$permits {control} {number}");
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
