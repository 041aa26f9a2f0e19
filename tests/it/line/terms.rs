//! A waiter is granted what it asked for, also when another process's release grants it.

use std::time::{Duration, Instant};

use mongo_lease::mongodb::bson::{Document, doc};
use mongo_lease::{Acquire, Event, LostReason, Released};

use super::{Held, LONG_LIFE, dropped, granted, start_waiting, until_line_is};
use crate::patience::{Listener, bounded, expires_at, until};

/// The validity of its promotion, counted from its last heartbeat, would be over already. So it is granted anew, and
/// its ttl and its cap count from then on.
#[tokio::test]
async fn a_ttl_shorter_than_the_heartbeat_interval_is_granted_anew() {
    const TTL: Duration = Duration::from_secs(5);
    const CAP: Duration = Duration::from_secs(3);
    type Options = fn(Acquire) -> Acquire;
    // For how long it is valid, and what has to be left of that.
    let cases: [(Duration, Duration, Options); 2] = [
        (TTL, TTL / 3, |acquire| acquire.ttl(TTL)),
        (CAP, Duration::ZERO, |acquire| acquire.ttl(TTL * 2).max_hold(CAP)),
    ];
    for (valid, least, options) in cases {
        let held = Held::new(LONG_LIFE).await;
        let mut events = Listener::of(&held.leases);
        let waiting = held.wait(options).await;
        let joined = Instant::now();
        until("time passes", async || (joined.elapsed() > valid * 3 / 2).then_some(())).await;
        held.lease.release().await.unwrap();
        let lease = granted(waiting).await;
        let left = lease.remaining();
        assert!(left <= valid && left > least, "valid for {valid:?}: {left:?}");
        if valid == CAP {
            assert_eq!(bounded(lease.lost()).await, LostReason::EndedAsAsked);
        } else {
            events.renewals("a", 3).await;
            assert!(lease.is_valid());
        }
    }
}

/// A promotion lasts for the waiter ttl at first, and one renewal gives it the full ttl.
#[tokio::test]
async fn a_lease_without_renewals_is_made_whole_after_a_promotion() {
    let waiter_ttl = Duration::from_secs(6);
    let held = Held::new(waiter_ttl).await;
    let mut events = Listener::of(&held.leases);
    let ttl = Duration::from_secs(12);
    let waiting = held.wait(|acquire| acquire.ttl(ttl).renew(false)).await;
    held.lease.release().await.unwrap();
    let lease = granted(waiting).await;
    let started = Instant::now();
    let is_renewal = |event: &Event| matches!(event, Event::Renewed { .. });
    let at_first = lease.remaining();
    // On a busy machine the renewal may come before this look.
    if !events.so_far().iter().any(is_renewal) {
        assert!(at_first <= waiter_ttl, "{at_first:?}");
        events.renewals("a", 1).await;
    }
    assert!(lease.remaining() > ttl * 3 / 4, "{:?}", lease.remaining());
    // And only one renewal.
    assert_eq!(bounded(lease.lost()).await, LostReason::EndedAsAsked);
    assert!(started.elapsed() > ttl * 3 / 4, "{:?}", started.elapsed());
    let renewed = events.so_far();
    assert!(!renewed.iter().any(is_renewal), "{renewed:?}");
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
