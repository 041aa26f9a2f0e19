//! Trouble that a test makes with a store in memory.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use mongo_lease::mongodb::error::ErrorKind;
use mongo_lease::{
    CommandKind, Error, Event, LeaseManager, LostReason, MemoryFault, MemoryStore, Released,
};
use mongo_lease_core::spec::{Document, Expiry};

use super::manager;
use crate::keys::lost;
use crate::patience::{Listener, bounded, joined, pass};
use crate::permits::{granted, queued_by};

const MINUTE: Duration = Duration::from_secs(60);

#[tokio::test]
async fn a_refused_acquire_fails_with_the_drivers_error_once() {
    let store = MemoryStore::new();
    let leases = manager(&store).await;
    store.fail_next(CommandKind::Acquire, MemoryFault::Refused);
    let error = leases.acquire("a").await.unwrap_err();
    let Error::MongoDb(source) = &error else { panic!("{error}") };
    assert!(matches!(source.kind.as_ref(), ErrorKind::Command(error) if error.code == 13));
    assert_eq!(store.faults_left(), 0);
    assert!(leases.try_acquire("a").await.unwrap().is_granted());
}

#[tokio::test]
async fn a_call_is_granted_one_lease_whatever_happens_to_its_attempts() {
    for faults in [[MemoryFault::NoPrimary; 2].as_slice(), &[MemoryFault::LostReply]] {
        let store = MemoryStore::new();
        let (leases, other) = (manager(&store).await, manager(&store).await);
        for fault in faults {
            store.fail_next(CommandKind::Acquire, *fault);
        }
        let lease = leases.acquire("a").await.unwrap();
        assert_eq!(store.faults_left(), 0, "{faults:?}");
        assert!(!other.try_acquire("a").await.unwrap().is_granted(), "{faults:?}");
        assert_eq!(lease.release().await.unwrap(), Released::Released, "{faults:?}");
        assert!(other.try_acquire("a").await.unwrap().is_granted(), "{faults:?}");
    }
}

#[tokio::test]
async fn renewals_and_releases_meet_faults_of_their_kind() {
    let store = MemoryStore::new();
    let (leases, other) = (manager(&store).await, manager(&store).await);
    let permit = leases.semaphore("permits", 2).acquire().await.unwrap();
    store.fail_next(CommandKind::Renew, MemoryFault::LostReply);
    permit.renew().await.unwrap();
    assert_eq!(store.faults_left(), 0);
    assert!(permit.is_valid());

    let lease = leases.acquire("a").await.unwrap();
    store.fail_next(CommandKind::Release, MemoryFault::LostReply);
    assert_eq!(lease.release().await.unwrap(), Released::Unknown);
    assert!(other.try_acquire("a").await.unwrap().is_granted());

    let lease = leases.acquire("b").renew(false).await.unwrap();
    // The drop that follows the failed release sends one too.
    store.fail_next(CommandKind::Release, MemoryFault::Refused);
    store.fail_next(CommandKind::Release, MemoryFault::Refused);
    assert!(matches!(lease.release().await, Err(Error::MongoDb(_))));
    assert!(!other.try_acquire("b").await.unwrap().is_granted());
    store.advance(MINUTE);
    assert!(other.try_acquire("b").await.unwrap().is_granted());
}

#[tokio::test]
async fn leases_of_two_stores_and_of_two_collections_are_apart() {
    let (store, second) = (MemoryStore::new(), MemoryStore::new());
    let (leases, elsewhere) = (manager(&store).await, manager(&second).await);
    let others = LeaseManager::in_memory(&store).collection("others").build().await.unwrap();
    let _lease = leases.acquire("a").await.unwrap();
    assert!(elsewhere.try_acquire("a").await.unwrap().is_granted());
    assert!(others.try_acquire("a").await.unwrap().is_granted());
}

#[tokio::test]
async fn a_client_that_is_cut_off_hinders_no_other() {
    let store = MemoryStore::new();
    let network = store.client();
    let (cut_off, other) = (manager(&network).await, manager(&store).await);
    let lease = cut_off.acquire("a").await.unwrap();
    let hang = network.hang();
    network.fail_next(CommandKind::Read, MemoryFault::Refused);
    assert!(other.get("a").await.unwrap().is_some());
    store.advance(MINUTE);
    assert!(!lease.is_valid());
    let token = other.acquire("a").await.unwrap().token().unwrap();
    drop(hang);
    assert!(cut_off.get("a").await.is_err());
    assert!(cut_off.get("a").await.unwrap().is_none());
    cut_off.ping().await.unwrap();
    assert!(cut_off.acquire("a").await.unwrap().token().unwrap() > token);
}

#[tokio::test]
async fn a_waiter_is_called_by_each_expiry() {
    let store = MemoryStore::new();
    let network = store.client();
    let (holder, waiter) = (manager(&store).await, manager(&network).await);
    let mut events = Listener::of(&waiter);
    let lease = holder.acquire("a").await.unwrap();
    let waiting = queued_by(&waiter, |leases| leases.acquire("a").wait_forever()).await;
    events.watching().await;
    // Cut off, the waiter hears nothing, and the holder's renewal prolongs the lease.
    let hang = network.hang();
    assert!(store.expire("a"));
    lease.renew().await.unwrap();
    drop(hang);
    assert!(!waiting.is_finished());
    assert!(store.expire("a"));
    let new = granted(waiting).await;
    // The old holder believes in it still, which is what the tokens are for.
    assert!(new.token().unwrap() > lease.token().unwrap());
    lease.renew().await.unwrap_err();
    assert!(matches!(bounded(lease.lost()).await, LostReason::TakenOver { .. }));
    assert!(!store.expire("nobody's"));
}

#[tokio::test(start_paused = true)]
async fn a_hang_ends_with_the_last_of_its_handles() {
    let store = MemoryStore::new();
    let leases = manager(&store).await;
    let (first, second) = (store.hang(), store.hang());
    let call = tokio::spawn(leases.acquire("a").into_future());
    pass(Duration::from_secs(1)).await;
    drop(first);
    pass(Duration::from_secs(1)).await;
    assert!(!call.is_finished());
    drop(second);
    drop(granted(call).await);
}

/// Its reply was lost, and its time was over before the second attempt: nobody else has resumed the lease.
#[tokio::test(start_paused = true)]
async fn a_resume_whose_time_is_over_unseen_is_not_taken_for_another_ones() {
    let store = MemoryStore::new();
    let leases = manager(&store).await;
    let lease = leases.acquire("a").ttl(Duration::from_secs(1)).await.unwrap();
    let key = lease.detach().await.unwrap();
    store.fail_next(CommandKind::Renew, MemoryFault::LostReply);
    let its_time_is_over = async {
        while store.faults_left() > 0 {
            tokio::task::yield_now().await;
        }
        store.advance(Duration::from_secs(3));
    };
    let (resumed, ()) = tokio::join!(leases.resume(key), its_time_is_over);
    let reason = lost(resumed);
    assert!(matches!(reason, LostReason::NotRenewed { stood_still: None, .. }), "{reason}");
}

/// As after a write of another program.
#[tokio::test]
async fn a_release_by_key_says_that_the_lease_is_damaged() {
    let store = MemoryStore::new();
    let leases = manager(&store).await;
    let key = leases.acquire("a").await.unwrap().detach().await.unwrap();
    store.on_server("locks", |leases| {
        let damaged = |document| Document { expiry: Expiry::Damaged, ..document };
        leases.apply("a", |found, _| (found.map(damaged), ()));
    });
    let error = leases.release_detached(&key).await.unwrap_err();
    assert!(matches!(&error, Error::Damaged { name, .. } if name == "a"), "{error}");
}

/// The first command meets the fault when it is sent, and is carried out first.
#[tokio::test]
async fn commands_go_on_in_their_order_after_a_hang() {
    let store = MemoryStore::new();
    let managers = [manager(&store).await, manager(&store).await, manager(&store).await];
    let mut events: Vec<_> = managers.iter().map(Listener::of).collect();
    let hang = store.hang();
    store.fail_next(CommandKind::Acquire, MemoryFault::LostReply);
    let mut calls = Vec::new();
    for leases in &managers {
        calls.push(tokio::spawn(leases.acquire("a").into_future()));
        // The call has sent its command when nothing else is left to do.
        for _ in 0..50 {
            tokio::task::yield_now().await;
        }
    }
    assert_eq!(store.faults_left(), 0, "the first command has met it");
    drop(hang);
    let lease = granted(calls.remove(0)).await;
    for events in &mut events[1..] {
        events.times(1, |event| matches!(event, Event::Queued { .. })).await;
    }
    lease.release().await.unwrap();
    for call in calls {
        granted(call).await.release().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn managers_in_many_threads_exclude_each_other() {
    let store = MemoryStore::new();
    let inside = Arc::new(AtomicU32::new(0));
    let mut tasks = Vec::new();
    for _ in 0..8 {
        let (leases, inside) = (manager(&store).await, Arc::clone(&inside));
        tasks.push(tokio::spawn(async move {
            for _ in 0..25 {
                let lease = leases.acquire("a").await.unwrap();
                assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0);
                tokio::task::yield_now().await;
                assert_eq!(inside.fetch_sub(1, Ordering::SeqCst), 1);
                lease.release().await.unwrap();
            }
        }));
    }
    joined(tasks).await;
}
