//! Calls that wait for permits.

use std::time::Duration;

use futures_util::future::try_join_all;
use mongo_lease::{Lease, Released};

use super::{all_granted, dropped, granted, permits, queued, reader, writer};
use crate::both::{Backend, check};

/// All permits of the name.
async fn full(backend: &Backend, limit: u32) -> Vec<Lease> {
    let leases = backend.manager().await;
    let acquires = (0..limit).map(|_| permits(1, limit)(&leases).into_future());
    try_join_all(acquires).await.unwrap()
}

/// Nor do those behind it stay when there is room for all of them.
#[tokio::test]
async fn a_call_that_does_not_fit_is_not_overtaken() {
    check(async |backend| {
        let mut held = full(&backend, 3).await;
        let (_first, many) = queued(&backend, permits(3, 3)).await;
        let (second, one) = queued(&backend, permits(1, 3)).await;
        let (_third, two) = queued(&backend, permits(2, 3)).await;
        held.remove(0).release().await.unwrap();
        // One permit is free, and the first in the queue needs three.
        assert!(!second.semaphore("a", 3).try_acquire().await.unwrap().is_granted());
        assert!(!one.is_finished());
        for lease in held {
            lease.release().await.unwrap();
        }
        let many = granted(many).await;
        assert!(!one.is_finished() && !two.is_finished());
        many.release().await.unwrap();
        all_granted([one, two]).await;
    })
    .await;
}

/// Trap 2: nobody becomes an exclusive holder because somebody leaves the queue. Here it makes room.
#[tokio::test]
async fn a_call_that_gives_up_lets_those_behind_it_in() {
    check(async |backend| {
        let mut held = full(&backend, 3).await;
        let (_first, many) = queued(&backend, permits(2, 3)).await;
        let (_second, one) = queued(&backend, permits(1, 3)).await;
        held.remove(0).release().await.unwrap();
        assert!(!one.is_finished());
        dropped(many).await;
        assert!(granted(one).await.is_valid());
    })
    .await;
}

/// A writer that saw a reader begins with the command that admits. One that came while another writer held begins with
/// the command of exclusive leases, which must leave the queue as it is: else it would let the readers sleep.
#[tokio::test]
async fn a_writer_that_gives_up_lets_readers_in() {
    check(async |backend| {
        let leases = backend.manager().await;
        for saw_a_reader in [true, false] {
            let (first, gives_up) = if saw_a_reader {
                (reader(&leases).await.unwrap(), queued(&backend, writer).await)
            } else {
                let held = writer(&leases).await.unwrap();
                let (_first, first) = queued(&backend, reader).await;
                let gives_up = queued(&backend, writer).await;
                held.release().await.unwrap();
                (granted(first).await, gives_up)
            };
            let (_third, last) = queued(&backend, reader).await;
            assert!(!last.is_finished(), "the writer is before it");
            dropped(gives_up.1).await;
            granted(last).await.release().await.unwrap();
            first.release().await.unwrap();
        }
    })
    .await;
}

/// The writer sleeps until the end of the holder that lasts longest. When that one goes, a dead one may be left.
#[tokio::test]
async fn a_release_tells_the_first_waiter_of_an_earlier_end() {
    check(async |backend| {
        let leases = backend.manager().await;
        let hold = |secs| reader(&leases).renew(false).ttl(Duration::from_secs(secs));
        let long = hold(600).await.unwrap();
        // Like the lease of a process that has died: nobody renews it, and nobody releases it.
        let _dead = hold(2).await.unwrap();
        let (_writers, waiting) = queued(&backend, writer).await;
        assert_eq!(long.release().await.unwrap(), Released::Released);
        assert!(granted(waiting).await.is_valid());
    })
    .await;
}
