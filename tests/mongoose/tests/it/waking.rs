//! A waiter gets the lease that the other side releases.

use mongo_lease::Tuning;
use std::time::Duration;

use mongo_lease::mongodb::bson::{Document, doc};

use crate::clock::{self, Micros};
use crate::common::{LONG_TTL, SHORT_TTL, builder, document, migrated};
use crate::neighbour::{Neighbour, NeighbourOptions, ONCE, WAITING};
use crate::patience::{PATIENCE, soon, until_in_line};

/// Polls come after 10 to 250 ms; this is for a busy machine, and far from any ttl here.
const POLLS: Duration = Duration::from_secs(10);

fn micros(duration: Duration) -> Micros {
    u64::try_from(duration.as_micros()).unwrap()
}

#[tokio::test]
async fn who_stands_in_line_here_gets_what_mongoose_releases() {
    let database = migrated().await;
    let mongoose = Neighbour::start(&database).await;
    // Neither the `recheck_every` nor a heartbeat comes as soon: it must be polling.
    let patient = || {
        builder(&database).tuning(Tuning::default().recheck_every(LONG_TTL).waiter_ttl(PATIENCE))
    };
    let first = patient().build().await.unwrap();
    let second = patient().build().await.unwrap();
    let theirs = mongoose.lock("a", ONCE).await.expect("it is free");

    let mut waits = Vec::new();
    for (number, leases) in [&first, &second].into_iter().enumerate() {
        let asked = leases.acquire("a").wait_forever();
        waits.push(tokio::spawn(async move {
            let lease = asked.await.unwrap();
            let granted = clock::now();
            assert!(lease.is_valid());
            lease.release().await.unwrap();
            granted
        }));
        until_in_line(&first, "a", u32::try_from(number).unwrap() + 1).await;
    }
    // Mongoose's deletion removes the queue as well, without an event.
    let released = clock::now();
    assert!(mongoose.release("a", &theirs).await);
    let mut granted = Vec::new();
    for wait in waits {
        granted.push(soon("a grant", wait).await.unwrap());
    }
    granted.sort_unstable();
    eprintln!("after Mongoose's release: granted after {} µs", granted[0] - released);
    assert!(granted[0] - released < micros(POLLS), "{granted:?}, released at {released}");
    assert_eq!(document(&database, "a").await, None);
}

#[tokio::test]
async fn mongoose_gets_what_we_release_while_it_polls() {
    let database = migrated().await;
    let mongoose = Neighbour::start(&database).await;
    let leases = builder(&database).build().await.unwrap();
    let lease = leases.acquire("a").ttl(LONG_TTL).await.unwrap();

    let (asked, released) = tokio::join!(mongoose.acquire("a", WAITING), async {
        // It reads its orders one after the other: its acquire has begun.
        mongoose.fields("a").await;
        let released = clock::now();
        lease.release().await.unwrap();
        released
    });
    let granted = asked.granted.expect("granted before its patience ends");
    assert!(asked.wanted < released && released < granted.from);
    eprintln!("after our release: granted after {} µs", granted.from - released);
    assert!(granted.from - released < micros(POLLS));
}

#[tokio::test]
async fn who_stands_in_line_here_goes_before_a_mongoose_that_polls() {
    let database = migrated().await;
    let mongoose = Neighbour::start(&database).await;
    let holder = builder(&database).build().await.unwrap();
    // A waiter without a heartbeat for long, on a busy machine, stays in the queue.
    let waiter =
        builder(&database).tuning(Tuning::default().waiter_ttl(PATIENCE)).build().await.unwrap();
    let lease = holder.acquire("a").ttl(LONG_TTL).await.unwrap();
    let waits = tokio::spawn(waiter.acquire("a").ttl(LONG_TTL).wait_forever().into_future());
    until_in_line(&holder, "a", 1).await;

    let (asked, released) = tokio::join!(mongoose.acquire("a", WAITING), async {
        mongoose.fields("a").await;
        lease.release().await.unwrap();
        let next = soon("the next in line has it", waits).await.unwrap().unwrap();
        assert_eq!(mongoose.lock("a", ONCE).await, None);
        let released = clock::now();
        next.release().await.unwrap();
        released
    });
    let granted = asked.granted.expect("granted before its patience ends");
    assert!(granted.from > released);
}

#[tokio::test]
async fn a_lease_of_a_killed_mongoose_is_granted_only_after_expiry() {
    let database = migrated().await;
    let mongoose = Neighbour::start(&database).await;
    let leases = builder(&database).build().await.unwrap();
    // Longer than it takes to kill a process, or there would be nothing to wait for.
    let terms = NeighbourOptions { ttl: 5 * SHORT_TTL, ..ONCE };
    let held = mongoose.acquire("a", terms).await.granted.expect("it is free");

    mongoose.kill().await;
    let lease = leases.acquire("a").wait_forever();
    let lease = soon("the lease expires", lease.into_future()).await.unwrap();
    assert!(clock::now() >= held.until, "granted before it had expired");
    lease.release().await.unwrap();
    let locks = database.collection::<Document>("locks");
    assert_eq!(locks.count_documents(doc! {}).await.unwrap(), 0);
}
