//! The same comparison for leases in shared use: the commands for permits, with those of exclusive leases among them,
//! on the same documents.
//!
//! | effect in `spec::permits` | command | step |
//! | --- | --- | --- |
//! | `admit` | `Admit` | `Admit` |
//! | `fast_admit`, `fast_admit_reply` | `FastAdmit` | `FastAdmit` |
//! | `renew_permits` | `RenewHolders`, of one grant and of two | `Renew` |
//! | `release_and_admit` | `ReleaseAndAdmit`, of a grant, and of a grant or an entry | `ReleaseAndAdmit` |
//! | `release_permit` | `ReleasePermit` | `ReleasePermit` |
//! | `delete_last_holder` | `DeleteLastHolder` | `DeleteLastHolder` |
//!
//! Every other step is one of the comparison above: an exclusive command, another program, or the TTL monitor. Writes
//! put the document in shared use with holders that have expired, that do not fit together, that share an id or a
//! value, or that are corrupt; and queues with waiters for shares, exclusive ones and corrupt ones.

mod changes;
mod controls;
pub(super) mod documents;
mod effects;
mod off;
mod results;
mod sequence;
mod steps;

use std::collections::BTreeMap;

use crate::spec::AsBuilt;
use futures_util::stream::{self, StreamExt};
use mongo_lease_testbed::{Seed, Server};

use super::SIDE_BY_SIDE;
use super::real::Real;

const SEQUENCES: u64 = 400;
/// How often each result occurs at least. In 400 sequences the rarest one comes some 20 times; a shorter run may miss
/// it.
const SEEN_MIN: u64 = 5;

#[tokio::test]
async fn the_server_admits_as_the_specification_says() {
    let seed = Seed::fresh("permits against a real server");
    let count = std::env::var("MONGO_LEASE_MODEL_SEQUENCES").ok();
    let count = count.map_or(SEQUENCES, |text| text.parse().expect("a number of sequences"));
    let database = Server::shared().database().await;
    let real = Real::new(&database, None).await;
    let mut sequences = stream::iter(0..count)
        .map(async |number| {
            let seed = seed.number_of(number);
            sequence::compare(&real, &AsBuilt, &format!("${number}"), seed).await
        })
        .buffer_unordered(SIDE_BY_SIDE);
    let mut counts: BTreeMap<(&str, &str), u64> = BTreeMap::new();
    while let Some(results) = sequences.next().await {
        let results = results.unwrap_or_else(|difference| panic!("{difference}"));
        results.into_iter().for_each(|result| *counts.entry(result).or_default() += 1);
    }
    eprintln!("{counts:#?}");
    let mut rare = Vec::new();
    for (step, results) in results::RESULTS {
        let seen = |result: &str| counts.get(&(step, result)).copied().unwrap_or_default();
        let few = results.iter().filter(|result| seen(result) < SEEN_MIN);
        rare.extend(few.map(|result| format!("{step}: {result}, {}", seen(result))));
    }
    assert!(rare.is_empty() || count < SEQUENCES, "some are rare: {rare:#?}");
    database.drop_database().await.unwrap();
}

#[test]
fn each_effect_of_permits_has_its_step() {
    let exports = include_str!("../../../../spec/permits/mod.rs").split("pub use ").skip(1);
    let own = exports.filter(|export| !export.starts_with("super::"));
    let lists = own.filter_map(|export| export.split(';').next()?.split("::").nth(1));
    let names = lists.flat_map(|list| {
        list.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_')
    });
    let effects: Vec<&str> =
        names.filter(|name| name.starts_with(|letter: char| letter.is_ascii_lowercase())).collect();
    assert!(effects.len() > 5, "{effects:?}");
    for effect in effects {
        let call = format!("permits::{effect}(");
        assert!(include_str!("effects.rs").contains(&call), "no step calls {call}");
        assert!(include_str!("mod.rs").contains(&format!("`{effect}`")), "no row: {effect}");
    }
}
