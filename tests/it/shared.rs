//! Readers and writers.

use std::time::Duration;

use mongo_lease::{Lease, LeaseManager, Released};

use crate::both::{Backend, check};
use crate::common::{TryOnce, document, setup};
use crate::patience::{Listener, bounded};
use crate::permits::{granted, queued, queued_by};

fn reader(leases: &LeaseManager) -> mongo_lease::Acquire {
    leases.acquire("a").shared()
}

#[tokio::test]
async fn readers_share_and_exclude_writers() {
    check(async |backend| {
        let (leases, others) = (backend.manager().await, backend.manager().await);
        let readers = [
            leases.acquire("a").shared().await.unwrap(),
            leases.acquire("a").shared().await.unwrap(),
            others.acquire("a").shared().try_once().await.unwrap().granted().expect("shared"),
        ];
        assert!(readers.iter().all(|lease| lease.is_shared() && lease.permits() == 1));
        assert!(!others.try_acquire("a").await.unwrap().is_granted());
        for lease in readers {
            assert_eq!(lease.release().await.unwrap(), Released::Released);
        }
        let writer = others.try_acquire("a").await.unwrap().granted().expect("it is free");
        assert!(!writer.is_shared());
        assert!(!leases.acquire("a").shared().try_once().await.unwrap().is_granted());
        assert_eq!(writer.release().await.unwrap(), Released::Released);
        backend.until_nothing_is_left().await;
    })
    .await;
}

#[tokio::test]
async fn a_waiting_writer_is_passed_by_no_reader() {
    check(async |backend| {
        let leases = backend.manager().await;
        let first = leases.acquire("a").shared().await.unwrap();
        let (_writers, writer) = queued(&backend, |leases| leases.acquire("a")).await;
        assert!(!leases.acquire("a").shared().try_once().await.unwrap().is_granted());
        let (_readers, second) = queued(&backend, reader).await;
        first.release().await.unwrap();
        let writer = granted(writer).await;
        assert!(!second.is_finished());
        writer.release().await.unwrap();
        assert!(granted(second).await.is_valid());
    })
    .await;
}

#[tokio::test]
async fn readers_between_two_writers_enter_together() {
    check(async |backend| {
        let leases = backend.manager().await;
        let first = leases.acquire("a").await.unwrap();
        let mut readers = Vec::new();
        for _ in 0..4 {
            readers.push(queued(&backend, reader).await);
        }
        let (_writers, second) = queued(&backend, |leases| leases.acquire("a")).await;
        let (_late, late) = queued(&backend, reader).await;
        let token = first.token().unwrap();
        first.release().await.unwrap();
        let mut reading: Vec<Lease> = Vec::new();
        for (_manager, call) in readers {
            reading.push(granted(call).await);
        }
        // They exclude the writer before them, and one write has admitted them.
        let tokens: Vec<_> = reading.iter().map(|lease| lease.token().unwrap()).collect();
        assert!(tokens.iter().all(|&later| later > token));
        assert!(!second.is_finished() && !late.is_finished());
        for lease in reading {
            lease.release().await.unwrap();
        }
        let second = granted(second).await;
        assert!(tokens.into_iter().all(|earlier| earlier < second.token().unwrap()));
        assert!(!late.is_finished());
        second.release().await.unwrap();
        assert!(granted(late).await.is_valid());
    })
    .await;
}

/// Each later command would carry the holders until the document is deleted: 84 KB of 250 readers.
#[tokio::test]
async fn a_writer_behind_readers_keeps_no_holders() {
    let (database, leases) = setup().await;
    let backend = Backend::Server(database);
    let readers = [reader(&leases).await.unwrap(), reader(&leases).await.unwrap()];
    let (_writers, writer) = queued(&backend, |leases| leases.acquire("a")).await;
    for reader in readers {
        reader.release().await.unwrap();
    }
    let writer = granted(writer).await;
    let Backend::Server(database) = &backend else { unreachable!() };
    let found = document(database, "a").await.unwrap();
    assert!(!found.contains_key("holders"), "{found}");
    assert!(writer.is_valid());
}

/// Of five processes, as many calls as each has in the queue at a time.
#[tokio::test]
async fn a_writer_hands_over_to_eighty_readers_in_one_write() {
    let (database, writers) = setup().await;
    let backend = Backend::Server(database);
    let writer = writers.acquire("a").ttl(Duration::from_secs(600)).await.unwrap();
    let mut processes = Vec::new();
    let mut calls = Vec::new();
    for _ in 0..5 {
        let readers = backend.manager().await;
        let mut events = Listener::of(&readers);
        for number in 0..16 {
            calls.push(queued_by(&readers, reader).await);
            if number == 0 {
                events.watching().await;
            }
        }
        processes.push(readers);
    }
    writer.release().await.unwrap();
    let mut tokens = Vec::new();
    let mut reading = Vec::new();
    for call in calls {
        let lease = granted(call).await;
        tokens.push(lease.token().unwrap());
        reading.push(lease);
    }
    assert!(tokens.iter().all(|token| *token == tokens[0]), "{tokens:?}");
    assert!(reading.iter().all(Lease::is_valid));
}

#[tokio::test]
async fn an_admitted_reader_has_its_whole_ttl_soon() {
    check(async |backend| {
        let writers = backend.manager().await;
        let writer = writers.acquire("a").await.unwrap();
        let readers = backend.manager().await;
        let mut events = Listener::of(&readers);
        let call = queued_by(&readers, reader).await;
        events.watching().await;
        writer.release().await.unwrap();
        let lease = granted(call).await;
        // A reader that has died since it joined costs no more than its entry's life.
        assert!(lease.remaining() < Duration::from_secs(11));
        events.renewals("a", 1).await;
        assert!(lease.remaining() > Duration::from_secs(20));
    })
    .await;
}

#[tokio::test]
async fn a_dropped_writer_hands_over_to_readers() {
    check(async |backend| {
        let writers = backend.manager().await;
        let writer = writers.acquire("a").await.unwrap();
        let (_first, one) = queued(&backend, reader).await;
        let (_second, two) = queued(&backend, reader).await;
        drop(writer);
        let both = [granted(one).await, granted(two).await];
        assert!(both.iter().all(Lease::is_valid));
        drop(both);
        let writer = bounded(writers.acquire("a").into_future()).await.unwrap();
        assert!(writer.is_valid());
    })
    .await;
}
