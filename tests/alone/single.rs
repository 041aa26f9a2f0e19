//! The commands of a single call.

use std::cell::Cell;
use std::time::Duration;

use mongo_lease::Released;
use mongo_lease::mongodb::bson::{Document, doc};
use mongo_lease_testbed::{Server, TestDatabase};

use crate::common::{builder, migrated, patient, refused};
use crate::lent::lent_database;
use crate::rounds::undisturbed;
use crate::spy::{Spy, spied_at};
use crate::waiters::{granted, queued_by};

#[tokio::test]
async fn a_lone_call_is_one_command_whatever_it_finds() {
    let (server, database) = lent_database().await;
    let leases = builder(&database).build().await.unwrap();
    let (others, spy) = spied_at(&server, &database, patient).await;
    for _ in 0..2 {
        let counts = Cell::default();
        let round = async || {
            let before = server.command_counts().await;
            let lease = others.try_acquire("a").await.unwrap().granted().expect("it is free");
            lease.renew().await.unwrap();
            assert_eq!(lease.release().await.unwrap(), Released::Released);
            counts.set(Some(server.command_counts().await.since(&before)));
        };
        assert_eq!(undisturbed(&spy, round).await, ["findAndModify", "update", "delete"]);
        // The server's own count includes what the driver hides; also finds of a new primary itself.
        let counts = counts.take().unwrap();
        let writes = (counts.find_and_modify, counts.update, counts.delete, counts.insert);
        assert_eq!((writes, counts.aggregate), ((1, 1, 1, 0), 0), "{counts:?}");
        let lease = leases.acquire("a").await.unwrap();
        let refusal = Cell::default();
        let round = async || refusal.set(Some(refused(&others, "a").await));
        assert_eq!(undisturbed(&spy, round).await, ["findAndModify"]);
        let held = refusal.take().unwrap();
        assert_eq!(held.value.as_deref(), Some(lease.value()));
        assert_eq!(held.owner.as_deref().and_then(|owner| owner.split('@').next()), Some("test"));
        lease.release().await.unwrap();
    }
}

/// A call that waits needs a slow acquire. Where the lease was held the last time, it sends that at once.
#[tokio::test]
async fn a_call_for_a_lease_that_was_held_before_asks_once() {
    let (server, database) = lent_database().await;
    let leases = builder(&database).build().await.unwrap();
    let (waiting, spy) = spied_at(&server, &database, patient).await;
    let asked = || spy.names().into_iter().filter(|name| name == "findAndModify").count();
    // One fast-path attempt in vain and one that joins; then only the second; and both again when it was free in
    // between.
    for (attempts, is_free_then) in [(2, false), (1, false), (1, true), (2, false)] {
        let lease = leases.acquire("a").await.unwrap();
        asked();
        let call = queued_by(&waiting, |leases| leases.acquire("a")).await;
        assert_eq!(asked(), attempts);
        lease.release().await.unwrap();
        granted(call).await.release().await.unwrap();
        if is_free_then {
            waiting.acquire("a").await.unwrap().release().await.unwrap();
        }
    }
}

#[tokio::test]
async fn a_grant_costs_one_more_command_on_a_standalone_server() {
    let server = Server::shared_standalone();
    let database = migrated(server).await;
    let (leases, spy) = spied_at(server, &database, patient).await;
    let lease = leases.acquire("a").wait(Duration::from_secs(5)).await.unwrap();
    assert_eq!(spy.names(), ["findAndModify", "findAndModify"]);
    lease.release().await.unwrap();
    assert_eq!(spy.names(), ["delete"]);
}

#[tokio::test]
async fn a_fenced_write_that_is_applied_is_one_command() {
    let (client, spy) = Spy::client(Server::shared()).await;
    let database = TestDatabase::of(&client);
    let work = database.collection::<Document>("work");
    work.insert_one(doc! { "_id": 1 }).await.unwrap();
    let leases = builder(&database).ensure_indexes(true).build().await.unwrap();
    let lease = leases.acquire("a").await.unwrap();
    spy.names();
    let write = lease.token().unwrap().fenced_write(
        "fence",
        doc! { "_id": 1 },
        doc! { "$set": { "by": "us" } },
    );
    assert!(write.unwrap().send(&work).await.unwrap().is_applied());
    assert_eq!(spy.names(), ["update"]);
}
