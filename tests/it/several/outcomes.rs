//! The outcomes of `acquire_all`, and of a set's methods.

use std::time::Duration;

use mongo_lease::mongodb::bson::doc;
use mongo_lease::{Error, Lease, LostReason, Released};

use crate::both::{Backend, check};
use crate::common::assert_not_done;
use crate::line::queued;
use crate::patience::{Listener, bounded, soon};

#[tokio::test]
async fn all_names_are_granted_in_their_order_with_a_token_each() {
    check(async |backend| {
        let leases = backend.manager().await;
        let all = leases.acquire_all(["c", "a", "b"]).owner("me").metadata(doc! { "job": 7 });
        let set = all.await.unwrap();
        assert_eq!(set.iter().map(Lease::name).collect::<Vec<_>>(), ["a", "b", "c"]);
        assert!(set.is_valid() && set.remaining() > Duration::from_secs(15));
        set.check().unwrap();
        for name in ["a", "b", "c"] {
            let info = leases.get(name).await.unwrap().unwrap();
            let lease = set.get(name).unwrap();
            assert_eq!(info.value.as_deref(), Some(lease.value()));
            assert!(info.owner.is_some_and(|owner| owner.starts_with("me@")));
            assert_eq!(info.metadata, doc! { "job": 7 });
            lease.token().unwrap();
        }
        assert!(set.get("d").is_none());
        assert_eq!(set.run(async { 7 }).await.unwrap(), 7);
        assert_eq!(set.release().await.unwrap(), Released::Released);
        backend.until_nothing_is_left().await;
    })
    .await;
}

#[tokio::test]
async fn a_taken_name_is_named_and_nothing_is_held() {
    check(async |backend| {
        let (leases, others) = (backend.manager().await, backend.manager().await);
        let all = || leases.acquire_all(["a", "b", "c"]);
        for held in [others.acquire("b"), others.acquire("b").shared()] {
            let held = held.await.unwrap();
            let busy = all().wait(Duration::ZERO).await;
            let Err(Error::Busy(info)) = busy else { panic!("`b` is held: {busy:?}") };
            assert_eq!((&*info.name, info.shared), ("b", held.is_shared()));
            if let Backend::Memory(_) = backend {
                let wait = Duration::from_secs(5);
                let error = all().wait(wait).await.unwrap_err();
                let Error::WaitTimeout { name, waited, .. } = error else { panic!("{error}") };
                assert_eq!(name, "b");
                assert!(waited >= wait, "{waited:?}");
            }
            held.release().await.unwrap();
            backend.until_nothing_is_left().await;
        }
    })
    .await;
}

#[tokio::test]
async fn a_call_that_waits_gives_the_names_before_back_once_and_those_after_always() {
    check(async |backend| {
        let (leases, others) = (backend.manager().await, backend.manager().await);
        let free = async |name: &str| {
            let what = format!("{name:?} is given back");
            soon(&what, others.acquire(name).into_future()).await.unwrap()
        };
        let is_free = async |name: &str| others.try_acquire(name).await.unwrap().is_granted();
        let second = others.acquire("b").shared().await.unwrap();
        let mut events = Listener::of(&leases);
        let waiting = tokio::spawn(leases.acquire_all(["a", "b", "c"]).into_future());
        queued(&mut events).await;
        let (first, third) = (free("a").await, free("c").await);
        second.release().await.unwrap();
        // It is granted "b", finds "a" taken, and waits for that.
        queued(&mut events).await;
        let second = free("b").await;
        first.release().await.unwrap();
        // From now on it keeps what comes before.
        queued(&mut events).await;
        assert!(!is_free("a").await);
        second.release().await.unwrap();
        queued(&mut events).await;
        assert!(!is_free("a").await && !is_free("b").await);
        third.release().await.unwrap();
        let set = soon("all are granted", waiting).await.unwrap().unwrap();
        assert!(set.is_valid() && set.iter().all(|lease| !lease.is_shared()));
        assert_eq!(set.into_leases().len(), 3);
        backend.until_nothing_is_left().await;
    })
    .await;
}

#[tokio::test]
async fn a_loss_of_one_ends_the_work_and_is_named() {
    check(async |backend| {
        let leases = backend.manager().await;
        let work = async |set: &mongo_lease::LeaseSet| {
            let lease = set.get("b").unwrap();
            leases.release("b", lease.value()).await.unwrap();
            lease.renew().await.unwrap_err();
            std::future::pending::<()>().await;
        };
        match bounded(leases.acquire_all(["a", "b"]).run(work)).await.unwrap_err() {
            Error::Lost { name, reason: LostReason::Removed, .. } => assert_eq!(name, "b"),
            error => panic!("{error}"),
        }
        backend.until_nothing_is_left().await;

        let set = leases.acquire_all(["a", "b"]).await.unwrap();
        let value = set.get("b").unwrap().value().to_owned();
        leases.release("b", &value).await.unwrap();
        assert!(set.get("b").unwrap().renew().await.is_err());
        assert_eq!(bounded(set.lost()).await, ("b", LostReason::Removed));
        assert!(!set.is_valid() && set.remaining().is_zero() && set.check().is_err());
        assert!(set.get("a").unwrap().is_valid());
        assert_not_done(set.release().await.unwrap());
        backend.until_nothing_is_left().await;
    })
    .await;
}

#[tokio::test]
async fn a_dropped_call_or_set_leaves_nothing_behind() {
    check(async |backend| {
        let (leases, others) = (backend.manager().await, backend.manager().await);
        drop(leases.acquire_all(["a", "b"]).await.unwrap());
        backend.until_nothing_is_left().await;
        let held = others.acquire("b").await.unwrap();
        let mut events = Listener::of(&leases);
        let waiting = tokio::spawn(leases.acquire_all(["a", "b", "c"]).into_future());
        queued(&mut events).await;
        waiting.abort();
        assert!(waiting.await.unwrap_err().is_cancelled());
        held.release().await.unwrap();
        backend.until_nothing_is_left().await;
    })
    .await;
}
