//! The limit: the recipe reads the clock of its own machine, and an error of that clock also affects our leases.

use std::time::Duration;

use mongo_lease::mongodb::bson::{Document, doc};
use mongo_lease::{Error, LeaseManager, LostReason};

use crate::clock;
use crate::common::{LONG_TTL, builder, migrated};
use crate::neighbour::{Character, Neighbour, NeighbourOptions, ONCE, WAITING};

const TTL: Duration = Duration::from_secs(30);
const MAX_CLOCK_SKEW: Duration = Duration::from_secs(25);
/// Well within the maximum clock skew, and well beyond a busy machine's pauses.
const WITHIN_THE_SKEW_MS: i64 = 22_000;

fn ahead_by(clock_ahead_ms: i64) -> Character {
    Character { clock_ahead_ms, ..Character::default() }
}

/// Two holders, by the other program's fault. The lease detects it, and fenced writes are safe.
#[tokio::test]
async fn a_valid_lease_taken_over_by_a_fast_clock_is_found_lost() {
    let database = migrated().await;
    let leases = LeaseManager::builder(&database).ttl(TTL).build().await.unwrap();
    let ahead = Neighbour::start_as(&database, ahead_by(3_600_000)).await;
    let lease = leases.acquire("a").renew(false).await.unwrap();
    let guarded = leases.acquire("b").renew(false).await.unwrap();

    assert!(ahead.lock("a", ONCE).await.is_some(), "no clock keeps it away");
    assert!(ahead.lock("b", ONCE).await.is_some());
    assert!(lease.is_valid() && guarded.is_valid(), "and nobody has been told");

    let found = lease.renew().await;
    let Err(Error::Lost { reason: LostReason::TakenOver { by: None, .. }, .. }) = found else {
        panic!("{found:?}");
    };
    assert!(!lease.is_valid());
    // A transaction under the lease cannot commit.
    let work = database.collection::<Document>("work");
    let mut tx = guarded.transaction().await.unwrap();
    work.insert_one(doc! {}).session(&mut tx).await.unwrap();
    let found = tx.commit().await;
    assert!(matches!(found, Err(Error::Lost { .. })), "{found:?}");
    assert_eq!(work.count_documents(doc! {}).await.unwrap(), 0);
}

#[tokio::test]
async fn the_max_clock_skew_covers_a_clock_that_is_ahead_by_less() {
    let database = migrated().await;
    let leases = builder(&database).max_clock_skew(MAX_CLOCK_SKEW).build().await.unwrap();
    let ahead = Neighbour::start_as(&database, ahead_by(WITHIN_THE_SKEW_MS)).await;
    let asked = clock::now();
    let lease = leases.acquire("a").ttl(Duration::from_secs(3)).renew(false).await.unwrap();
    let believed_until = clock::from_now(|| lease.remaining());

    let theirs = ahead.acquire("a", WAITING).await.granted.expect("it expires");
    assert!(theirs.from >= believed_until, "two holders");
    let expires = asked + u64::try_from(MAX_CLOCK_SKEW.as_micros()).unwrap();
    assert!(theirs.from < expires, "it is not early, so nothing was covered");
}

#[tokio::test]
async fn a_clock_that_is_behind_ends_its_own_leases_early() {
    let database = migrated().await;
    let leases = builder(&database).build().await.unwrap();
    let behind = Neighbour::start_as(&database, ahead_by(-3_600_000)).await;

    let theirs = behind.acquire("a", NeighbourOptions { ttl: LONG_TTL, ..ONCE }).await;
    let theirs = theirs.granted.expect("it is free");
    let lease = leases.try_acquire("a").await.unwrap().granted();
    assert!(lease.is_some(), "by the server's clock it has expired");
    assert!(clock::now() < theirs.until, "and Mongoose does not know");
    assert!(!behind.release("a", &theirs.value).await);
}
