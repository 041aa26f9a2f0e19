//! What safety costs: acquire and release beside the driver's bare insert and delete, in the same run.
//!
//! Rounds of both are interleaved, and each figure is the median of the rounds' ratios, so that a busy moment of the
//! machine falls on both. Times are printed for orientation only. `cargo bench --bench floor`.

#![allow(clippy::print_stdout, missing_docs, reason = "a benchmark's result is what it prints")]

use std::time::{Duration, Instant};

use mongo_lease::mongodb::bson::{DateTime, Document, doc, oid::ObjectId};
use mongo_lease::mongodb::error::{Error as DriverError, Result};
use mongo_lease::mongodb::options::{Acknowledgment, CollectionOptions, WriteConcern};
use mongo_lease::mongodb::{Collection, Database};
use mongo_lease::{Attempt, LeaseManager};
use mongo_lease_testbed::Server;

const ROUNDS: usize = 30;
const PAIRS: usize = 100;

/// One round's times for each half of a pair.
#[derive(Clone, Copy, Default)]
struct Pair {
    take: Duration,
    give: Duration,
}

#[tokio::main]
async fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let server = Server::start();
    let database = server.database().await;
    let leases = LeaseManager::builder(&database).ensure_indexes().await?.build().await?;
    let bare = bare_collection(&database).await?;

    // One round of each to open the connections.
    ours(&leases, 0).await?;
    floor(&bare, 0).await?;
    let mut rounds = Vec::new();
    for round in 1..=ROUNDS {
        let floor = floor(&bare, round).await?;
        let ours = ours(&leases, round).await?;
        rounds.push((floor, ours));
    }
    println!("{ROUNDS} rounds of {PAIRS} pairs, interleaved; one node, majority and journal");
    report("acquire / insert_one", &rounds, |pair| pair.take);
    report("release / delete_one", &rounds, |pair| pair.give);
    report("pair / pair", &rounds, |pair| pair.take + pair.give);
    losing(&leases, &bare).await?;
    leases.shutdown().await;
    Ok(())
}

/// The same collection without us: the same two indexes, the same document as the recipe writes.
async fn bare_collection(database: &Database) -> Result<Collection<Document>> {
    LeaseManager::builder(database)
        .collection("bare")
        .ensure_indexes()
        .await
        .map_err(DriverError::from)?;
    let majority = WriteConcern::builder().w(Acknowledgment::Majority).journal(true).build();
    let options = CollectionOptions::builder().write_concern(majority).build();
    Ok(database.collection_with_options("bare", options))
}

async fn floor(bare: &Collection<Document>, round: usize) -> Result<Pair> {
    let mut pair = Pair::default();
    for number in 0..PAIRS {
        let name = format!("invoice:{round}:{number}");
        let expires_at = DateTime::from_millis(DateTime::now().timestamp_millis() + 30_000);
        let value = ObjectId::new().to_hex();
        let document = doc! { "name": &name, "value": &value, "expiresAt": expires_at };
        let started = Instant::now();
        bare.insert_one(document).await?;
        let taken = Instant::now();
        bare.delete_one(doc! { "name": &name, "value": &value }).await?;
        pair.take += taken - started;
        pair.give += taken.elapsed();
    }
    Ok(pair)
}

async fn ours(leases: &LeaseManager, round: usize) -> mongo_lease::Result<Pair> {
    let mut pair = Pair::default();
    for number in 0..PAIRS {
        let name = format!("invoice:{round}:{number}");
        let started = Instant::now();
        let lease = leases.acquire(name).await?;
        let taken = Instant::now();
        lease.release().await?;
        pair.take += taken - started;
        pair.give += taken.elapsed();
    }
    Ok(pair)
}

/// Losing: our refusal, which names the holder, beside the duplicate-key error of a bare insert.
async fn losing(
    leases: &LeaseManager,
    bare: &Collection<Document>,
) -> std::result::Result<(), Box<dyn std::error::Error>> {
    let _held = leases.acquire("held").await?;
    bare.insert_one(doc! { "name": "held", "value": "another" }).await?;
    let mut rounds = Vec::new();
    for _ in 0..ROUNDS {
        let mut pair = (Pair::default(), Pair::default());
        for _ in 0..PAIRS {
            let started = Instant::now();
            let refused = bare.insert_one(doc! { "name": "held", "value": "mine" }).await;
            assert!(refused.is_err(), "inserted a name twice");
            pair.0.take += started.elapsed();
            let started = Instant::now();
            let attempt = leases.try_acquire("held").await?;
            assert!(matches!(attempt, Attempt::Busy(_)), "granted twice");
            pair.1.take += started.elapsed();
        }
        rounds.push(pair);
    }
    report("losing attempt / duplicate key", &rounds, |pair| pair.take);
    Ok(())
}

/// Prints the median ratio of a figure, its quartiles, and the median times.
fn report(what: &str, rounds: &[(Pair, Pair)], figure: impl Fn(Pair) -> Duration) {
    let each = |pick: fn(&(Pair, Pair)) -> Pair| {
        quartiles(rounds.iter().map(|round| figure(pick(round)).as_secs_f64()).collect())
    };
    let ratio =
        |round: &(Pair, Pair)| figure(round.1).as_secs_f64() / figure(round.0).as_secs_f64();
    let [low, median, high] = quartiles(rounds.iter().map(ratio).collect());
    let [_, floor, _] = each(|round| round.0);
    let [_, ours, _] = each(|round| round.1);
    let per_call = |seconds: f64| seconds * 1e3 / f64::from(u32::try_from(PAIRS).unwrap_or(1));
    println!(
        "{what:<32} {median:.2} x  (quartiles {low:.2} to {high:.2}; {:.2} ms and {:.2} ms)",
        per_call(ours),
        per_call(floor)
    );
}

fn quartiles(mut figures: Vec<f64>) -> [f64; 3] {
    figures.sort_by(f64::total_cmp);
    let at = |quarter: usize| figures[(figures.len() - 1) * quarter / 4];
    [at(1), at(2), at(3)]
}
