//! The outcomes of a lease's methods.

use std::time::Duration;

use mongo_lease::{Error, LostReason, Released};

use super::check;
use crate::common::{SHORT_TTL, TryOnce};
use crate::patience::{Listener, bounded};

#[tokio::test]
async fn a_held_lease_renews_itself_and_is_renewed_by_hand() {
    check(async |backend| {
        let leases = backend.manager().await;
        let mut events = Listener::of(&leases);
        let lease = leases.acquire("a").ttl(Duration::from_secs(2)).await.unwrap();
        events.renewals("a", 2).await;
        assert!(lease.is_valid() && !lease.remaining().is_zero());
        lease.check().unwrap();
        let by_hand = leases.acquire("b").renew(false).await.unwrap();
        by_hand.renew().await.unwrap();
        assert_eq!(lease.run(async { 7 }).await.unwrap(), 7);
    })
    .await;
}

#[tokio::test]
async fn a_lease_ends_when_it_is_not_renewed_or_has_a_cap() {
    check(async |backend| {
        let leases = backend.manager().await;
        let unrenewed = leases.acquire("a").ttl(SHORT_TTL).renew(false).await.unwrap();
        let capped = leases.acquire("b").ttl(SHORT_TTL * 4).max_hold(SHORT_TTL * 6).await.unwrap();
        for lease in [unrenewed, capped] {
            let token = lease.cancellation_token();
            assert_eq!(bounded(lease.lost()).await, LostReason::EndedAsAsked);
            bounded(token.cancelled()).await;
            assert!(matches!(lease.check(), Err(Error::Lost { .. })));
            assert!(lease.token().is_err() && lease.remaining().is_zero());
            assert!(matches!(
                lease.run(std::future::pending::<()>()).await,
                Err(Error::Lost { .. })
            ));
            assert!(lease.detach().await.is_err());
        }
    })
    .await;
}

#[tokio::test]
async fn a_taken_over_holder_is_told_by_whom() {
    check(async |backend| {
        let (leases, others) = (backend.manager().await, backend.builder().owner("thief"));
        let others = others.build().await.unwrap();
        let lease = leases.acquire("a").await.unwrap();
        leases.release("a", lease.value()).await.unwrap();
        let _other = others.acquire("a").await.unwrap();
        let error = lease.renew().await.unwrap_err();
        let Error::Lost { reason: LostReason::TakenOver { by: Some(by), .. }, .. } = error else {
            panic!("{error}");
        };
        assert!(by.starts_with("thief@"), "{by}");
        assert_eq!(lease.release().await.unwrap(), Released::NotHeld);
    })
    .await;
}

#[tokio::test]
async fn a_name_is_kept_for_the_least_time_after_a_release() {
    check(async |backend| {
        let (leases, others) = (backend.manager().await, backend.manager().await);
        let least = Duration::from_secs(60);
        let lease = leases.acquire("a").hold_at_least(least).await.unwrap();
        assert_eq!(lease.release().await.unwrap(), Released::Released);
        assert!(!others.try_acquire("a").await.unwrap().is_granted());
        let kept = others.get("a").await.unwrap().expect("the name is kept");
        assert!(kept.value.is_some_and(|value| mongo_lease::LeaseInfo::is_tombstone_value(&value)));
        assert!(kept.remaining.is_some_and(|left| left > Duration::from_secs(20)));
    })
    .await;
}

#[tokio::test]
async fn a_value_of_ones_own_finds_its_grant_again() {
    check(async |backend| {
        let (leases, others) = (backend.manager().await, backend.manager().await);
        let first = leases.acquire("a").value("mine").await.unwrap();
        let again = others.acquire("a").value("mine").try_once().await.unwrap();
        let again = again.granted().expect("it is the caller's own");
        assert!(again.token().unwrap() > first.token().unwrap());
        assert!(!others.acquire("a").value("theirs").try_once().await.unwrap().is_granted());
        assert_eq!(others.release("a", "mine").await.unwrap(), Released::Released);
    })
    .await;
}

#[tokio::test]
async fn with_lease_runs_the_work_and_releases() {
    check(async |backend| {
        let leases = backend.manager().await;
        let length = leases.with_lease("a", async |lease| lease.name().len()).await.unwrap();
        assert_eq!(length, 1);
        assert!(leases.get("a").await.unwrap().is_none());
        let lost = leases.with_lease("a", async |lease| {
            leases.release("a", lease.value()).await.unwrap();
            let _ = lease.renew().await;
            std::future::pending::<()>().await;
        });
        assert!(matches!(bounded(lost).await, Err(Error::Lost { .. })));
    })
    .await;
}
