//! A release frees the lease with this name and value, and touches nothing else.

use mongo_lease::{LostReason, Released};

use crate::common::{SHORT_TTL, assert_not_done, builder, document, known_release, setup};
use crate::patience::soon;

#[tokio::test]
async fn a_release_with_a_wrong_value_deletes_nothing() {
    let (database, leases) = setup().await;
    let lease = leases.acquire("a").await.unwrap();
    let before = document(&database, "a").await;
    let upper = lease.value().to_uppercase();
    let part = &lease.value()[..8];
    for wrong in ["wrong", upper.as_str(), part, "*", "$value", "{\"$ne\": 1}"] {
        assert_eq!(known_release(&leases, "a", wrong).await, Released::NotHeld, "{wrong}");
    }
    for other in ["A", "b", "$name"] {
        assert_eq!(known_release(&leases, other, lease.value()).await, Released::NotHeld);
    }
    assert_eq!(document(&database, "a").await, before);
    assert!(lease.is_valid());
    assert_eq!(lease.release().await.unwrap(), Released::Released);
}

/// mongo-lock, mongo-lock-async: an expired holder frees its successor's lock. Nor does its drop free it.
#[tokio::test]
async fn a_release_after_a_take_over_deletes_nothing() {
    let (database, leases) = setup().await;
    let others = builder(&database).build().await.unwrap();
    let hold = |name| leases.acquire(name).ttl(SHORT_TTL).renew(false);
    let (lost, dropped) = (hold("a").await.unwrap(), hold("b").await.unwrap());
    let take = |name| others.acquire(name).renew(false);
    let successors = [take("a").await.unwrap(), take("b").await.unwrap()];
    let documents = async || [document(&database, "a").await, document(&database, "b").await];
    let before = documents().await;
    let old_value = lost.value().to_owned();
    assert!(!lost.is_valid());
    assert_eq!(lost.lost().await, LostReason::EndedAsAsked);
    // node-redlock #309: a release after a loss goes through all its retries.
    assert_not_done(soon("the release", lost.release()).await.unwrap());
    assert_eq!(known_release(&leases, "a", &old_value).await, Released::NotHeld);
    drop(dropped);
    // The release that the drop has started went out before this manager's shutdown ends.
    let report = leases.shutdown().await;
    assert_eq!((report.released, report.tasks_left), (0, 0));
    assert_eq!(documents().await, before);
    for successor in successors {
        assert_eq!(successor.release().await.unwrap(), Released::Released);
    }
}
