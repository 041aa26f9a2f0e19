//! Negative controls: the comparison finds each deliberate change to the specification, and to a command.
//!
//! The sequences are the same in each run, so no control fails by chance. Half of the changes are found within ten
//! sequences, most within 300, and one in sequence 1,164. Each control ends at its first difference. `record` has the
//! number of that sequence, with which a run begins. The differing step is one of the changed command, and the server
//! accepted the command: a change that the server refuses shows nothing.

use std::collections::BTreeSet;

use crate::spec::{AsBuilt, Off, PROTECTIONS, Protections};
use futures_util::stream::{self, StreamExt};
use mongo_lease_testbed::{Seed, TestDatabase};

use super::SIDE_BY_SIDE;
use super::changes::{self, Change};
use super::compare::{Difference, compare};
use super::real::Real;
use super::record::{self, HOW_TO, Record};
use super::results::RESULTS;
use crate::commands::tests::database;

/// The number of sequences in which a difference must be found.
const SEQUENCES: u64 = 3_000;
const SEED: u64 = 15;

#[tokio::test]
async fn each_protection_switched_off_is_found() {
    let mut search = Search::begin("specifications without a protection").await;
    for method in PROTECTIONS {
        if let Some(difference) = search.find(None, &Off(method), &without(method)).await {
            assert!(difference.command.is_some(), "{method}: {difference}");
        }
    }
    search.end().await;
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
    let changed: BTreeSet<_> = changes::all().map(|change| change.command).collect();
    let commands: BTreeSet<_> = RESULTS.into_iter().filter_map(|(command, ..)| command).collect();
    assert_eq!(changed, commands);
}

#[test]
fn each_record_is_of_a_control() {
    let controls = controls();
    let is_control = |control: &str| controls.contains(control);
    if record::is_written_anew() {
        record::write(Record::new(), is_control);
    }
    let record = record::read();
    let others: Vec<_> = record.keys().filter(|control| !is_control(control)).collect();
    assert!(others.is_empty(), "no controls: {others:#?}. `{HOW_TO}` takes them out");
}

fn controls() -> BTreeSet<String> {
    changes::all().map(|change| change.control).chain(PROTECTIONS.map(without)).collect()
}

fn without(method: &str) -> String {
    format!("without {method}")
}

async fn find_each(what: &'static str, table: &'static str) {
    let mut search = Search::begin(what).await;
    for change in changes::of(table) {
        let (name, command) = (change.control.clone(), change.command);
        if let Some(difference) = search.find(Some(change), &AsBuilt, &name).await {
            assert_eq!(difference.command, Some(command), "{name}: {difference}");
            // A command that the server refuses shows nothing.
            assert_ne!(difference.what, "refusal", "{name}: {difference}");
        }
    }
    search.end().await;
}

/// The search for the differences of some controls.
struct Search {
    seed: Seed,
    database: TestDatabase,
    /// Where each control was found before. `None`: with another seed, or while the record is written anew.
    record: Option<Record>,
    /// The findings of a search from the first sequence on.
    found: Record,
    missed: Vec<String>,
}

impl Search {
    async fn begin(what: &'static str) -> Search {
        let seed = Seed::fixed(what, SEED);
        let database = database().await;
        let record = (seed.number() == SEED && !record::is_written_anew()).then(record::read);
        Search { seed, database, record, found: Record::new(), missed: Vec::new() }
    }

    /// The control's difference, in the recorded sequence or else in the first one that has any.
    async fn find(
        &mut self,
        change: Option<Change>,
        protections: &impl Protections,
        control: &str,
    ) -> Option<Difference> {
        let real = Real::new(&self.database, change);
        let recorded = self.record.as_ref().and_then(|record| record.get(control));
        if let Some(number) = recorded {
            let name = format!("${control}, recorded");
            let seed = self.seed.number_of(number - 1);
            if let Err(difference) = compare(&real, protections, &name, seed).await {
                eprintln!("{control}: the {} differs in sequence {number}", difference.what);
                return Some(difference);
            }
        }
        let Some((number, difference)) =
            first_difference(&real, protections, control, &self.seed).await
        else {
            self.missed.push(control.to_owned());
            return None;
        };
        eprintln!("{control}: the {} differs first in sequence {number}", difference.what);
        self.found.insert(control.to_owned(), number);
        Some(difference)
    }

    /// Fails when a control was not found, or not where the record says.
    async fn end(self) {
        let Search { seed, database, record, found, missed } = self;
        assert!(missed.is_empty(), "no difference in {SEQUENCES} sequences: {missed:#?}");
        match record {
            Some(_) => assert!(
                found.is_empty(),
                "all are found, but not where the record says, which makes each run slow: \
                 {found:#?}. `{HOW_TO}` writes it anew"
            ),
            None if seed.number() == SEED => {
                let controls = controls();
                record::write(found, |control| controls.contains(control));
            }
            None => {}
        }
        database.drop_database().await.unwrap();
    }
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
