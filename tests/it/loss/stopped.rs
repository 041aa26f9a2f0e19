//! A process that is stopped for longer than its ttl, and resumed.

use std::time::Duration;

use mongo_lease::mongodb::bson::{Document, doc};
use mongo_lease::mongodb::{ClientSession, Database};
use mongo_lease::{Error, Lease, LeaseManager, LostReason, Token};
use mongo_lease_testbed::{Server, TestDatabase};

use crate::common::{builder, migrated};
use crate::lent::lent_setup;
use crate::patience::soon;
use crate::worker::{Worker, as_worker, order, say};

const TTL: Duration = Duration::from_secs(1);

fn word_for(error: &Error) -> &'static str {
    match error {
        Error::Lost { reason: LostReason::NotRenewed, .. } => "not renewed",
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
        let mut session = database.client().start_session().await.unwrap();
        session.start_transaction().await.unwrap();
        say(word_for(&lease.guard(&mut session).await.unwrap_err()));
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
    assert_eq!(worker.says().await, "not renewed", "guard()");
    assert_eq!(worker.says().await, "not renewed", "renew()");
    assert!(next.is_valid());
}

/// A server that ends a transaction after a second.
async fn impatient_server() -> (Server, TestDatabase) {
    let server = Server::builder().parameter("transactionLifetimeLimitSeconds", 1).start();
    let database = migrated(&server).await;
    database.create_collection("work").await.unwrap();
    (server, database)
}

/// A lease, and a transaction that it guards and in which its holder has worked.
async fn guarded_work(database: &Database) -> (Lease, ClientSession) {
    let leases = LeaseManager::builder(database).await.unwrap();
    let lease = leases.acquire("a").ttl(TTL).await.unwrap();
    let mut session = database.client().start_session().await.unwrap();
    session.start_transaction().await.unwrap();
    lease.guard(&mut session).await.unwrap();
    let work = database.collection::<Document>("work");
    work.insert_one(doc! { "by": "the holder" }).session(&mut session).await.unwrap();
    (lease, session)
}

async fn pieces_of_work(database: &Database) -> u64 {
    database.collection::<Document>("work").count_documents(doc! {}).await.unwrap()
}

/// It was stopped *after* its guard, inside of the transaction. Only when the server has ended that, somebody else is
/// granted the lease.
#[tokio::test]
async fn a_process_that_was_stopped_behind_its_guard_cannot_commit() {
    const NAME: &str = "loss::stopped::a_process_that_was_stopped_behind_its_guard_cannot_commit";
    if let Some(database) = as_worker().await {
        let (lease, mut session) = guarded_work(&database).await;
        say("guarded");
        let _woken = order();
        say(session.commit_transaction().await.is_ok());
        say(lease.is_valid());
        let _end = order();
        return;
    }
    let (server, database) = impatient_server().await;
    let leases = builder(&database).build().await.unwrap();
    let mut worker = Worker::start(NAME, server.uri(), &database);
    assert_eq!(worker.says().await, "guarded");

    worker.pause();
    let next = soon("the next grant", leases.acquire("a").into_future()).await.unwrap();
    worker.tell("you were stopped").await;
    worker.resume();
    assert_eq!(worker.says().await, "false", "it has committed");
    assert_eq!(worker.says().await, "false", "it believes that it holds");
    assert_eq!(pieces_of_work(&database).await, 0);
    assert!(next.is_valid());
}

/// The negative control: a process that was not stopped commits.
#[tokio::test]
async fn a_process_that_was_not_stopped_behind_its_guard_commits() {
    let (_server, database) = impatient_server().await;
    let (_lease, mut session) = guarded_work(&database).await;
    session.commit_transaction().await.unwrap();
    assert_eq!(pieces_of_work(&database).await, 1);
}
