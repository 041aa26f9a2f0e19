//! Trouble that a test makes with a store in memory.

use std::time::Duration;

use mongo_lease::mongodb::error::ErrorKind;
use mongo_lease::{CommandKind, Error, Event, LostReason, MemoryFault, MemoryStore, Released};

use super::manager;
use crate::patience::{Listener, bounded, soon};

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
async fn an_acquire_without_a_primary_is_sent_again_and_granted() {
    let store = MemoryStore::new();
    let leases = manager(&store).await;
    store.fail_next(CommandKind::Acquire, MemoryFault::NoPrimary);
    store.fail_next(CommandKind::Acquire, MemoryFault::NoPrimary);
    assert!(leases.acquire("a").await.unwrap().is_valid());
    assert_eq!(store.faults_left(), 0);
}

#[tokio::test]
async fn an_acquire_whose_reply_is_lost_finds_its_own_grant() {
    let store = MemoryStore::new();
    let (leases, other) = (manager(&store).await, manager(&store).await);
    store.fail_next(CommandKind::Acquire, MemoryFault::LostReply);
    let lease = leases.acquire("a").await.unwrap();
    assert_eq!(store.faults_left(), 0);
    assert!(!other.try_acquire("a").await.unwrap().is_granted());
    assert_eq!(lease.release().await.unwrap(), Released::Released);
    assert!(other.try_acquire("a").await.unwrap().is_granted());
}

#[tokio::test]
async fn a_release_whose_reply_is_lost_is_unknown_and_done() {
    let store = MemoryStore::new();
    let (leases, other) = (manager(&store).await, manager(&store).await);
    let lease = leases.acquire("a").await.unwrap();
    store.fail_next(CommandKind::Release, MemoryFault::LostReply);
    assert_eq!(lease.release().await.unwrap(), Released::Unknown);
    assert!(other.try_acquire("a").await.unwrap().is_granted());
}

#[tokio::test]
async fn a_refused_release_is_an_error_and_the_lease_expires() {
    let store = MemoryStore::new();
    let (leases, other) = (manager(&store).await, manager(&store).await);
    let lease = leases.acquire("a").renew(false).await.unwrap();
    // The drop that follows the failed release sends one too.
    store.fail_next(CommandKind::Release, MemoryFault::Refused);
    store.fail_next(CommandKind::Release, MemoryFault::Refused);
    assert!(matches!(lease.release().await, Err(Error::MongoDb(_))));
    assert!(!other.try_acquire("a").await.unwrap().is_granted());
    store.advance(MINUTE);
    assert!(other.try_acquire("a").await.unwrap().is_granted());
}

#[tokio::test(start_paused = true)]
async fn calls_end_by_their_deadlines_while_the_store_hangs() {
    let store = MemoryStore::new();
    let leases = manager(&store).await;
    let lease = leases.acquire("a").await.unwrap();
    let hang = store.hang();
    let begin = tokio::time::Instant::now();
    let error = leases.acquire("b").wait(Duration::from_secs(3)).await.unwrap_err();
    assert!(matches!(error, Error::WaitTimeout { .. }), "{error}");
    assert_eq!(begin.elapsed().as_secs(), 3);
    assert!(matches!(leases.ping().await, Err(Error::Unknown { .. })));
    let lost = lease.lost().await;
    assert!(matches!(lost, LostReason::OutOfReach { .. }), "{lost}");
    assert!(begin.elapsed() <= Duration::from_secs(30), "{:?}", begin.elapsed());
    drop(hang);
    // The store carries out now what was sent meanwhile. The grant for which no call waits any more is given back.
    let again = leases.acquire("b").await.unwrap();
    assert!(again.is_valid());
    assert_eq!(leases.shutdown().await.tasks_left, 0);
}

#[tokio::test]
async fn an_expired_lease_goes_to_the_first_waiter_beside_its_old_holder() {
    let store = MemoryStore::new();
    let (one, other) = (manager(&store).await, manager(&store).await);
    let mut events = Listener::of(&other);
    let old = one.acquire("a").await.unwrap();
    let waiting = tokio::spawn(other.acquire("a").into_future());
    events.find(|event| matches!(event, Event::Queued { .. }).then_some(())).await;
    events.watching().await;
    assert!(store.expire("a"));
    let new = soon("the waiter is granted the lease", waiting).await.unwrap().unwrap();
    // The old holder believes in it still, which is what the tokens are for.
    let old_token = old.token().unwrap();
    assert!(new.token().unwrap() > old_token);
    old.renew().await.unwrap_err();
    assert!(matches!(bounded(old.lost()).await, LostReason::TakenOver { .. }));
    assert!(!store.expire("nobody's"));
}

#[tokio::test]
async fn an_operators_release_is_noticed_by_the_holders_next_renewal() {
    let store = MemoryStore::new();
    let (one, other) = (manager(&store).await, manager(&store).await);
    let lease = one.acquire("a").await.unwrap();
    assert!(store.release("a"));
    assert!(!store.release("a"));
    assert!(matches!(lease.renew().await, Err(Error::Lost { reason: LostReason::Removed, .. })));
    // With a waiter, the lease is handed off.
    let mut events = Listener::of(&other);
    let lease = one.acquire("a").await.unwrap();
    let waiting = tokio::spawn(other.acquire("a").into_future());
    events.find(|event| matches!(event, Event::Queued { .. }).then_some(())).await;
    assert!(store.release("a"));
    let promoted = soon("the waiter is promoted", waiting).await.unwrap().unwrap();
    assert!(promoted.is_valid());
    assert!(lease.renew().await.is_err());
}

#[tokio::test]
async fn leases_of_two_stores_and_of_two_collections_are_apart() {
    let (store, second) = (MemoryStore::new(), MemoryStore::new());
    let (leases, elsewhere) = (manager(&store).await, manager(&second).await);
    let builder = mongo_lease::LeaseManager::in_memory(&store).collection("others");
    let others = builder.build().await.unwrap();
    let _lease = leases.acquire("a").await.unwrap();
    assert!(elsewhere.try_acquire("a").await.unwrap().is_granted());
    assert!(others.try_acquire("a").await.unwrap().is_granted());
}

#[tokio::test]
async fn a_guard_is_unsupported_and_keeps_the_lease() {
    let store = MemoryStore::new();
    let leases = manager(&store).await;
    let lease = leases.acquire("a").await.unwrap();
    let client = mongo_lease_testbed::Server::shared().client().await;
    let mut session = client.start_session().await.unwrap();
    session.start_transaction().await.unwrap();
    let error = lease.guard(&mut session).await.unwrap_err();
    assert!(matches!(error, Error::Unsupported { .. }), "{error}");
    assert_eq!(error.to_string(), "unsupported: a store in memory has no transactions");
    lease.renew().await.unwrap();
    session.abort_transaction().await.unwrap();
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
    let waiting = tokio::spawn(waiter.acquire("a").wait_forever().into_future());
    events.find(|event| matches!(event, Event::Queued { .. }).then_some(())).await;
    events.watching().await;
    // Cut off, the waiter hears nothing, and the holder's renewal prolongs the lease.
    let hang = network.hang();
    assert!(store.expire("a"));
    lease.renew().await.unwrap();
    drop(hang);
    assert!(!waiting.is_finished());
    assert!(store.expire("a"));
    let granted = soon("the waiter is granted the lease", waiting).await.unwrap().unwrap();
    assert!(granted.is_valid());
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
    let mut calls = calls.into_iter();
    let first = calls.next().unwrap();
    let lease = soon("the first is granted the lease", first).await.unwrap().unwrap();
    for events in &mut events[1..] {
        events.find(|event| matches!(event, Event::Queued { .. }).then_some(())).await;
    }
    lease.release().await.unwrap();
    for call in calls {
        let lease = soon("the next is granted the lease", call).await.unwrap().unwrap();
        lease.release().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn managers_in_many_threads_exclude_each_other() {
    let store = MemoryStore::new();
    let inside = std::sync::Arc::new(std::sync::atomic::AtomicU32::new(0));
    let mut tasks = Vec::new();
    for _ in 0..8 {
        let (leases, inside) = (manager(&store).await, std::sync::Arc::clone(&inside));
        tasks.push(tokio::spawn(async move {
            for _ in 0..25 {
                let lease = leases.acquire("a").await.unwrap();
                assert_eq!(inside.fetch_add(1, std::sync::atomic::Ordering::SeqCst), 0);
                tokio::task::yield_now().await;
                assert_eq!(inside.fetch_sub(1, std::sync::atomic::Ordering::SeqCst), 1);
                lease.release().await.unwrap();
            }
        }));
    }
    for task in tasks {
        bounded(task).await.unwrap();
    }
}
