//! Heartbeats of waiters.

use std::time::Duration;

use mongo_lease::Lease;
use mongo_lease::mongodb::bson::{Document, doc};
use mongo_lease_testbed::{Server, TestDatabase};

use super::{granted, in_line, manager, told_only, told_only_tuning};
use crate::common::{document, migrated};
use crate::patience::{locks, until};
use crate::spy::Spy;

/// Server time of the newest heartbeat of the first waiter, in milliseconds.
async fn beat(database: &TestDatabase, name: &str) -> i64 {
    let document = document(database, name).await.unwrap();
    let first = document.get_array("queue").unwrap()[0].as_document().unwrap().clone();
    first.get_datetime("heartbeatAt").unwrap().timestamp_millis()
}

async fn server_time(server: &Server) -> i64 {
    let reply = server.admin(doc! { "hello": 1 }).await;
    reply.get_datetime("localTime").unwrap().timestamp_millis()
}

/// Entries that joined one after the other are refreshed by one command.
#[tokio::test]
async fn one_command_carries_the_heartbeats_of_all_names() {
    let server = Server::shared();
    let database = migrated(server).await;
    let holder = manager(server, &database).await;
    let (client, spy) = Spy::client(server).await;
    let life = Duration::from_secs(3);
    let leases = told_only(&database.through(&client))
        .tuning(told_only_tuning().waiter_ttl(life))
        .build()
        .await
        .unwrap();
    let names: Vec<String> = (0..20).map(|number| format!("lease:{number}")).collect();
    let mut held: Vec<Lease> = Vec::new();
    for name in &names {
        held.push(holder.acquire(name).await.unwrap());
    }
    let mut waiting = Vec::new();
    for name in &names {
        waiting.push(in_line(&leases, leases.acquire(name)).await);
    }
    spy.names();
    let mut joined = Vec::new();
    for name in &names {
        joined.push(beat(&database, name).await);
    }
    for (name, joined) in names.iter().zip(joined) {
        until("two signs of life", async || {
            (beat(&database, name).await > joined + 1_500).then_some(())
        })
        .await;
    }
    let names = spy.names();
    let beats = names.iter().filter(|name| *name == "update").count();
    assert!((2..=4).contains(&beats), "{names:?}");
    let others = ["update", "getMore", "ping"];
    assert!(names.iter().all(|name| others.contains(&name.as_str())), "{names:?}");
    for (lease, waiting) in held.into_iter().zip(waiting) {
        lease.release().await.unwrap();
        granted(waiting).await.release().await.unwrap();
    }
}

/// Entries that joined in four quarters of a heartbeat interval, as on a slow server, come to share one command.
#[tokio::test]
async fn heartbeats_of_entries_that_joined_apart_come_together() {
    let server = Server::shared();
    let database = migrated(server).await;
    let holder = manager(server, &database).await;
    let (client, spy) = Spy::client(server).await;
    let life = Duration::from_secs(6);
    let leases = told_only(&database.through(&client))
        .tuning(told_only_tuning().waiter_ttl(life))
        .build()
        .await
        .unwrap();
    let mut held = Vec::new();
    let mut waiting = Vec::new();
    let mut joined: Vec<(&str, i64)> = Vec::new();
    for name in ["a", "b", "c", "d"] {
        held.push(holder.acquire(name).await.unwrap());
        if let Some((_, last)) = joined.last() {
            let quarter = async || (server_time(server).await > last + 540).then_some(());
            until("more than a quarter of an interval has passed", quarter).await;
        }
        waiting.push(in_line(&leases, leases.acquire(name)).await);
        joined.push((name, beat(&database, name).await));
    }
    let beaten_after = async |wait: i64| {
        for (name, joined) in &joined {
            let beaten = async || (beat(&database, name).await > joined + wait).then_some(());
            until("a heartbeat", beaten).await;
        }
    };
    // By then each of the four has had a heartbeat that could take others along.
    beaten_after(4_000).await;
    spy.names();
    beaten_after(10_000).await;
    let beats = spy.names().iter().filter(|name| *name == "update").count();
    // Three intervals, or almost four. Four groups would need at least twelve.
    assert!((2..=5).contains(&beats), "{beats} commands");
    for (lease, waiting) in held.into_iter().zip(waiting) {
        lease.release().await.unwrap();
        granted(waiting).await.release().await.unwrap();
    }
}

/// A transaction blocks one lease's document: heartbeats for that queue wait, and all others go on.
#[tokio::test]
async fn a_document_in_a_transaction_does_not_delay_other_heartbeats() {
    let server = Server::shared();
    let database = migrated(server).await;
    let holder = manager(server, &database).await;
    let life = Duration::from_secs(2);
    let through = database.through(&server.client().await);
    let leases =
        told_only(&through).tuning(told_only_tuning().waiter_ttl(life)).build().await.unwrap();
    let mut held = Vec::new();
    let mut waiting = Vec::new();
    for name in ["a", "b", "c"] {
        held.push(holder.acquire(name).await.unwrap());
        waiting.push(in_line(&leases, leases.acquire(name)).await);
    }
    let mut session = database.client().start_session().await.unwrap();
    session.start_transaction().await.unwrap();
    let update = doc! { "$set": { "of": "another program" } };
    let locks = locks(&database);
    locks.update_one(doc! { "name": "a" }, update).session(&mut session).await.unwrap();
    let (blocked, began) = (beat(&database, "a").await, beat(&database, "b").await);
    let mut longest = 0;
    let mut newest = began;
    while newest < began + 6_000 {
        let beaten = async || Some(beat(&database, "b").await).filter(|beat| *beat > newest);
        let next = until("another sign of life", beaten).await;
        longest = longest.max(next - newest);
        newest = next;
    }
    eprintln!("the longest time between two signs of life: {longest} ms");
    assert!(longest < 2_000, "{longest} ms");
    assert_eq!(beat(&database, "a").await, blocked);
    session.commit_transaction().await.unwrap();

    // Its entry had expired meanwhile, and still no waiter is forgotten.
    for (lease, waiting) in held.into_iter().zip(waiting) {
        lease.release().await.unwrap();
        granted(waiting).await.release().await.unwrap();
    }
}

/// The document has gone, and its queue with it: the waiters join again.
#[tokio::test]
async fn those_whose_entry_has_gone_come_again() {
    let server = Server::shared();
    let database = migrated(server).await;
    let holder = manager(server, &database).await;
    let life = Duration::from_millis(900);
    let through = database.through(&server.client().await);
    let leases =
        told_only(&through).tuning(told_only_tuning().waiter_ttl(life)).build().await.unwrap();
    let lease = holder.acquire("a").await.unwrap();
    let waiting = in_line(&leases, leases.acquire("a")).await;
    let cleared = doc! { "$unset": { "queue": "" } };
    locks(&database).update_one(doc! { "name": "a" }, cleared).await.unwrap();
    let is_back = async || {
        let document = document(&database, "a").await.unwrap();
        document.get_array("queue").is_ok_and(|queue| queue.len() == 1).then_some(())
    };
    until("it is in line again", is_back).await;
    // By a foreign release: nobody is promoted, and no event reaches the waiters.
    let all = doc! { "name": "a" };
    assert_eq!(locks(&database).delete_one(all).await.unwrap().deleted_count, 1);
    let next = granted(waiting).await;
    assert!(lease.renew().await.is_err());
    let found: Document = document(&database, "a").await.unwrap();
    assert_eq!(found.get_str("value").unwrap(), next.value());
}
