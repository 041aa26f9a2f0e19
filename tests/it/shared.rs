//! Readers and writers.

use std::collections::BTreeSet;
use std::time::Duration;

use mongo_lease::Released;

use crate::both::{Backend, check};
use crate::common::{TryOnce, builder, document, setup};
use crate::patience::Listener;
use crate::permits::{all_granted, granted, queued, queued_by, reader, writer};

#[tokio::test]
async fn readers_share_and_exclude_writers() {
    check(async |backend| {
        let (leases, others) = (backend.manager().await, backend.manager().await);
        let first = [reader(&leases).await.unwrap(), reader(&leases).await.unwrap()];
        let third = reader(&others).try_once().await.unwrap().granted().expect("shared");
        assert!(!others.try_acquire("a").await.unwrap().is_granted());
        for lease in first.into_iter().chain([third]) {
            assert!(lease.is_shared() && lease.permits() == 1);
            assert_eq!(lease.release().await.unwrap(), Released::Released);
        }
        let writer = others.try_acquire("a").await.unwrap().granted().expect("it is free");
        assert!(!writer.is_shared());
        assert!(!reader(&leases).try_once().await.unwrap().is_granted());
        assert_eq!(writer.release().await.unwrap(), Released::Released);
        backend.until_nothing_is_left().await;
    })
    .await;
}

#[tokio::test]
async fn readers_between_two_writers_enter_together() {
    check(async |backend| {
        let first = backend.manager().await.acquire("a").await.unwrap();
        let (mut managers, mut readers) = (Vec::new(), Vec::new());
        for _ in 0..4 {
            let (leases, call) = queued(&backend, reader).await;
            managers.push(leases);
            readers.push(call);
        }
        let (_writers, second) = queued(&backend, writer).await;
        let (_late, late) = queued(&backend, reader).await;
        let token = first.token().unwrap();
        first.release().await.unwrap();
        let reading = all_granted(readers).await;
        // They exclude the writer before them, and one write has admitted them.
        let tokens: Vec<_> = reading.iter().map(|lease| lease.token().unwrap()).collect();
        assert!(tokens.iter().all(|later| *later == tokens[0] && *later > token), "{tokens:?}");
        assert!(!second.is_finished() && !late.is_finished());
        let barging = reader(&managers[0]).try_once().await.unwrap();
        assert!(!barging.is_granted(), "a writer waits");
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
    let others = builder(&database).build().await.unwrap();
    let readers = [reader(&leases).await.unwrap(), reader(&leases).await.unwrap()];
    let mut events = Listener::of(&others);
    let waiting = queued_by(&others, writer).await;
    events.watching().await;
    for reader in readers {
        reader.release().await.unwrap();
    }
    let writing = granted(waiting).await;
    let found = document(&database, "a").await.unwrap();
    assert!(!found.contains_key("holders"), "{found}");
    assert!(writing.is_valid());
}

/// Of five processes, as many calls as each has in the queue at a time.
#[tokio::test]
async fn a_writer_hands_over_to_eighty_readers_in_one_write() {
    let (database, writers) = setup().await;
    let backend = Backend::Server(database);
    let writing = writer(&writers).ttl(Duration::from_secs(600)).await.unwrap();
    let (mut managers, mut calls) = (Vec::new(), Vec::new());
    for _ in 0..5 {
        let (readers, first) = queued(&backend, reader).await;
        calls.push(first);
        for _ in 1..16 {
            calls.push(queued_by(&readers, reader).await);
        }
        managers.push(readers);
    }
    writing.release().await.unwrap();
    let reading = all_granted(calls).await;
    let tokens: BTreeSet<_> = reading.iter().map(|lease| lease.token().unwrap()).collect();
    assert_eq!(tokens.len(), 1, "{tokens:?}");
}
