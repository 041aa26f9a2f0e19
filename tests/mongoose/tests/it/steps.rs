//! Step by step, and in both directions.

use mongo_lease::{Attempt, Released};

use crate::common::{SHORT_TTL, builder, document, migrated};
use crate::neighbour::{Neighbour, NeighbourOptions, ONCE, WAITING};

#[tokio::test]
async fn each_refuses_what_the_other_holds_and_has_it_after_a_release() {
    let database = migrated().await;
    let leases = builder(&database).build().await.unwrap();
    let mongoose = Neighbour::start(&database).await;

    let lease = leases.acquire("a").await.unwrap();
    assert_eq!(mongoose.lock("a", ONCE).await, None);
    assert_eq!(lease.release().await.unwrap(), Released::Released);

    let theirs = mongoose.lock("a", ONCE).await.expect("it is free");
    let Attempt::Busy(held) = leases.try_acquire("a").await.unwrap() else {
        panic!("granted what Mongoose holds");
    };
    assert_eq!((held.value.as_ref(), held.owner), (Some(&theirs), None));
    assert!(mongoose.release("a", &theirs).await);
    assert!(leases.try_acquire("a").await.unwrap().granted().is_some());
}

#[tokio::test]
async fn a_wrong_value_releases_nothing() {
    let database = migrated().await;
    let leases = builder(&database).build().await.unwrap();
    let mongoose = Neighbour::start(&database).await;

    let lease = leases.acquire("a").await.unwrap();
    assert!(!mongoose.release("a", "a guess").await);
    lease.renew().await.expect("it is still held");

    let theirs = mongoose.lock("b", ONCE).await.expect("it is free");
    assert_eq!(leases.release("b", "a guess").await.unwrap(), Released::NotHeld);
    assert!(mongoose.release("b", &theirs).await);
}

#[tokio::test]
async fn a_late_release_does_not_touch_who_has_taken_over() {
    let database = migrated().await;
    let leases = builder(&database).build().await.unwrap();
    let mongoose = Neighbour::start(&database).await;
    let short = NeighbourOptions { ttl: SHORT_TTL, ..ONCE };

    let theirs = mongoose.lock("a", short).await.expect("it is free");
    let lease = leases.acquire("a").await.unwrap();
    assert!(!mongoose.release("a", &theirs).await, "a late release of theirs");
    lease.renew().await.expect("it is still held");

    let lease = leases.acquire("b").ttl(SHORT_TTL).renew(false).await.unwrap();
    let theirs = mongoose.lock("b", WAITING).await.expect("it expires");
    assert!(!lease.is_valid(), "two holders");
    // The lease knows that it has been lost; the release by name and value asks the database.
    let value = lease.value().to_owned();
    assert_eq!(leases.release("b", &value).await.unwrap(), Released::NotHeld);
    assert_eq!(lease.release().await.unwrap(), Released::NotHeld);
    let found = document(&database, "b").await.unwrap();
    assert_eq!(found.get_str("value").ok(), Some(theirs.as_str()));
}
