//! The outcomes of acquires and releases.

use std::time::Duration;

use mongo_lease::{Error, LeaseManager, Released};

use super::{patient, permits, queued_by, reader, writer};
use crate::both::check;
use crate::common::TryOnce;
use crate::patience::{bounded, until};

#[tokio::test]
async fn as_many_permits_as_the_limit_are_granted() {
    check(async |backend| {
        let (leases, others) = (backend.manager().await, patient(&backend).await);
        let (ours, theirs) = (leases.semaphore("a", 3), others.semaphore("a", 3));
        assert_eq!((ours.name(), ours.limit()), ("a", 3));
        let one = ours.acquire().await.unwrap();
        let two = theirs.acquire().permits(2).wait(Duration::ZERO).await.unwrap();
        for (lease, permits) in [(&one, 1), (&two, 2)] {
            assert!(lease.is_valid() && lease.is_shared());
            assert_eq!((lease.permits(), lease.name()), (permits, "a"));
        }
        for semaphore in [&ours, &theirs] {
            assert!(!semaphore.try_acquire().await.unwrap().is_granted());
            let error = semaphore.acquire().wait(Duration::ZERO).await.unwrap_err();
            assert!(matches!(error, Error::Busy(_)), "{error}");
        }
        assert_eq!(one.release().await.unwrap(), Released::Released);
        assert!(!theirs.acquire().permits(2).try_once().await.unwrap().is_granted());
        let again = theirs.try_acquire().await.unwrap().granted().expect("there is room for one");
        let brief = |leases: &LeaseManager| permits(1, 3)(leases).wait(Duration::from_secs(3));
        let error = bounded(queued_by(&others, brief).await).await.unwrap().unwrap_err();
        assert!(matches!(error, Error::WaitTimeout { .. }), "{error}");
        // Its entry may leave the queue after it has returned.
        let waiting = async || leases.get("a").await.unwrap().expect("it is held").waiting;
        until("the queue is left", async || (waiting().await == 0).then_some(())).await;
        for lease in [two, again] {
            assert_eq!(lease.release().await.unwrap(), Released::Released);
        }
        backend.until_nothing_is_left().await;
    })
    .await;
}

#[tokio::test]
async fn the_strictest_holder_decides_for_as_long_as_it_holds() {
    check(async |backend| {
        let leases = backend.manager().await;
        let attempt = async |limit| leases.semaphore("a", limit).try_acquire().await.unwrap();
        let strict = attempt(2).await.granted().expect("it is free");
        let loose = attempt(5).await.granted().expect("there is room for two");
        assert!(!attempt(5).await.is_granted());
        // Two are in use: nobody may be the first under a limit of two.
        strict.release().await.unwrap();
        let others = [attempt(5).await, attempt(5).await].map(|it| it.granted().expect("room"));
        assert!(!attempt(2).await.is_granted());
        assert!(!leases.try_acquire("a").await.unwrap().is_granted());
        for lease in others.into_iter().chain([loose]) {
            lease.release().await.unwrap();
        }
        assert!(attempt(2).await.is_granted());
    })
    .await;
}

#[tokio::test]
async fn a_value_of_ones_own_finds_its_permits_again() {
    check(async |backend| {
        let (leases, others) = (backend.manager().await, backend.manager().await);
        let first = permits(2, 5)(&leases).value("mine").await.unwrap();
        let again = permits(3, 3)(&others).value("mine").try_once().await.unwrap();
        let again = again.granted().expect("they are the caller's own");
        assert_eq!(again.permits(), 2, "those of its record");
        let shown = leases.get("a").await.unwrap().expect("it is held");
        let [holder] = &shown.holders[..] else { panic!("{shown:?}") };
        assert_eq!((holder.permits, holder.limit), (2, 5));
        let other = permits(3, 5)(&others).try_once().await.unwrap();
        let other = other.granted().expect("two permits are in use, and not three or five");
        assert!(again.is_valid() && first.is_valid() && other.is_valid());
        backend.assert_done(others.release("a", "mine").await.unwrap());
    })
    .await;
}

/// Its holder relies on it.
#[tokio::test]
async fn an_own_value_does_not_share_an_exclusive_lease() {
    check(async |backend| {
        let (leases, others) = (backend.manager().await, backend.manager().await);
        let share = || reader(&others).value("mine");
        let exclusive = writer(&leases).value("mine").await.unwrap();
        for (case, shared) in [
            ("a share", share()),
            ("a permit", permits(1, 2)(&others).value("mine")),
            ("a share of another value", reader(&others)),
        ] {
            assert!(!shared.try_once().await.unwrap().is_granted(), "{case}");
        }
        assert_eq!(exclusive.release().await.unwrap(), Released::Released);
        let shared = share().await.unwrap();
        assert!(!writer(&leases).value("mine").try_once().await.unwrap().is_granted());
        assert_eq!(shared.release().await.unwrap(), Released::Released);
        backend.until_nothing_is_left().await;
    })
    .await;
}
