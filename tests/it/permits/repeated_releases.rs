//! Trap 3: a counter in place of holders could not be decremented twice. A release that arrives twice, in any of its
//! forms, ends the caller's own grant and no other.

use std::time::Duration;

use mongo_lease::{CommandKind, LeaseManager, MemoryFault, MemoryStore, Released, Tuning};
use tokio::task::yield_now;

use super::traps::{Setup, slow_and_direct};
use super::{granted, holders, queued_by};
use crate::common::document;
use crate::patience::bounded;

#[tokio::test]
async fn a_repeated_short_release_ends_one_holder() {
    let Setup { _server, database, proxy, slow, direct } = slow_and_direct().await;
    let other = direct.semaphore("a", 2).acquire().await.unwrap();
    // Granted beside another holder, it is ended by the short form.
    let lease = slow.semaphore("a", 2).acquire().renew(false).await.unwrap();
    let loss = proxy.lose_next_reply("update");
    assert_eq!(bounded(lease.release()).await.unwrap(), Released::Unknown);
    assert!(loss.has_happened());
    let found = document(&database, "a").await.unwrap();
    assert_eq!(holders(&found).len(), 1);
    other.renew().await.unwrap();
}

#[tokio::test]
async fn a_late_delete_of_the_last_holder_deletes_no_later_one() {
    let Setup { _server, database, proxy, slow, direct } = slow_and_direct().await;
    let lease = slow.semaphore("a", 2).acquire().renew(false).await.unwrap();
    let first = proxy.hold_next_request("delete");
    // The second attempt passes the first one.
    assert_eq!(bounded(lease.release()).await.unwrap(), Released::Released);
    bounded(first.held(1)).await;
    let later = direct.semaphore("a", 2).acquire().await.unwrap();
    let answer = proxy.hold_next_reply("delete");
    first.release();
    bounded(answer.held(1)).await;
    let found = document(&database, "a").await.expect("the later holder's document");
    assert_eq!(holders(&found).len(), 1);
    later.renew().await.unwrap();
}

/// A store carries out in the order of sending what was sent while it hung: a delete, a later holder's acquire, and the
/// delete again.
#[tokio::test]
async fn a_repeated_delete_in_memory_deletes_no_later_holder() {
    let network = MemoryStore::new();
    let quick = LeaseManager::in_memory(&network)
        .tuning(Tuning::default().attempt_timeout(Duration::from_millis(100)));
    let (leases, others) =
        (quick.build().await.unwrap(), LeaseManager::in_memory(&network).build().await.unwrap());
    let lease = leases.semaphore("a", 2).acquire().await.unwrap();
    let hang = network.hang();
    let release = tokio::spawn(lease.release());
    all_is_sent().await;
    let semaphore = others.semaphore("a", 2);
    let later = tokio::spawn(async move { semaphore.acquire().await });
    all_is_sent().await;
    network.advance(Duration::from_millis(150));
    all_is_sent().await;
    drop(hang);
    assert_ne!(bounded(release).await.unwrap().unwrap(), Released::NotHeld);
    let later = bounded(later).await.unwrap().unwrap();
    later.renew().await.unwrap();
    assert_eq!(others.get("a").await.unwrap().unwrap().in_use, Some(1));
}

/// Returns when every call has sent what it can.
async fn all_is_sent() {
    for _ in 0..50 {
        yield_now().await;
    }
}

#[tokio::test]
async fn repeated_releases_in_memory_end_one_holder() {
    let store = MemoryStore::new();
    let network = store.client();
    let leases = LeaseManager::in_memory(&network).build().await.unwrap();
    let others = LeaseManager::in_memory(&store).build().await.unwrap();
    let semaphore = others.semaphore("a", 2);
    let stays = semaphore.acquire().await.unwrap();

    // The short form, for a holder that was granted beside another.
    let lease = leases.semaphore("a", 2).acquire().await.unwrap();
    network.fail_next(CommandKind::Release, MemoryFault::LostReply);
    assert_eq!(lease.release().await.unwrap(), Released::Unknown);
    stays.renew().await.unwrap();

    // The end of one that was admitted from the queue.
    let leaves = semaphore.acquire().await.unwrap();
    let call = queued_by(&leases, |leases| leases.semaphore("a", 2).acquire()).await;
    leaves.release().await.unwrap();
    let lease = granted(call).await;
    network.fail_next(CommandKind::Release, MemoryFault::LostReply);
    assert_eq!(lease.release().await.unwrap(), Released::Unknown);
    assert_eq!(network.faults_left(), 0);
    stays.renew().await.unwrap();
}
