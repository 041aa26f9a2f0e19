//! The clock of a store in memory.

use std::time::{Duration, Instant};

use mongo_lease::{Error, Event, LostReason, MemoryStore};

use super::manager;
use crate::patience::{Listener, bounded, soon};

/// Longer than the default ttl.
const MINUTE: Duration = Duration::from_secs(60);

#[tokio::test]
async fn a_lease_is_lost_in_no_time_when_the_clock_advances() {
    let store = MemoryStore::new();
    let leases = manager(&store).await;
    let lease = leases.acquire("a").await.unwrap();
    let (before, token) = (store.now(), lease.cancellation_token());
    store.advance(MINUTE);
    assert!(!lease.is_valid());
    assert!(matches!(lease.token(), Err(Error::Lost { .. })));
    bounded(token.cancelled()).await;
    assert!(matches!(
        bounded(lease.lost()).await,
        LostReason::NotRenewed | LostReason::OutOfReach { .. }
    ));
    assert!(store.now() - before >= chrono::Duration::seconds(60));
    // Its time is over on the store too.
    assert!(leases.try_acquire("a").await.unwrap().is_granted());
}

#[tokio::test]
async fn a_waiting_call_is_granted_an_expired_lease_when_time_advances() {
    let store = MemoryStore::new();
    let (one, other) = (manager(&store).await, manager(&store).await);
    let mut events = Listener::of(&other);
    let lease = one.acquire("a").renew(false).await.unwrap();
    let waiting = tokio::spawn(other.acquire("a").wait_forever().into_future());
    events.find(|event| matches!(event, Event::Queued { .. }).then_some(())).await;
    store.advance(Duration::from_secs(20));
    assert!(lease.is_valid());
    // The ttl is 30 s, and the store adds a second for clocks that differ.
    store.advance(Duration::from_secs(12));
    let error = lease.check().unwrap_err();
    assert!(matches!(error, Error::Lost { reason: LostReason::EndedAsAsked, .. }), "{error}");
    let granted = soon("the free lease is granted", waiting).await.unwrap().unwrap();
    assert!(granted.is_valid());
    assert_eq!(events.so_far().iter().filter(|it| matches!(it, Event::Polling { .. })).count(), 0);
}

#[tokio::test]
async fn a_clock_can_be_put_forward_by_any_duration() {
    let store = MemoryStore::new();
    let leases = manager(&store).await;
    let lease = leases.acquire("a").await.unwrap();
    store.advance(Duration::MAX);
    store.advance(Duration::MAX);
    assert!(!lease.is_valid());
    let later = leases.acquire("a").ttl(Duration::from_secs(366 * 24 * 3_600)).await.unwrap();
    assert!(later.is_valid() && later.expires_at() > store.now());
}

#[tokio::test(start_paused = true)]
async fn a_paused_clock_renews_for_hours_in_no_time() {
    let real = Instant::now();
    let store = MemoryStore::new();
    let leases = manager(&store).await;
    let mut events = Listener::of(&leases);
    let lease = leases.acquire("a").await.unwrap();
    let begin = tokio::time::Instant::now();
    // A third of the ttl is 10 s.
    events.renewals("a", 60).await;
    assert!(begin.elapsed() >= Duration::from_secs(590), "{:?}", begin.elapsed());
    assert!(begin.elapsed() <= Duration::from_secs(610), "{:?}", begin.elapsed());
    assert!(lease.is_valid());
    assert!(real.elapsed() < Duration::from_secs(20), "it spins");
}

#[tokio::test(start_paused = true)]
async fn waiting_takes_no_time_with_a_paused_clock() {
    let store = MemoryStore::new();
    let (one, other) = (manager(&store).await, manager(&store).await);
    let lease = one.acquire("a").await.unwrap();
    let begin = tokio::time::Instant::now();
    let error = other.acquire("a").wait(Duration::from_secs(3_600)).await.unwrap_err();
    assert!(matches!(error, Error::WaitTimeout { .. }), "{error}");
    assert_eq!(begin.elapsed().as_secs(), 3_600);
    assert!(lease.is_valid());
}
