//! What the library says of hostile names and options: one JSON line for each of the table that comes in.

use std::io::{self, BufRead};
use std::time::Duration;

use mongo_lease::{Lease, LeaseManager, MemoryStore, Result, ScheduledJob, Tuning};
use serde_json::{Value, json};

use crate::Failed;

/// Reads one case a line, and tells the error's text; null where nothing is refused.
pub(crate) async fn tell() -> Result<(), Failed> {
    for line in io::stdin().lock().lines() {
        let case: Value = serde_json::from_str(&line?)?;
        println!("{}", json!(text(&case).await));
    }
    Ok(())
}

async fn text(case: &Value) -> Option<String> {
    refusal(case).await.err().map(|error| error.to_string())
}

fn time(of: &Value) -> Option<Duration> {
    of.as_f64().map(|millis| Duration::from_secs_f64(millis / 1_000.0))
}

fn number(of: &Value) -> Option<u32> {
    of.as_u64().and_then(|it| u32::try_from(it).ok())
}

async fn refusal(case: &Value) -> Result<()> {
    let leases = manager(&case["manager"]).await?;
    let name = case["name"].as_str().unwrap_or("a");
    if let Some(names) = case["names"].as_array() {
        let names = names.iter().filter_map(Value::as_str);
        drop(leases.acquire_all(names).wait(Duration::ZERO).await?);
    } else if let Some(of) = case["job"].as_object() {
        let mut job = ScheduledJob::new(&leases, name);
        if let Some(shortest) = of.get("atLeast").and_then(time) {
            job = job.at_least(shortest);
        }
        if let Some(longest) = of.get("atMost").and_then(time) {
            job = job.at_most(longest);
        }
        drop(job.run(async |_lease| ()).await?);
    } else {
        drop(acquire(&leases, name, &case["call"]).await?);
    }
    Ok(())
}

async fn manager(manager: &Value) -> Result<LeaseManager> {
    let mut builder = LeaseManager::in_memory(&MemoryStore::new());
    let mut tuning = Tuning::default();
    if let Some(text) = manager["collection"].as_str() {
        builder = builder.collection(text);
    }
    if let Some(text) = manager["owner"].as_str() {
        builder = builder.owner(text);
    }
    if let Some(time) = time(&manager["ttl"]) {
        builder = builder.ttl(time);
    }
    if let Some(time) = time(&manager["maxClockSkew"]) {
        builder = builder.max_clock_skew(time);
    }
    if let Some(time) = time(&manager["attemptTimeout"]) {
        tuning = tuning.attempt_timeout(time);
    }
    if let Some(time) = time(&manager["waiterTtl"]) {
        tuning = tuning.waiter_ttl(time);
    }
    if let Some(time) = time(&manager["recheckEvery"]) {
        tuning = tuning.recheck_every(time);
    }
    if let Some(number) = number(&manager["maxWaiting"]) {
        tuning = tuning.max_waiting(number);
    }
    builder.tuning(tuning).build().await
}

async fn acquire(leases: &LeaseManager, name: &str, call: &Value) -> Result<Lease> {
    let mut acquire = match number(&call["limit"]) {
        Some(limit) => leases.semaphore(name, limit).acquire(),
        None => leases.acquire(name),
    };
    if let Some(time) = time(&call["ttl"]) {
        acquire = acquire.ttl(time);
    }
    if let Some(time) = time(&call["maxHold"]) {
        acquire = acquire.max_hold(time);
    }
    if let Some(time) = time(&call["holdAtLeast"]) {
        acquire = acquire.hold_at_least(time);
    }
    if let Some(text) = call["owner"].as_str() {
        acquire = acquire.owner(text);
    }
    if let Some(text) = call["value"].as_str() {
        acquire = acquire.value(text);
    }
    if let Some(number) = number(&call["permits"]) {
        acquire = acquire.permits(number);
    }
    if call["shared"].as_bool() == Some(true) {
        acquire = acquire.shared();
    }
    if let Some(bytes) = number(&call["metadataBytes"]) {
        let text = "x".repeat(usize::try_from(bytes).unwrap_or(0));
        acquire = acquire.metadata(mongo_lease::mongodb::bson::doc! { "text": text });
    }
    acquire.wait(Duration::ZERO).await
}
