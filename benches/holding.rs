//! What holding costs: one manager with many leases, for a while.
//!
//! `cargo bench --bench holding` holds 10,000 leases at the default ttl for two minutes. `LEASES` and `SECONDS` in
//! the environment change that. It prints the commands, the client's processor time and the memory, for each lease
//! and for each period of renewal.

#![allow(clippy::print_stdout, missing_docs, reason = "a benchmark's result is what it prints")]

use std::fs;
use std::time::{Duration, Instant};

use futures_util::StreamExt;
use mongo_lease::{Lease, LeaseManager};
use mongo_lease_testbed::Server;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let leases_wanted = from_environment("LEASES", 10_000);
    let seconds = from_environment("SECONDS", 120);
    let server = Server::start();
    let database = server.database().await;
    let leases = LeaseManager::builder(&database).ensure_indexes().await?.build().await?;
    // The connections and the first allocations are nobody's lease.
    leases.acquire("first").await?.release().await?;

    let memory_before = memory_bytes();
    let started = Instant::now();
    let held: Vec<Lease> = futures_util::stream::iter(0..leases_wanted)
        .map(|number| leases.acquire(format!("lease:{number}")).into_future())
        .buffer_unordered(16)
        .map(|lease| lease.expect("a lease"))
        .collect()
        .await;
    println!("{leases_wanted} leases acquired in {:.1} s", started.elapsed().as_secs_f64());
    let memory = memory_bytes().saturating_sub(memory_before);
    println!("memory: {} bytes a lease (growth of the resident set)", memory / leases_wanted);

    let counts = server.command_counts().await;
    let processor = processor_time();
    tokio::time::sleep(Duration::from_secs(seconds)).await;
    let processor = processor_time() - processor;
    let counts = server.command_counts().await.since(&counts);
    let periods = f64::from(u32::try_from(seconds)?) / 10.0;
    println!("held for {seconds} s: {} of {leases_wanted} still valid", valid(&held));
    println!(
        "each period: {:.1} update commands, {:.1} look-ups, {:.1} ms of client processor time",
        f64::from(u32::try_from(counts.update)?) / periods,
        f64::from(u32::try_from(counts.find)?) / periods,
        processor.as_secs_f64() * 1e3 / periods,
    );
    let started = Instant::now();
    let report = leases.shutdown().await;
    println!("shutdown: {} released in {:?}", report.released, started.elapsed());
    Ok(())
}

fn valid(held: &[Lease]) -> usize {
    held.iter().filter(|lease| lease.is_valid()).count()
}

fn from_environment(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).ok().and_then(|value| value.parse().ok()).unwrap_or(otherwise)
}

/// The resident set of this process, where the system says.
fn memory_bytes() -> u64 {
    let pages = fs::read_to_string("/proc/self/statm")
        .ok()
        .and_then(|text| text.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok()));
    pages.unwrap_or(0) * 4096
}

/// The processor time of this process, where the system says: in hundredths of a second.
fn processor_time() -> Duration {
    let text = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The name may contain anything but ends with the last bracket; user and system time are the 12th and 13th after
    // it.
    let fields: Vec<u64> = text
        .rsplit(')')
        .next()
        .unwrap_or_default()
        .split_whitespace()
        .skip(11)
        .take(2)
        .filter_map(|field| field.parse().ok())
        .collect();
    Duration::from_millis(fields.iter().sum::<u64>() * 10)
}
