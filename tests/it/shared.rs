//! Readers and writers.

use mongo_lease::Released;

use crate::both::{Backend, check};
use crate::common::{TryOnce, document};
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
        for _ in 0..2 {
            let (leases, call) = queued(&backend, reader).await;
            readers.extend([call, queued_by(&leases, reader).await]);
            managers.push(leases);
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
        if let Backend::Server(database) = &backend {
            // Each later command would carry the readers until the document is deleted: 84 KB of 250.
            let found = document(database, "a").await.unwrap();
            assert!(!found.contains_key("holders"), "{found}");
        }
        second.release().await.unwrap();
        assert!(granted(late).await.is_valid());
    })
    .await;
}
