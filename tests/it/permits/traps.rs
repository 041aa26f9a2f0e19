//! The traps of shared use that no other test here has: late and repeated commands.

use mongo_lease::{CommandKind, Lease, LeaseManager, MemoryFault, MemoryStore, Released};
use mongo_lease_testbed::TestDatabase;

use super::{all_granted, granted, holders, permits, queued, queued_by, writer};
use crate::both::{Backend, check};
use crate::common::{TryOnce, assert_done, document};
use crate::lent::{Proxied, proxied_and_soon_repeated};
use crate::patience::bounded;

/// Trap 1: an exclusive first attempt is refused by the grant of the second one. Of permits, there may be another.
#[tokio::test]
async fn a_late_first_attempt_takes_no_second_permit() {
    let Proxied { _server, database, proxy, slow, direct } =
        proxied_and_soon_repeated(|builder| builder).await;
    let first = proxy.hold_next_request("findAndModify");
    // The second attempt passes the first one.
    let lease = bounded(permits(1, 5)(&slow).renew(false).into_future()).await.unwrap();
    bounded(first.held(1)).await;
    let answer = proxy.hold_next_reply("findAndModify");
    first.release();
    bounded(answer.held(1)).await;
    let found = document(&database, "a").await.unwrap();
    assert_eq!(holders(&found).len(), 1);
    assert_done(lease.release().await.unwrap(), "the one permit");
    assert!(direct.acquire("a").await.unwrap().is_valid());
}

/// Trap 3, on a real server: the reply to the first release is lost, and the release is sent again.
#[tokio::test]
async fn a_repeated_release_frees_nobody_elses_permit() {
    let Proxied { _server, database, proxy, slow, direct } =
        proxied_and_soon_repeated(|builder| builder).await;
    let hold = async || permits(1, 2)(&slow).renew(false).await.unwrap();
    let release_twice = async |lease: Lease, command| {
        let loss = proxy.lose_next_reply(command);
        // Unknown, unless a busy machine has cut the first one off: then the second one has ended it.
        assert_done(bounded(lease.release()).await.unwrap(), command);
        assert!(loss.has_happened(), "{command}");
    };
    let lease = hold().await;
    let other = permits(1, 2)(&direct).await.unwrap();
    // A delete goes first, because nobody else held a permit at the grant.
    release_twice(lease, "update").await;
    assert_holds_alone(&database, &other).await;
    // Granted beside another holder, it is ended by the short form.
    release_twice(hold().await, "update").await;
    assert_holds_alone(&database, &other).await;
    // The only holder's release is a delete, and a repeated one finds nothing.
    assert_eq!(other.release().await.unwrap(), Released::Released);
    release_twice(hold().await, "delete").await;
    assert_eq!(document(&database, "a").await, None);
}

#[tokio::test]
async fn a_late_delete_of_the_last_holder_deletes_no_later_one() {
    let Proxied { _server, database, proxy, slow, direct } =
        proxied_and_soon_repeated(|builder| builder).await;
    let lease = permits(1, 2)(&slow).renew(false).await.unwrap();
    let first = proxy.hold_next_request("delete");
    // The second attempt passes the first one.
    assert_done(bounded(lease.release()).await.unwrap(), "by the second attempt");
    bounded(first.held(1)).await;
    let later = permits(1, 2)(&direct).await.unwrap();
    let answer = proxy.hold_next_reply("delete");
    first.release();
    bounded(answer.held(1)).await;
    assert_holds_alone(&database, &later).await;
}

/// Trap 3 in memory, where a counter in place of holders could not be decremented twice.
#[tokio::test]
async fn repeated_releases_in_memory_end_one_holder() {
    let store = MemoryStore::new();
    let network = store.client();
    let leases = LeaseManager::in_memory(&network).build().await.unwrap();
    let others = LeaseManager::in_memory(&store).build().await.unwrap();
    let hold = async |leases| permits(1, 2)(leases).await.unwrap();
    let release_twice = async |lease: Lease| {
        network.fail_next(CommandKind::Release, MemoryFault::LostReply);
        assert_eq!(lease.release().await.unwrap(), Released::Unknown);
        assert_eq!(network.faults_left(), 0);
    };
    let stays = hold(&others).await;
    // The short form, for a holder that was granted beside another.
    release_twice(hold(&leases).await).await;
    stays.renew().await.unwrap();
    // The end of one that was admitted from the queue.
    let leaves = hold(&others).await;
    let call = queued_by(&leases, permits(1, 2)).await;
    leaves.release().await.unwrap();
    release_twice(granted(call).await).await;
    stays.renew().await.unwrap();
    // The only holder's.
    stays.release().await.unwrap();
    release_twice(hold(&leases).await).await;
    assert!(others.try_acquire("a").await.unwrap().is_granted());
}

async fn assert_holds_alone(database: &TestDatabase, lease: &Lease) {
    let found = document(database, "a").await.expect("its document");
    assert_eq!(holders(&found).len(), 1);
    lease.renew().await.unwrap();
}

/// Trap 5: the tokens of those who hold together say nothing. A later holder that excludes them has a greater one.
#[tokio::test]
async fn an_excluding_later_holder_has_a_greater_token() {
    check(async |backend| {
        let (leases, others) = (backend.manager().await, backend.manager().await);
        let mut newest = None;
        for _ in 0..5 {
            let held =
                [permits(1, 2)(&leases).await.unwrap(), permits(1, 2)(&others).await.unwrap()];
            let tokens = held.each_ref().map(|lease| lease.token().unwrap());
            assert!(newest < tokens.into_iter().min());
            drop(held);
            let exclusive = others.acquire("a").await.unwrap();
            newest = exclusive.token().ok();
            assert!(tokens.into_iter().all(|earlier| Some(earlier) < newest));
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
        let (_first, one) = queued(&backend, permits(1, 3)).await;
        let (_second, two) = queued(&backend, permits(1, 3)).await;
        assert_eq!(exclusive.release().await.unwrap(), Released::Released);
        let both = all_granted([one, two]).await;
        assert_eq!(both[0].token().unwrap(), both[1].token().unwrap(), "one write");
        assert!(leases.semaphore("a", 3).try_acquire().await.unwrap().is_granted());
        assert!(both.iter().all(Lease::is_shared));
        if let Backend::Server(database) = &backend {
            // Nobody has had the whole lease since.
            let found = document(database, "a").await.unwrap();
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
        for is_limited in [false, true] {
            let ask = || if is_limited { permits(1, 1)(&leases) } else { writer(&leases) };
            let held = ask().value("mine").await.unwrap();
            let (_others, waiting) = match is_limited {
                true => queued(&backend, permits(1, 3)).await,
                false => queued(&backend, writer).await,
            };
            let again = ask().value("mine").try_once().await.unwrap();
            let again = again.granted().expect("it is the caller's own lease");
            held.renew().await.unwrap();
            assert!(!waiting.is_finished(), "limited: {is_limited}");
            assert_eq!(again.release().await.unwrap(), Released::Released);
            assert_eq!(granted(waiting).await.release().await.unwrap(), Released::Released);
        }
    })
    .await;
}
