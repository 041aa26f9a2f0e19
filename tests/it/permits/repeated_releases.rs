//! Trap 3: a counter in place of holders could not be decremented twice. A release that arrives twice, in any of its
//! forms, ends the caller's own grant and no other.

use mongo_lease::{CommandKind, Lease, LeaseManager, MemoryFault, MemoryStore, Released};

use super::traps::{assert_holds_alone, slow_and_direct};
use super::{granted, permits, queued_by};
use crate::lent::Proxied;
use crate::patience::bounded;

#[tokio::test]
async fn a_late_delete_of_the_last_holder_deletes_no_later_one() {
    let Proxied { _server, database, proxy, slow, direct } = slow_and_direct().await;
    let lease = permits(1, 2)(&slow).renew(false).await.unwrap();
    let first = proxy.hold_next_request("delete");
    // The second attempt passes the first one.
    assert_eq!(bounded(lease.release()).await.unwrap(), Released::Released);
    bounded(first.held(1)).await;
    let later = permits(1, 2)(&direct).await.unwrap();
    let answer = proxy.hold_next_reply("delete");
    first.release();
    bounded(answer.held(1)).await;
    assert_holds_alone(&database, &later).await;
}

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
