//! The outcomes of acquires and releases.

use std::time::Duration;

use mongo_lease::mongodb::bson::doc;
use mongo_lease::{
    Attempt, CommandKind, Error, Lease, LeaseManager, MemoryFault, MemoryStore, Released,
};

use super::holders;
use crate::both::{Backend, check};
use crate::common::{TryOnce, builder, document, setup};
use crate::lent::{behind_a_proxy, lent_database, lent_setup};
use crate::patience::{bounded, until};

#[tokio::test]
async fn as_many_permits_as_the_limit_are_granted() {
    check(async |backend| {
        let (leases, others) = (backend.manager().await, backend.manager().await);
        let (ours, theirs) = (leases.semaphore("a", 3), others.semaphore("a", 3));
        assert_eq!((ours.name(), ours.limit()), ("a", 3));
        let first = ours.acquire().await.unwrap();
        let second = theirs.acquire().wait(Duration::ZERO).await.unwrap();
        let third = ours.try_acquire().await.unwrap().granted().expect("there is room");
        for lease in [&first, &second, &third] {
            assert!(lease.is_valid() && lease.is_shared());
            assert_eq!((lease.permits(), lease.name()), (1, "a"));
        }
        for semaphore in [&ours, &theirs] {
            assert!(!semaphore.try_acquire().await.unwrap().is_granted());
            let error = semaphore.acquire().wait(Duration::ZERO).await.unwrap_err();
            assert!(matches!(error, Error::Busy(_)), "{error}");
        }
        assert_eq!(second.release().await.unwrap(), Released::Released);
        let again = theirs.try_acquire().await.unwrap().granted().expect("there is room");
        // The last call, because its entry may leave the queue after it has returned.
        let error = theirs.acquire().wait(Duration::from_millis(300)).await.unwrap_err();
        assert!(matches!(error, Error::WaitTimeout { .. }), "{error}");
        for lease in [first, third, again] {
            assert_eq!(lease.release().await.unwrap(), Released::Released);
        }
        backend.until_nothing_is_left().await;
    })
    .await;
}

#[tokio::test]
async fn a_call_may_take_several_permits() {
    check(async |backend| {
        let leases = backend.manager().await;
        let semaphore = leases.semaphore("a", 5);
        let three = semaphore.acquire().permits(3).await.unwrap();
        assert_eq!(three.permits(), 3);
        assert!(!semaphore.acquire().permits(3).try_once().await.unwrap().is_granted());
        let two = semaphore.acquire().permits(2).await.unwrap();
        assert!(!semaphore.try_acquire().await.unwrap().is_granted());
        three.release().await.unwrap();
        assert!(semaphore.acquire().permits(3).try_once().await.unwrap().is_granted());
        assert_eq!(two.run(async { 7 }).await.unwrap(), 7);
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
async fn a_limit_of_one_is_the_exclusive_lease() {
    check(async |backend| {
        let leases = backend.manager().await;
        let one = leases.semaphore("a", 1).acquire().await.unwrap();
        assert!(!one.is_shared());
        assert!(leases.get("a").await.unwrap().is_some_and(|info| {
            info.value.as_deref() == Some(one.value()) && info.owner.is_some()
        }));
        assert!(!leases.semaphore("a", 5).try_acquire().await.unwrap().is_granted());
        assert!(!leases.try_acquire("a").await.unwrap().is_granted());
    })
    .await;
}

#[tokio::test]
async fn a_dropped_permit_is_free_for_the_next_call() {
    check(async |backend| {
        let leases = backend.manager().await;
        let semaphore = leases.semaphore("a", 2);
        for _ in 0..5 {
            let both = [semaphore.acquire().await.unwrap(), semaphore.acquire().await.unwrap()];
            drop(both);
            // A call waits for the releases of its name that have begun.
            let again = semaphore.acquire().permits(2).try_once().await.unwrap();
            drop(again.granted().expect("both are free"));
        }
        semaphore.acquire().run(async |lease| assert!(lease.is_valid())).await.unwrap();
        backend.until_nothing_is_left().await;
    })
    .await;
}

#[tokio::test]
async fn a_permit_is_released_by_name_and_value() {
    check(async |backend| {
        let leases = backend.manager().await;
        let semaphore = leases.semaphore("a", 3);
        let [first, second] =
            [semaphore.acquire().await.unwrap(), semaphore.acquire().await.unwrap()];
        assert_eq!(leases.release("a", "another").await.unwrap(), Released::NotHeld);
        assert_eq!(leases.release("a", first.value()).await.unwrap(), Released::Released);
        assert_eq!(leases.release("a", first.value()).await.unwrap(), Released::NotHeld);
        assert!(matches!(first.renew().await, Err(Error::Lost { .. })));
        assert_eq!(first.release().await.unwrap(), Released::NotHeld);
        second.renew().await.unwrap();
        assert_eq!(second.release().await.unwrap(), Released::Released);
    })
    .await;
}

#[tokio::test]
async fn a_value_of_ones_own_finds_its_permits_again() {
    check(async |backend| {
        let (leases, others) = (backend.manager().await, backend.manager().await);
        let first = leases.semaphore("a", 2).acquire().value("mine").await.unwrap();
        let again = others.semaphore("a", 9).acquire().permits(2).value("mine");
        let again = again.try_once().await.unwrap().granted().expect("it is the caller's own");
        assert_eq!(again.permits(), 1, "those of its record");
        let other = others.semaphore("a", 2).try_acquire().await.unwrap();
        let other = other.granted().expect("one permit is in use, and not two");
        assert!(again.is_valid() && first.is_valid() && other.is_valid());
        assert_eq!(others.release("a", "mine").await.unwrap(), Released::Released);
    })
    .await;
}

/// Its holder relies on it.
#[tokio::test]
async fn an_own_value_does_not_share_an_exclusive_lease() {
    check(async |backend| {
        let (leases, others) = (backend.manager().await, backend.manager().await);
        let writer = leases.acquire("a").value("mine").await.unwrap();
        let reader = others.acquire("a").shared().value("mine");
        assert!(!reader.try_once().await.unwrap().is_granted());
        assert!(!others.acquire("a").shared().try_once().await.unwrap().is_granted());
        assert_eq!(writer.release().await.unwrap(), Released::Released);
        let reader = others.acquire("a").shared().value("mine").await.unwrap();
        assert!(!leases.acquire("a").value("mine").try_once().await.unwrap().is_granted());
        assert_eq!(reader.release().await.unwrap(), Released::Released);
        backend.until_nothing_is_left().await;
    })
    .await;
}

#[tokio::test]
async fn a_permit_expires_by_its_own_ttl() {
    check(async |backend| {
        let (leases, others) = (backend.manager().await, backend.manager().await);
        let (long, short) = (Duration::from_secs(3_600), Duration::from_secs(10));
        let first = leases.semaphore("a", 5).acquire().ttl(long).await.unwrap();
        let second = others.semaphore("a", 5).acquire().ttl(short).await.unwrap();
        let longer = first.expires_at() - second.expires_at();
        assert!(longer > chrono::TimeDelta::minutes(30), "{longer}");
    })
    .await;
}

/// The only holder's release is a delete, and a repeated one finds nothing.
#[tokio::test]
async fn a_last_holder_whose_delete_is_unanswered_is_told_so() {
    let (server, database) = lent_database().await;
    let (proxy, through) = behind_a_proxy(&server, &database).await;
    let leases = LeaseManager::builder(&through).build().await.unwrap();
    let lease = leases.semaphore("a", 2).acquire().renew(false).await.unwrap();
    let loss = proxy.lose_next_reply("delete");
    assert_eq!(bounded(lease.release()).await.unwrap(), Released::Unknown);
    assert!(loss.has_happened());
    assert_eq!(document(&database, "a").await, None);

    let store = MemoryStore::new();
    let leases = LeaseManager::in_memory(&store).build().await.unwrap();
    let lease = leases.semaphore("a", 2).acquire().await.unwrap();
    store.fail_next(CommandKind::Release, MemoryFault::LostReply);
    assert_eq!(bounded(lease.release()).await.unwrap(), Released::Unknown);
    assert!(leases.try_acquire("a").await.unwrap().is_granted());
}

#[tokio::test]
async fn permits_found_again_keep_their_number_and_limit() {
    check(async |backend| {
        let leases = backend.manager().await;
        let _first = leases.semaphore("a", 5).acquire().permits(2).value("mine").await.unwrap();
        let again = leases.semaphore("a", 3).acquire().value("mine").try_once().await.unwrap();
        assert!(again.is_granted());
        let shown = leases.get("a").await.unwrap().expect("it is held");
        let [holder] = &shown.holders[..] else { panic!("{shown:?}") };
        assert_eq!((holder.permits, holder.limit), (2, 5));
        // With one value, too, an exclusive lease and permits exclude each other.
        assert!(!leases.acquire("a").value("mine").try_once().await.unwrap().is_granted());
        let exclusive = leases.acquire("b").value("mine").await.unwrap();
        let permit = leases.semaphore("b", 2).acquire().value("mine").try_once().await.unwrap();
        assert!(!permit.is_granted() && exclusive.is_valid());
    })
    .await;
}

#[tokio::test]
async fn a_shutdown_releases_permits() {
    check(async |backend| {
        let (leases, others) = (backend.manager().await, backend.manager().await);
        let _held = [
            leases.semaphore("a", 5).acquire().await.unwrap(),
            leases.semaphore("a", 5).acquire().permits(4).await.unwrap(),
            leases.acquire("b").shared().await.unwrap(),
        ];
        assert_eq!(leases.shutdown().await.released, 3);
        assert!(others.try_acquire("a").await.unwrap().is_granted());
        assert!(others.try_acquire("b").await.unwrap().is_granted());
    })
    .await;
}

#[tokio::test]
async fn the_last_release_leaves_the_name_free() {
    check(async |backend| {
        let leases = backend.manager().await;
        let semaphore = leases.semaphore("a", 3);
        for _ in 0..3 {
            let mut held: Vec<Lease> = Vec::new();
            for _ in 0..3 {
                held.push(semaphore.acquire().await.unwrap());
            }
            for lease in held {
                assert_eq!(lease.release().await.unwrap(), Released::Released);
            }
            let exclusive = leases.try_acquire("a").await.unwrap().granted().expect("it is free");
            assert_eq!(exclusive.release().await.unwrap(), Released::Released);
        }
        if let Backend::Server(database) = &backend {
            crate::patience::until_nothing_is_left(database).await;
        }
    })
    .await;
}

#[tokio::test]
async fn the_only_holder_deletes_the_document_unless_told() {
    // A tombstone has expired: the TTL monitor of a server in common use may remove it before it is read.
    let (_server, database, leases) = lent_setup().await;
    let permit = leases.semaphore("a", 5).acquire().await.unwrap();
    let found = document(&database, "a").await.unwrap();
    assert_eq!(found.get_str("value").unwrap(), "mongo-lease/shared");
    assert_eq!(holders(&found).len(), 1);
    assert_eq!(permit.release().await.unwrap(), Released::Released);
    assert_eq!(document(&database, "a").await, None);
    let leases = builder(&database).tombstones(true).build().await.unwrap();
    let permit = leases.semaphore("a", 5).acquire().await.unwrap();
    assert_eq!(permit.release().await.unwrap(), Released::Released);
    let left = document(&database, "a").await.unwrap();
    assert!(mongo_lease::LeaseInfo::is_tombstone_value(left.get_str("value").unwrap()));
    assert_eq!(holders(&left).len(), 0);
}

#[tokio::test]
async fn an_expired_holder_makes_room() {
    check(async |backend| {
        let skew = Duration::from_millis(50);
        let leases = backend.builder().max_clock_skew(skew).build().await.unwrap();
        let semaphore = leases.semaphore("a", 2);
        let brief = semaphore.acquire().ttl(crate::common::SHORT_TTL).renew(false);
        let _brief = brief.await.unwrap();
        let _other = semaphore.acquire().await.unwrap();
        let free = async || match semaphore.try_acquire().await.unwrap() {
            Attempt::Granted(lease) => Some(lease),
            Attempt::Busy(_) => None,
        };
        let third = until("the first has expired", free).await;
        assert!(third.is_valid());
    })
    .await;
}

#[tokio::test]
async fn metadata_and_owner_are_with_each_holder() {
    let (database, leases) = setup().await;
    let semaphore = leases.semaphore("a", 2);
    let _first = semaphore.acquire().metadata(doc! { "job": 1 }).owner("one").await.unwrap();
    let _second = semaphore.acquire().metadata(doc! { "job": 2 }).owner("two").await.unwrap();
    let found = document(&database, "a").await.unwrap();
    let shown: Vec<_> = holders(&found)
        .into_iter()
        .map(|holder| {
            let owner = holder.get_str("owner").unwrap().split('@').next().unwrap();
            (owner.to_owned(), holder.get_document("metadata").unwrap().clone())
        })
        .collect();
    let wanted = [("one".to_owned(), doc! { "job": 1 }), ("two".to_owned(), doc! { "job": 2 })];
    assert_eq!(shown, wanted);
}
