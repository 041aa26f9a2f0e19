//! Losses and faults while a call waits for several names.

use std::time::Duration;

use mongo_lease::{CommandKind, Error, Event, Lease, LeaseManager, MemoryFault, MemoryStore};

use crate::line::queued;
use crate::patience::{Listener, bounded, pass, soon};

pub(super) async fn manager(store: &MemoryStore) -> LeaseManager {
    LeaseManager::in_memory(store).build().await.unwrap()
}

async fn assert_nothing_is_left(store: &MemoryStore, leases: &LeaseManager) {
    assert_eq!(leases.shutdown().await.tasks_left, 0);
    assert_eq!(store.leases_in_use(), 0);
}

#[tokio::test]
async fn a_name_that_is_lost_during_the_wait_is_acquired_anew() {
    let store = MemoryStore::new();
    let (leases, others) = (manager(&store).await, manager(&store).await);
    // The call waits for "b", for "a" and again for "b": the last time it keeps "a".
    let held = others.acquire("b").wait_forever().await.unwrap();
    let mut events = Listener::of(&leases);
    let waiting = tokio::spawn(leases.acquire_all(["a", "b"]).wait_forever().into_future());
    queued(&mut events).await;
    let first = others.acquire("a").await.unwrap();
    held.release().await.unwrap();
    queued(&mut events).await;
    let held = others.acquire("b").wait_forever().await.unwrap();
    first.release().await.unwrap();
    queued(&mut events).await;
    let before = others.get("a").await.unwrap().unwrap();
    assert!(store.release("a"));
    // The next renewal finds it out.
    store.advance(Duration::from_secs(11));
    let lost = |event: &Event| matches!(event, Event::Lost { name, .. } if name == "a");
    events.find(|event| lost(event).then_some(())).await;
    queued(&mut events).await;
    held.release().await.unwrap();
    let set = soon("both are granted", waiting).await.unwrap().unwrap();
    assert_ne!(before.value.as_deref(), Some(set.get("a").unwrap().value()));
    assert!(set.is_valid());
}

#[tokio::test]
async fn a_refusal_of_one_name_fails_the_call_and_holds_nothing() {
    let store = MemoryStore::new();
    let leases = manager(&store).await;
    store.fail_next(CommandKind::Acquire, MemoryFault::Refused);
    let error = leases.acquire_all(["a", "b", "c"]).await.unwrap_err();
    assert!(matches!(error, Error::MongoDb(_)), "{error}");
    assert_nothing_is_left(&store, &leases).await;
}

/// Also where the wait is shorter than two attempts.
#[tokio::test(start_paused = true)]
async fn a_call_ends_at_its_deadline_while_the_database_hangs() {
    for seconds in [60, 2] {
        let store = MemoryStore::new();
        let leases = manager(&store).await;
        let hang = store.hang();
        let begin = tokio::time::Instant::now();
        let wait = Duration::from_secs(seconds);
        let error = leases.acquire_all(["a", "b"]).wait(wait).await.unwrap_err();
        assert!(matches!(error, Error::WaitTimeout { .. }), "{error}");
        assert_eq!(begin.elapsed().as_secs(), seconds);
        drop(hang);
        assert_nothing_is_left(&store, &leases).await;
    }
}

/// Each refusal that it has heard costs no other attempt, and each grant after its first wait stays.
#[tokio::test(start_paused = true)]
async fn names_that_are_known_to_be_taken_are_waited_for_one_after_the_other() {
    let store = MemoryStore::new();
    let client = store.client();
    let (leases, others) = (manager(&client).await, manager(&store).await);
    let (second, last) = (others.acquire("b").await.unwrap(), others.acquire("d").await.unwrap());
    // The attempt for "a" is answered last: so the call knows of "b" and "d".
    client.fail_next(CommandKind::Acquire, MemoryFault::NoPrimary);
    let mut events = Listener::of(&leases);
    let waiting =
        tokio::spawn(leases.acquire_all(["a", "b", "c", "d"]).wait_forever().into_future());
    queued(&mut events).await;
    pass(Duration::from_secs(1)).await;
    client.fail_next(CommandKind::Release, MemoryFault::LostReply);
    second.release().await.unwrap();
    queued(&mut events).await;
    last.release().await.unwrap();
    let set = bounded(waiting).await.unwrap().unwrap();
    assert!(set.is_valid());
    assert_eq!(client.faults_left(), 1, "something was given back after the first wait");
}

/// Whatever the later names bring, it would be given back.
#[tokio::test(start_paused = true)]
async fn a_call_that_does_not_wait_is_refused_as_soon_as_its_first_missing_name_is_known() {
    let store = MemoryStore::new();
    let (leases, others) = (manager(&store).await, manager(&store).await);
    let _held = others.acquire("a").await.unwrap();
    release_late(&store, leases.acquire("b").await.unwrap());
    let begin = tokio::time::Instant::now();
    let busy = leases.acquire_all(["a", "b"]).wait(Duration::ZERO).await.unwrap_err();
    assert!(matches!(busy, Error::Busy(info) if info.name == "a"));
    assert!(begin.elapsed().is_zero());
}

#[tokio::test(start_paused = true)]
async fn a_call_that_does_not_wait_tries_a_name_again_that_it_has_lost_meanwhile() {
    let store = MemoryStore::new();
    let leases = manager(&store).await;
    release_late(&store, leases.acquire("a").await.unwrap());
    // The attempt for "a" waits for half of the ttl, and "b" is renewed before that.
    let call = leases.acquire_all(["a", "b"]).ttl(Duration::from_secs(1)).wait(Duration::ZERO);
    let waiting = tokio::spawn(call.into_future());
    pass(Duration::from_millis(100)).await;
    assert!(store.release("a") && store.release("b"));
    assert!(bounded(waiting).await.unwrap().unwrap().is_valid());
}

/// Drops the lease, whose release meets faults. A new acquire of its name in its process waits for that.
fn release_late(store: &MemoryStore, lease: Lease) {
    for _ in 0..100 {
        store.fail_next(CommandKind::Release, MemoryFault::NoPrimary);
    }
    drop(lease);
}

/// The holder of the missing name is in the error, also when the time is over during another try.
#[tokio::test(start_paused = true)]
async fn a_timeout_names_the_holder_that_was_seen() {
    let store = MemoryStore::new();
    let (leases, others) = (manager(&store).await, manager(&store).await);
    let held = others.acquire("b").await.unwrap();
    let wait = Duration::from_secs(5);
    let error = leases.acquire_all(["a", "b"]).wait(wait).await.unwrap_err();
    let Error::WaitTimeout { name, waited, held: Some(info), .. } = error else {
        panic!("{error}")
    };
    assert_eq!((&*name, info.value.as_deref()), ("b", Some(held.value())));
    assert_eq!(waited.as_secs(), 5);
}

/// Before anything is sent.
#[tokio::test]
async fn names_that_cannot_be_acquired_together_are_refused() {
    let store = MemoryStore::new();
    let leases = manager(&store).await;
    store.fail_next(CommandKind::Acquire, MemoryFault::Refused);
    let many: Vec<String> = (0..1_001).map(|number| number.to_string()).collect();
    for (names, why) in [
        (Vec::new(), "names: must not be empty"),
        (vec!["a".to_owned(), "b".to_owned(), "a".to_owned()], "names: \"a\" is named twice"),
        (many, "names: must be at most 1000, and are 1001"),
    ] {
        let error = leases.acquire_all(names).await.unwrap_err();
        assert!(matches!(error, Error::InvalidOption { option: "names", .. }), "{error}");
        assert_eq!(error.to_string(), why);
    }
    let error = leases.acquire_all(["a"]).ttl(Duration::ZERO).await.unwrap_err();
    assert!(matches!(error, Error::InvalidOption { .. }), "{error}");
    let error = leases.acquire_all(["a", "b\0"]).await.unwrap_err();
    assert!(matches!(error, Error::InvalidName { .. }), "{error}");
    assert_eq!(store.faults_left(), 1, "something was sent");
}
