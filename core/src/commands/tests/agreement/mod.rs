//! Compares the specification of the commands with a real server: random sequences of the library's commands must give
//! the same answers and documents on both.
//!
//! Nothing here waits for time to pass: leases last for hours, and an expired one was set back by hours. So times that
//! differ by less than the length of this test count as equal.
//!
//! `MONGO_LEASE_SEED=<number>` repeats the sequences of an earlier run. `MONGO_LEASE_MODEL_SEQUENCES=<number>` is how
//! many there are (50; 800 in `.ci/full model`), besides those that a run takes in for their rare results.
//!
//! # Every command
//!
//! | effect in `spec` | command | step |
//! | --- | --- | --- |
//! | `acquire` | `SlowAcquire`, under each limit | `Acquire`, `Slow` |
//! | `fast_acquire`, `fast_reply` | `FastAcquire`; `FastAcquireMany`, and the `FindLeases` after it | `Fast`, `FastWithOthers` |
//! | `fast_admit`, `fast_admit_reply` | `FastAdmit` | `Admit` |
//! | `insert` | `FastAcquire` in the form that inserts | `Insert` |
//! | `renew` | `RenewMany` | `Renew` |
//! | `renew_holders` | `RenewHolders`, of one grant and of two | `RenewHolders` |
//! | `resume` | `Resume`, with a ttl or without, under a fresh id or the key's own | `Resume` |
//! | `guard` | `Guard`, in a transaction that commits or aborts | `Guard` |
//! | `heartbeat` | `Heartbeat` | `Heartbeat` |
//! | (a read) | `FindEntries` | `FindEntries` |
//! | `delete` | `Delete`, in each form | `Release`, `Delete` |
//! | `tombstone` | `Tombstone`, in each form | `Tombstone` |
//! | `end` | `End`, in each form and scope | `End` |
//! | `release_later` | `EndLater` | `Later` |
//! | `foreign_acquire`, `foreign_release` | another program's upsert and delete | `ForeignAcquire`, `ForeignRelease` |
//! | `ttl_delete` | the delete of the TTL monitor | `TtlDelete` |
//!
//! The other steps write an expiry, a value, a grant, a queue or holders as another program may have left it: past,
//! future, absent, of foreign types, with corrupt elements, with times ahead of the server's clock, or with holders
//! that do not fit together. `results` says which results each step must have had.
//!
//! The callers of some sequences ask for the exclusive lease, those of others for shares, and most have both. There are
//! few values, so calls with the same value meet, as where their users chose it.
//!
//! # Negative controls
//!
//! `controls` compares a specification in which one protection is switched off, and commands with one deliberate
//! change. Each must show a difference. `first_differences.txt` has the number of the sequence that shows it, so that a
//! run begins there. `MONGO_LEASE_CONTROLS=record` searches from the first sequence on, and writes that file anew.

mod changes;
mod compare;
mod controls;
mod documents;
mod edits;
mod effects;
mod lists;
mod names;
mod others;
mod real;
mod record;
mod requests;
mod results;
mod steps;
mod texts;

use std::collections::BTreeMap;

use futures_util::stream::{self, StreamExt};
use mongo_lease_testbed::Seed;

use compare::{StepResult, by_the_spec, compare};
use real::Real;
use results::{BEHIND_FOREIGN, RESULTS};

use crate::commands::tests::database;
use crate::spec::AsBuilt;

const SEQUENCES: u64 = 50;
/// How often each result occurs at least.
const SEEN_MIN: u64 = 2;
/// So many are searched for rare results. The rarest comes once in some thousand.
const SEARCHED_MAX: u64 = 200_000;
const SIDE_BY_SIDE: usize = 8;

#[tokio::test]
async fn the_server_does_what_the_specification_says() {
    let seed = Seed::fresh("the specification against a real server");
    let count = std::env::var("MONGO_LEASE_MODEL_SEQUENCES").ok();
    let count = count.map_or(SEQUENCES, |text| text.parse().expect("a number of sequences"));
    let database = database().await;
    let real = Real::new(&database, None);
    let mut sequences = stream::iter(chosen(&seed, count).into_iter().enumerate())
        .map(async |(place, number)| {
            compare(&real, &AsBuilt, &format!("${place}-{number}"), number).await
        })
        .buffer_unordered(SIDE_BY_SIDE);
    // If nothing is ever granted, or never refused, the comparison shows nothing.
    let mut missing = sought();
    while let Some(results) = sequences.next().await {
        let results = results.unwrap_or_else(|difference| panic!("{difference}"));
        results.iter().for_each(|result| count_down(&mut missing, result));
    }
    assert!(missing.is_empty(), "some are rare: {missing:#?}");
    database.drop_database().await.unwrap();
}

/// Each result of a step, and how often it must still come.
fn sought() -> BTreeMap<StepResult, u64> {
    let mut sought = BTreeMap::new();
    for (_, steps, results) in RESULTS {
        for step in steps.split(", ") {
            sought.extend(results.split(", ").map(|result| ((step, result), SEEN_MIN)));
        }
    }
    // Specification and server once differed there.
    sought.insert(("acquire", BEHIND_FOREIGN), 1);
    sought
}

fn count_down(missing: &mut BTreeMap<StepResult, u64>, result: &StepResult) {
    if let Some(times) = missing.get_mut(result) {
        *times -= 1;
        if *times == 0 {
            missing.remove(result);
        }
    }
}

/// The first sequences from this seed on, and of those behind them each that has a result which is missing in these.
fn chosen(seed: &Seed, count: u64) -> Vec<u64> {
    let mut missing = sought();
    let mut chosen = Vec::new();
    for place in 0..SEARCHED_MAX {
        if place >= count && missing.is_empty() {
            break;
        }
        let number = seed.number_of(place);
        let results = by_the_spec(number);
        if place < count || results.iter().any(|result| missing.contains_key(result)) {
            results.iter().for_each(|result| count_down(&mut missing, result));
            chosen.push(number);
        }
    }
    eprintln!("{} sequences, and {count} without the rare results", chosen.len());
    chosen
}

#[test]
fn each_effect_in_the_specification_has_its_step() {
    let exports = include_str!("../../../spec/mod.rs").split("pub use ").skip(1);
    let names = exports.flat_map(|export| {
        let end = export.find(';').expect("a semicolon");
        export[..end].split("::").nth(1).into_iter().flat_map(|list| {
            list.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_')
        })
    });
    let effects = names.filter(|name| name.starts_with(|letter: char| letter.is_ascii_lowercase()));
    let effects: Vec<&str> = effects.collect();
    assert!(effects.len() > 10, "{effects:?}");
    for effect in effects {
        let call = format!("spec::{effect}(");
        assert!(include_str!("effects.rs").contains(&call), "no step calls {call}");
        let row = format!("`{effect}`");
        assert!(include_str!("mod.rs").contains(&row), "not in the table: {effect}");
    }
}
