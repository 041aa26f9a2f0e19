//! The cost of attempts for the server.

use mongo_lease::mongodb::bson::{Document, Timestamp, doc};
use mongo_lease::{Attempt, LeaseManager};
use mongo_lease_testbed::{Server, TestDatabase};

use crate::common::{builder, migrated};
use crate::lent::lent_setup;
use crate::spy::Spy;

#[tokio::test]
async fn an_acquire_is_one_command_and_so_is_a_release() {
    let server = Server::shared();
    let database = migrated(server).await;
    let (client, spy) = Spy::client(server).await;
    let leases = LeaseManager::builder(&database.through(&client)).build().await.unwrap();
    spy.names();
    let lease = leases.try_acquire("a").await.unwrap().granted().expect("it is free");
    assert_eq!(spy.names(), ["findAndModify"]);
    assert!(leases.try_acquire("a").await.unwrap().granted().is_none());
    assert_eq!(spy.names(), ["findAndModify"]);
    lease.renew().await.unwrap();
    assert_eq!(spy.names(), ["update"]);
    lease.release().await.unwrap();
    assert_eq!(spy.names(), ["delete"]);
    assert_eq!(spy.failures(), Vec::<String>::new());
}

/// The same by the server's own count, which also includes what the driver hides.
#[tokio::test]
async fn the_server_counts_the_same() {
    let (server, _database, leases) = lent_setup().await;
    leases.acquire("before").await.unwrap().release().await.unwrap();
    let before = server.command_counts().await;
    let lease = leases.try_acquire("a").await.unwrap().granted().expect("it is free");
    assert!(leases.try_acquire("a").await.unwrap().granted().is_none());
    lease.release().await.unwrap();
    let counts = server.command_counts().await.since(&before);
    let found = (counts.find_and_modify, counts.delete, counts.update, counts.insert, counts.find);
    assert_eq!(found, (2, 1, 0, 0, 0));
    assert_eq!(counts.aggregate, 0);
}

#[tokio::test]
async fn a_losing_attempt_writes_nothing() {
    let database = migrated(Server::shared()).await;
    let leases = builder(&database).build().await.unwrap();
    let _lease = leases.acquire("a").renew(false).await.unwrap();
    let (count, newest) = oplog(&database).await;
    let before = crate::common::document(&database, "a").await;
    for _ in 0..10 {
        let Attempt::Busy(_) = leases.try_acquire("a").await.unwrap() else {
            panic!("granted twice");
        };
    }
    assert_eq!(oplog(&database).await, (count, newest));
    assert_eq!(crate::common::document(&database, "a").await, before);
    // A grant would have shown in the oplog.
    let _other = leases.acquire("b").await.unwrap();
    let (more, newer) = oplog(&database).await;
    assert_eq!(more, count + 1);
    assert!(newer > newest);
}

/// How many oplog entries concern this collection, and the time of the newest.
async fn oplog(database: &TestDatabase) -> (usize, Option<Timestamp>) {
    use futures_util::TryStreamExt;
    let oplog = database.client().database("local").collection::<Document>("oplog.rs");
    let filter = doc! { "ns": format!("{}.locks", database.name()) };
    let entries: Vec<Document> = oplog.find(filter).await.unwrap().try_collect().await.unwrap();
    let newest = entries.last().map(|entry| entry.get_timestamp("ts").unwrap());
    (entries.len(), newest)
}
