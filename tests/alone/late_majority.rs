//! A real replica set whose majority is late: two of its three members apply each write so many seconds later. The
//! exact times are those of `tests/it/late_majority` in memory. Here a bound has a busy machine's patience added.

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use mongo_lease::mongodb::bson::{Bson, doc};
use mongo_lease::{Lease, LeaseManager, LeaseManagerBuilder, Released, Tuning};
use mongo_lease_testbed::{ReplicaSet, TestDatabase};

use crate::patience::until;

/// The time that a busy machine may take for anything, beside the delay.
const PATIENCE: Duration = Duration::from_secs(30);
const LEASES: usize = 10;
/// Longer than an unconfirmed lease of the default ttl is valid.
const HELD: Duration = Duration::from_secs(40);

fn builder(database: &TestDatabase) -> LeaseManagerBuilder {
    LeaseManager::builder(database).release_timeout(PATIENCE + HELD)
}

/// A replica set with the indexes, whose majority is late from now on.
async fn late_by(delay: Duration) -> (ReplicaSet, TestDatabase) {
    let set = ReplicaSet::start();
    let database = TestDatabase::of(&set.client().await);
    builder(&database).ensure_indexes(true).build().await.expect("the indexes are made");
    let client = set.client().await;
    let admin = client.database("admin");
    let reply = admin.run_command(doc! { "replSetGetConfig": 1 }).await.unwrap();
    let mut config = reply.get_document("config").unwrap().clone();
    let version = config.get_i32("version").unwrap();
    config.insert("version", version + 1);
    let primary = i32::try_from(set.primary().await).unwrap();
    let seconds = i64::try_from(delay.as_secs()).unwrap();
    for member in config.get_array_mut("members").unwrap() {
        let member = member.as_document_mut().unwrap();
        if member.get_i32("_id").unwrap() != primary {
            member.extend(doc! { "priority": 0, "secondaryDelaySecs": seconds });
        }
    }
    let _ = admin.run_command(doc! { "replSetReconfig": Bson::from(config) }).await.unwrap();
    (set, database)
}

#[track_caller]
fn assert_took(started: Instant, most: Duration, what: &str) {
    let took = started.elapsed();
    assert!(took <= most + PATIENCE, "{what} took {took:?}");
}

/// Ten leases are granted, outlive their first validity, and are released; and one is handed on.
async fn nothing_fails(seconds: u64) {
    let delay = Duration::from_secs(seconds);
    let (_set, database) = late_by(delay).await;
    let patient = Tuning::default().waiter_ttl(Duration::from_secs(30));
    let leases = builder(&database).build().await.unwrap();
    let waiters = builder(&database).tuning(patient).build().await.unwrap();

    let started = Instant::now();
    let names = (0..LEASES).map(|number| format!("lease:{number}"));
    let calls = names.map(|name| leases.acquire(name).wait(PATIENCE + HELD).into_future());
    let mut held: Vec<Lease> = Vec::new();
    for granted in join_all(calls).await {
        held.push(granted.unwrap());
    }
    // A member counts the delay in whole seconds.
    let least = delay - Duration::from_secs(1);
    assert!(started.elapsed() >= least, "nobody believes before a majority has it");
    assert_took(started, delay, "the grants");

    // Lost leases end this at once.
    let lost = futures_util::future::select_all(held.iter().map(|lease| Box::pin(lease.lost())));
    let lost = tokio::time::timeout(HELD, lost).await.map(|(reason, ..)| reason.to_string());
    assert!(lost.is_err(), "late by {delay:?}: {lost:?}");
    assert!(held.iter().all(Lease::is_valid));

    // A refusal needs no majority, and these travel with calls that do. At 10 s those get none in their time.
    let names = (0..2 * LEASES).map(|number| format!("lease:{number}"));
    let tried = join_all(names.map(|name| waiters.try_acquire(name))).await;
    let are_refused = tried.iter().take(LEASES).all(|it| matches!(it, Ok(it) if !it.is_granted()));
    assert!(are_refused, "{tried:?}");
    drop(tried);

    let waits = tokio::spawn(waiters.acquire("lease:0").wait_forever().into_future());
    until("it joins the queue", async || {
        let found = leases.get("lease:0").await.unwrap();
        found.is_some_and(|info| info.waiting > 0).then_some(())
    })
    .await;
    let started = Instant::now();
    let released = join_all(held.into_iter().map(Lease::release)).await;
    assert_took(started, delay, "the releases");
    assert!(released.iter().all(|it| matches!(it, Ok(Released::Released))), "{released:?}");
    let next = waits.await.unwrap().unwrap();
    assert_took(started, delay * 2, "the hand-off");
    assert!(next.is_valid());
}

#[tokio::test]
async fn a_majority_that_is_late_by_3_s_fails_nothing() {
    nothing_fails(3).await;
}

#[tokio::test]
async fn a_majority_that_is_late_by_6_s_fails_nothing() {
    nothing_fails(6).await;
}

#[tokio::test]
async fn a_majority_that_is_late_by_10_s_fails_nothing() {
    nothing_fails(10).await;
}
