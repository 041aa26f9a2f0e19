//! A process that is stopped for longer than its ttl, and resumed.

use std::time::Duration;

use mongo_lease::mongodb::bson::{Document, doc};
use mongo_lease::{Error, LeaseManager, LostReason, Token};

use crate::lent::{lent_setup, limit_transactions};
use crate::patience::soon;
use crate::transactions::make_it_guard_first;
use crate::worker::{Worker, as_worker, order, say};

/// It is also how long the server lets a transaction last.
const TTL: Duration = Duration::from_secs(3);

fn word_for(error: &Error) -> &'static str {
    match error {
        Error::Lost { reason: LostReason::NotRenewed { .. }, .. } => "not renewed",
        other => panic!("{other}"),
    }
}

#[tokio::test]
async fn a_process_stopped_for_longer_than_its_ttl_wakes_up_lost() {
    const NAME: &str = "loss::stopped::a_process_stopped_for_longer_than_its_ttl_wakes_up_lost";
    if let Some(database) = as_worker().await {
        // One thread: nothing of the library runs between the end of the stop and the first use.
        let leases = LeaseManager::builder(&database).await.unwrap();
        let lease = leases.acquire("a").ttl(TTL).await.unwrap();
        say(lease.token().unwrap());
        let _woken = order();
        say(lease.is_valid());
        say(word_for(&lease.token().unwrap_err()));
        say(word_for(&lease.transaction().await.unwrap_err()));
        say(word_for(&lease.renew().await.unwrap_err()));
        let _end = order();
        return;
    }
    let (server, database, leases) = lent_setup().await;
    let mut worker = Worker::start(NAME, server.uri(), &database);
    let token: Token = worker.says().await.parse().unwrap();

    worker.pause();
    let next = soon("the next grant", leases.acquire("a").into_future()).await.unwrap();
    assert!(next.token().unwrap() > token);
    worker.tell("you were stopped").await;
    worker.resume();
    assert_eq!(worker.says().await, "false", "is_valid()");
    assert_eq!(worker.says().await, "not renewed", "token()");
    assert_eq!(worker.says().await, "not renewed", "transaction()");
    assert_eq!(worker.says().await, "not renewed", "renew()");
    assert!(next.is_valid());
}

/// It was stopped *after* its guard, which was first in the transaction. Only when the server has ended that, somebody
/// else is granted the lease.
#[tokio::test]
async fn a_process_that_was_stopped_behind_its_guard_cannot_commit() {
    const NAME: &str = "loss::stopped::a_process_that_was_stopped_behind_its_guard_cannot_commit";
    if let Some(database) = as_worker().await {
        let leases = LeaseManager::builder(&database).await.unwrap();
        let lease = leases.acquire("a").ttl(TTL).await.unwrap();
        let work = database.collection::<Document>("work");
        for is_stopped in [false, true] {
            make_it_guard_first(&lease, &database).await;
            let mut tx = lease.transaction().await.unwrap();
            work.insert_one(doc! { "by": "the holder" }).session(&mut tx).await.unwrap();
            if is_stopped {
                say("guarded");
                let _woken = order();
            }
            say(tx.commit().await.is_ok());
        }
        say(lease.is_valid());
        let _end = order();
        return;
    }
    let limit = i32::try_from(TTL.as_secs()).unwrap();
    let (server, database, leases) = lent_setup().await;
    limit_transactions(&server, limit).await;
    database.create_collection("work").await.unwrap();
    let mut worker = Worker::start(NAME, server.uri(), &database);
    // The negative control: a process that is not stopped commits.
    assert_eq!(worker.says().await, "true");
    assert_eq!(worker.says().await, "guarded");

    worker.pause();
    let next = soon("the next grant", leases.acquire("a").into_future()).await.unwrap();
    worker.tell("you were stopped").await;
    worker.resume();
    assert_eq!(worker.says().await, "false", "it has committed");
    assert_eq!(worker.says().await, "false", "it believes that it holds");
    let work = database.collection::<Document>("work");
    assert_eq!(work.count_documents(doc! {}).await.unwrap(), 1);
    assert!(next.is_valid());
}
