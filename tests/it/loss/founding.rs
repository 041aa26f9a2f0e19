//! The four failures in the articles that founded this field.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use mongo_lease::mongodb::Database;
use mongo_lease::mongodb::bson::{Document, doc};
use mongo_lease::{Attempt, Error, LeaseManager, LostReason, Released, Token};
use mongo_lease_testbed::Server;
use tokio::sync::Barrier;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::both::check;
use crate::common::{SHORT_TTL, builder, document, migrated, setup};
use crate::patience::{BUSY_MACHINE, soon, until_free};
use crate::worker::{Worker, as_worker, order, say};

/// Failure 1: the work goes on after the end of the lock, and nobody knows.
#[tokio::test]
async fn failure_1_work_outlives_the_expiry_and_the_holder_knows() {
    check(async |backend| {
        struct Stopped(Arc<AtomicBool>);
        impl Drop for Stopped {
            fn drop(&mut self) {
                self.0.store(true, Ordering::Release);
            }
        }
        let leases = backend.manager().await;
        let lease = leases.acquire("a").ttl(SHORT_TTL).renew(false).await.unwrap();
        let is_stopped = Arc::new(AtomicBool::new(false));
        let work = {
            let stopped = Stopped(Arc::clone(&is_stopped));
            async move {
                let _stopped = stopped;
                std::future::pending::<()>().await;
            }
        };
        let error = soon("the end of the work", lease.run(work)).await.unwrap_err();

        assert!(matches!(error, Error::Lost { reason: LostReason::EndedAsAsked, .. }), "{error}");
        assert!(is_stopped.load(Ordering::Acquire), "the work is dropped");
        assert!(lease.cancellation_token().is_cancelled());
        assert!(!lease.is_valid());
        assert!(lease.token().is_err());
    })
    .await;
}

/// Failure 2: a holder whose lock has expired frees that of the next holder. The defect of Rust `mongo-lock` and
/// `mongo-lock-async` (release by name only), of ShedLock and of Hangfire.Mongo.
#[tokio::test]
async fn failure_2_nobody_frees_anothers_lock() {
    let (database, leases) = setup().await;
    let released = leases.acquire("a").ttl(SHORT_TTL).renew(false).await.unwrap();
    let late = leases.acquire("b").ttl(SHORT_TTL).renew(false).await.unwrap();
    let (old_a, old_b) = (released.value().to_owned(), late.value().to_owned());
    let others = builder(&database).build().await.unwrap();
    let _next_a = others.acquire("a").await.unwrap();
    let next_b = others.acquire("b").await.unwrap();
    let before = (document(&database, "a").await, document(&database, "b").await);

    assert_eq!(released.release().await.unwrap(), Released::NotHeld);
    assert_eq!(leases.release("a", &old_a).await.unwrap(), Released::NotHeld);
    assert_eq!(leases.release("a", &old_a).await.unwrap(), Released::NotHeld);
    drop(late);
    assert_eq!(leases.release("b", &old_b).await.unwrap(), Released::NotHeld);
    // The shutdown waits for the release that the drop has started.
    assert_eq!(leases.shutdown().await.tasks_left, 0);

    assert_eq!((document(&database, "a").await, document(&database, "b").await), before);
    assert!(next_b.is_valid());
}

/// Failure 3: a crashed holder cannot be distinguished from a slow one. The next holder does not have to.
#[tokio::test]
async fn failure_3_a_crashed_holder_is_followed_after_its_ttl() {
    const NAME: &str = "loss::founding::failure_3_a_crashed_holder_is_followed_after_its_ttl";
    if let Some(database) = as_worker().await {
        let leases = LeaseManager::builder(&database).await.unwrap();
        let lease = leases.acquire("a").ttl(Duration::from_secs(1)).await.unwrap();
        say(lease.token().unwrap());
        let _end = order();
        return;
    }
    let database = migrated(Server::shared()).await;
    let leases = builder(&database).build().await.unwrap();
    let mut worker = Worker::start(NAME, Server::shared().uri(), &database);
    let token: Token = worker.says().await.parse().unwrap();
    assert!(matches!(leases.try_acquire("a").await.unwrap(), Attempt::Busy(_)));

    worker.kill();
    let crashed = Instant::now();
    let next = soon("the next grant", leases.acquire("a").into_future()).await.unwrap();
    let waited = crashed.elapsed();
    // Its ttl, and the second by which the clocks of servers may differ; not the minute of the TTL monitor.
    assert!(waited < BUSY_MACHINE, "followed after {waited:?}");
    assert!(next.token().unwrap() > token);
}

#[tokio::test]
async fn failure_3_a_slow_holder_is_followed_and_fenced() {
    const NAME: &str = "loss::founding::failure_3_a_slow_holder_is_followed_and_fenced";
    /// A program that does not check the lease before each write, like most.
    async fn write(database: &Database, token: Token, text: &str) -> bool {
        let change = doc! { "$set": { "text": text } };
        let write = token.fenced_write("fence", doc! { "_id": 42 }, change).unwrap();
        let invoices = database.collection::<Document>("invoices");
        write.send(&invoices).await.unwrap().is_applied()
    }
    if let Some(database) = as_worker().await {
        let leases = LeaseManager::builder(&database).await.unwrap();
        let lease = leases.acquire("a").ttl(Duration::from_secs(1)).await.unwrap();
        let token = lease.token().unwrap();
        say(write(&database, token, "first").await);
        let _woken = order();
        say(write(&database, token, "late").await);
        let _end = order();
        return;
    }
    let database = migrated(Server::shared()).await;
    let invoices = database.collection::<Document>("invoices");
    invoices.insert_one(doc! { "_id": 42 }).await.unwrap();
    let leases = builder(&database).build().await.unwrap();
    let mut worker = Worker::start(NAME, Server::shared().uri(), &database);
    assert_eq!(worker.says().await, "true", "the holder's own write");

    worker.pause();
    let next = soon("the next grant", leases.acquire("a").into_future()).await.unwrap();
    assert!(write(&database, next.token().unwrap(), "next").await);
    worker.tell("go on").await;
    worker.resume();
    assert_eq!(worker.says().await, "false", "the late write");
    let invoice = invoices.find_one(doc! { "_id": 42 }).await.unwrap().unwrap();
    assert_eq!(invoice.get_str("text").unwrap(), "next");
}

/// Failure 4: several find the lock expired, and each of them takes it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn failure_4_several_take_an_expired_lock_at_once_and_one_wins() {
    const TAKERS: usize = 8;
    let database = migrated(Server::shared()).await;
    let mut managers = Vec::new();
    for _ in 0..TAKERS {
        // A client each, as if they were processes of their own.
        let client = Server::shared().client().await;
        managers.push(
            LeaseManager::builder(&database.through(&client))
                .max_clock_skew(Duration::ZERO)
                .await
                .unwrap(),
        );
    }
    let mut newest = None;
    for round in 0..10 {
        let name = format!("lease:{}", round % 3);
        let crashed = managers[0].acquire(&name).ttl(SHORT_TTL).await.unwrap();
        let token = crashed.detach().await.unwrap().token();
        until_free(&managers[0], &name).await;
        let start = Arc::new(Barrier::new(TAKERS));
        let mut takers = JoinSet::new();
        for leases in managers.clone() {
            let (start, name) = (Arc::clone(&start), name.clone());
            takers.spawn(async move {
                start.wait().await;
                leases.try_acquire(&name).await.unwrap().granted()
            });
        }
        let won: Vec<_> = takers.join_all().await.into_iter().flatten().collect();
        assert_eq!(won.len(), 1, "round {round}");
        newest = newest.max(Some(won[0].token().unwrap()));
        assert!(won[0].token().unwrap() > token);
        for lease in won {
            assert_eq!(lease.release().await.unwrap(), Released::Released);
        }
    }
    assert!(newest.is_some());
}
