//! A waiter is granted what it asked for, also when another process's release grants it.

use std::time::Duration;

use mongo_lease::mongodb::bson::{Document, doc};
use mongo_lease::{Acquire, Event, Lease, LeaseManager, LostReason, MemoryStore, Released, Tuning};
use tokio::time::Instant;

use super::{Held, LONG_LIFE, NEVER, dropped, granted, in_line, start_waiting, until_line_is};
use crate::patience::{Listener, bounded, expires_at, pass};

/// A lease that is held in memory, and a manager whose calls wait for it, and wake only by events.
async fn in_memory(waiter_ttl: Duration) -> (Lease, LeaseManager) {
    let store = MemoryStore::new();
    let lease = LeaseManager::in_memory(&store).build().await.unwrap().acquire("a").await.unwrap();
    let tuning = Tuning::default().recheck_every(NEVER).waiter_ttl(waiter_ttl);
    let leases = LeaseManager::in_memory(&store).tuning(tuning).wait(NEVER).build().await.unwrap();
    (lease, leases)
}

/// The validity of its promotion, counted from its last heartbeat, would be over already. So it is granted anew, and
/// its ttl and its cap count from then on.
#[tokio::test(start_paused = true)]
async fn a_ttl_shorter_than_the_heartbeat_interval_is_granted_anew() {
    const TTL: Duration = Duration::from_secs(5);
    const CAP: Duration = Duration::from_secs(3);
    type Options = fn(Acquire) -> Acquire;
    // For how long it is valid.
    let cases: [(Duration, Options); 2] =
        [(TTL, |acquire| acquire.ttl(TTL)), (CAP, |acquire| acquire.ttl(TTL * 2).max_hold(CAP))];
    for (valid, options) in cases {
        let (held, leases) = in_memory(LONG_LIFE).await;
        let mut events = Listener::of(&leases);
        let waiting = in_line(&leases, options(leases.acquire("a"))).await;
        pass(valid * 3 / 2).await;
        held.release().await.unwrap();
        let lease = granted(waiting).await;
        let left = lease.remaining();
        assert!(left <= valid && left > valid * 9 / 10, "valid for {valid:?}: {left:?}");
        if valid == CAP {
            assert_eq!(bounded(lease.lost()).await, LostReason::EndedAsAsked);
        } else {
            events.renewals("a", 3).await;
            assert!(lease.is_valid());
        }
    }
}

/// A promotion lasts for the waiter ttl at first, and one renewal gives it the full ttl.
#[tokio::test(start_paused = true)]
async fn a_lease_without_renewals_is_made_whole_after_a_promotion() {
    let (waiter_ttl, ttl) = (Duration::from_secs(6), Duration::from_secs(12));
    let (held, leases) = in_memory(waiter_ttl).await;
    let mut events = Listener::of(&leases);
    let waiting = in_line(&leases, leases.acquire("a").ttl(ttl).renew(false)).await;
    held.release().await.unwrap();
    let lease = granted(waiting).await;
    assert!(lease.remaining() <= waiter_ttl, "{:?}", lease.remaining());
    events.renewals("a", 1).await;
    assert!(lease.remaining() > ttl * 9 / 10, "{:?}", lease.remaining());
    // And only one renewal.
    let renewed = Instant::now();
    assert_eq!(bounded(lease.lost()).await, LostReason::EndedAsAsked);
    assert!(renewed.elapsed() > ttl * 9 / 10, "{:?}", renewed.elapsed());
    let later = events.so_far();
    assert!(!later.iter().any(|event| matches!(event, Event::Renewed { .. })), "{later:?}");
}

/// A call with its own value passes its entry on to no other, because it may come again with the same value. No waiter
/// is forgotten over that.
#[tokio::test]
async fn waiters_with_values_of_their_own_come_and_go() {
    let held = Held::new(LONG_LIFE).await;
    let waiting = held.wait(|acquire| acquire.value("mine")).await;
    let next = start_waiting(held.leases.acquire("a").value("yours").owner("yours"));
    dropped(waiting).await;
    until_line_is(&held.database, "a", &["yours"]).await;
    let again = start_waiting(held.leases.acquire("a").value("mine"));
    held.lease.release().await.unwrap();
    for (waiting, value) in [(next, "yours"), (again, "mine")] {
        let lease = granted(waiting).await;
        assert_eq!(lease.value(), value);
        lease.release().await.unwrap();
    }
}

/// A text that looks like an expression stays a text. A grant that is larger than the document before it comes as
/// another kind of event.
#[tokio::test]
async fn what_a_waiter_asks_for_reaches_its_grant_unchanged() {
    const LEAST: Duration = Duration::from_secs(60);
    let odd = doc! {
        "$set": "$$NOW",
        "a.b": { "$literal": ["$value", "$$ROOT", { "$add": [1, "$expiresAt"] }] },
        "": "$",
    };
    let long = doc! { "text": "$".repeat(3_500) };
    for metadata in [Document::new(), odd, long] {
        let held = Held::new(LONG_LIFE).await;
        let asked = |acquire: Acquire| {
            let acquire = acquire.owner("$owner.$$x").metadata(metadata.clone());
            acquire.value("$mine").hold_at_least(LEAST)
        };
        let waiting = held.wait(asked).await;
        held.lease.release().await.unwrap();
        let lease = granted(waiting).await;
        assert_eq!(lease.value(), "$mine");
        let info = held.holder.get("a").await.unwrap().unwrap();
        assert!(info.owner.as_ref().unwrap().starts_with("$owner.$$x@"), "{info:?}");
        assert_eq!(info.metadata, metadata);
        assert_eq!(info.value.as_deref(), Some("$mine"));
        lease.renew().await.unwrap();
        assert_eq!(lease.release().await.unwrap(), Released::Released, "{metadata}");
        let kept = expires_at(&held.database, "a").await.timestamp_millis();
        assert_eq!(kept - info.acquired_at.unwrap().timestamp_millis(), 60_000, "{metadata}");
    }
}
