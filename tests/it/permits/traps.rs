//! The traps of shared use that no other test here has: late and repeated commands, and other programs.

use std::time::Duration;

use mongo_lease::mongodb::bson::doc;
use mongo_lease::{
    Acquire, CommandKind, LeaseManager, LeaseManagerBuilder, MemoryFault, MemoryStore, Released,
    Tuning,
};
use mongo_lease_testbed::{Proxy, Server, TestDatabase};

use super::{granted, holders, queued};
use crate::both::{Backend, check};
use crate::common::{SHORT_TTL, TryOnce, builder, document, migrated};
use crate::lent::{LentServer, behind_a_proxy, lent_database};
use crate::patience::{bounded, until};
use crate::recipe::{Flavour, Recipe};

/// A manager behind a proxy, and one that is connected directly.
pub(super) struct Setup {
    pub(super) _server: LentServer,
    pub(super) database: TestDatabase,
    pub(super) proxy: Proxy,
    pub(super) slow: LeaseManager,
    pub(super) direct: LeaseManager,
}

pub(super) async fn slow_and_direct() -> Setup {
    let (server, database) = lent_database().await;
    let (proxy, through) = behind_a_proxy(&server, &database).await;
    let quick = |builder: LeaseManagerBuilder| {
        builder.tuning(Tuning::default().attempt_timeout(Duration::from_millis(300)))
    };
    let slow = quick(LeaseManager::builder(&through)).build().await.unwrap();
    let direct = quick(builder(&database)).build().await.unwrap();
    Setup { _server: server, database, proxy, slow, direct }
}

/// Trap 1: an exclusive first attempt is refused by the grant of the second one. Of permits, there may be another.
#[tokio::test]
async fn a_late_first_attempt_takes_no_second_permit() {
    let Setup { _server, database, proxy, slow, direct } = slow_and_direct().await;
    let first = proxy.hold_next_request("findAndModify");
    let semaphore = slow.semaphore("a", 5);
    let call = tokio::spawn(async move { semaphore.acquire().renew(false).await });
    // The second attempt passes the first one.
    let lease = bounded(call).await.unwrap().unwrap();
    bounded(first.held(1)).await;
    let answer = proxy.hold_next_reply("findAndModify");
    first.release();
    bounded(answer.held(1)).await;
    let found = document(&database, "a").await.unwrap();
    assert_eq!(holders(&found).len(), 1);
    assert_eq!(lease.release().await.unwrap(), Released::Released);
    assert!(direct.acquire("a").await.unwrap().is_valid());
}

#[tokio::test]
async fn a_permit_whose_reply_is_lost_is_found_again() {
    let store = MemoryStore::new();
    let leases = LeaseManager::in_memory(&store).build().await.unwrap();
    let semaphore = leases.semaphore("a", 2);
    store.fail_next(CommandKind::Acquire, MemoryFault::LostReply);
    let first = semaphore.acquire().await.unwrap();
    assert_eq!(store.faults_left(), 0);
    let minute = Duration::from_secs(60);
    let second = semaphore.acquire().ttl(minute).wait(Duration::ZERO).await.unwrap();
    assert!(!semaphore.try_acquire().await.unwrap().is_granted());
    // Trap 3: a repeated release finds nothing, and frees no other's permit.
    store.fail_next(CommandKind::Release, MemoryFault::LostReply);
    assert_eq!(second.release().await.unwrap(), Released::Unknown);
    assert!(first.is_valid());
    first.renew().await.unwrap();
    let third = semaphore.try_acquire().await.unwrap().granted().expect("one is in use");
    assert!(!semaphore.try_acquire().await.unwrap().is_granted());
    drop((first, third));
}

/// Trap 3, on a real server: the reply to the first release is lost, and the release is sent again.
#[tokio::test]
async fn a_repeated_release_frees_nobody_elses_permit() {
    let Setup { _server, database, proxy, slow, direct } = slow_and_direct().await;
    let lease = slow.semaphore("a", 2).acquire().renew(false).await.unwrap();
    let other = direct.semaphore("a", 2).acquire().await.unwrap();
    // A delete goes first, because nobody else held a permit at the grant.
    let loss = proxy.lose_next_reply("update");
    assert_eq!(bounded(lease.release()).await.unwrap(), Released::Unknown);
    assert!(loss.has_happened());
    let found = document(&database, "a").await.unwrap();
    assert_eq!(holders(&found).len(), 1);
    other.renew().await.unwrap();
}

/// A call has gone before its attempts are answered: what they were granted is given back.
#[tokio::test]
async fn a_grant_that_nobody_waits_for_is_given_back() {
    let Setup { _server, database, proxy, slow, direct } = slow_and_direct().await;
    let replies = proxy.hold_replies_to("findAndModify");
    let semaphore = slow.semaphore("a", 2);
    let call = tokio::spawn(async move { semaphore.acquire().permits(2).await });
    bounded(replies.held(1)).await;
    assert_eq!(holders(&document(&database, "a").await.unwrap()).len(), 1);
    call.abort();
    assert!(call.await.unwrap_err().is_cancelled());
    replies.release();
    assert!(
        bounded(direct.semaphore("a", 2).acquire().permits(2).into_future())
            .await
            .unwrap()
            .is_valid()
    );
}

/// Trap 5: the tokens of those who hold together say nothing. A later holder that excludes them has a greater one.
#[tokio::test]
async fn an_excluding_later_holder_has_a_greater_token() {
    check(async |backend| {
        let (leases, others) = (backend.manager().await, backend.manager().await);
        let mut newest = None;
        for _ in 0..5 {
            let held = [
                leases.semaphore("a", 2).acquire().await.unwrap(),
                others.semaphore("a", 2).acquire().await.unwrap(),
            ];
            let tokens = held.each_ref().map(|lease| lease.token().unwrap());
            assert!(newest < tokens.into_iter().min());
            drop(held);
            let exclusive = others.acquire("a").await.unwrap();
            let token = exclusive.token().unwrap();
            assert!(tokens.into_iter().all(|earlier| earlier < token));
            newest = Some(token);
            exclusive.release().await.unwrap();
        }
    })
    .await;
}

/// Trap 6: the hand-off of exclusive leases would make an exclusive holder of a waiter for permits.
#[tokio::test]
async fn an_exclusive_holder_hands_permits_to_who_asks_for_them() {
    check(async |backend| {
        let leases = backend.manager().await;
        let exclusive = leases.acquire("a").await.unwrap();
        let asked = |leases: &LeaseManager| leases.semaphore("a", 3).acquire();
        let (_first, one) = queued(&backend, asked).await;
        let (_second, two) = queued(&backend, asked).await;
        assert_eq!(exclusive.release().await.unwrap(), Released::Released);
        let both = [granted(one).await, granted(two).await];
        assert_eq!(both[0].token().unwrap(), both[1].token().unwrap(), "one write");
        let third = leases.semaphore("a", 3).try_acquire().await.unwrap();
        assert!(third.is_granted());
        assert!(both.iter().all(|lease| lease.is_valid() && lease.is_shared()));
        if let Backend::Server(database) = &backend {
            let found = document(database, "a").await.unwrap();
            assert_eq!(holders(&found).len(), 3);
            // Nobody has had the whole lease since.
            assert!(!found.contains_key("promoted"), "{found}");
        }
    })
    .await;
}

/// Trap 8: an exclusive holder's own lease is not free for its late attempt, which would give it to the first waiter.
#[tokio::test]
async fn a_repeated_exclusive_attempt_gives_nothing_away() {
    check(async |backend| {
        let leases = backend.manager().await;
        let asks: [fn(&LeaseManager) -> Acquire; 2] =
            [|leases| leases.acquire("a"), |leases| leases.semaphore("a", 1).acquire()];
        let waits: [fn(&LeaseManager) -> Acquire; 2] =
            [|leases| leases.acquire("a"), |leases| leases.semaphore("a", 3).acquire()];
        for (ask, wait) in asks.into_iter().zip(waits) {
            let held = ask(&leases).value("mine").await.unwrap();
            let (_others, waiting) = queued(&backend, wait).await;
            let again = ask(&leases).value("mine").try_once().await.unwrap();
            let again = again.granted().expect("it is the caller's own lease");
            held.renew().await.unwrap();
            assert!(!waiting.is_finished());
            assert_eq!(again.release().await.unwrap(), Released::Released);
            assert_eq!(granted(waiting).await.release().await.unwrap(), Released::Released);
        }
    })
    .await;
}

#[tokio::test]
async fn the_plain_recipe_and_permits_exclude_each_other() {
    let database = migrated(Server::shared()).await;
    let leases = builder(&database).max_clock_skew(Duration::ZERO).build().await.unwrap();
    let recipe = Recipe::new(&database, Flavour::Correct);
    let semaphore = leases.semaphore("a", 2);
    let ttl = Duration::from_secs(30);

    let first = semaphore.acquire().await.unwrap();
    let second = semaphore.acquire().ttl(SHORT_TTL).renew(false).await.unwrap();
    assert_eq!(recipe.lock("a", ttl).await, None);
    first.renew().await.unwrap();
    bounded(second.lost()).await;
    assert_eq!(recipe.lock("a", ttl).await, None, "one of two is valid");
    first.release().await.unwrap();

    let taken = async || recipe.lock("a", ttl).await;
    let value = until("all permits have expired", taken).await;
    // The holder that it found in the document counts for nothing any more.
    assert_eq!(second.release().await.unwrap(), Released::NotHeld);
    assert!(!semaphore.try_acquire().await.unwrap().is_granted());
    assert!(leases.get("a").await.unwrap().is_some_and(|info| info.value == Some(value.clone())));
    assert!(recipe.unlock("a", &value).await);
    let permits = semaphore.acquire().permits(2).await.unwrap();
    assert_eq!(permits.release().await.unwrap(), Released::Released);
}
