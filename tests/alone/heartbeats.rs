//! Heartbeats of waiters: how many commands they are, and when they come.

use std::time::Duration;

use mongo_lease::mongodb::bson::doc;
use mongo_lease::{Lease, LeaseManager};
use mongo_lease_testbed::{Server, TestDatabase};

use crate::blocking::transaction_on;
use crate::common::{document, setup};
use crate::patience::until;
use crate::spy::Spy;
use crate::waiters::{Waiting, granted, in_line, manager_with, told_only};

/// Server time of the newest heartbeat of the first waiter, in milliseconds.
async fn beat(database: &TestDatabase, name: &str) -> i64 {
    let document = document(database, name).await.unwrap();
    let first = document.get_array("queue").unwrap()[0].as_document().unwrap().clone();
    first.get_datetime("heartbeatAt").unwrap().timestamp_millis()
}

async fn server_time() -> i64 {
    let reply = Server::shared().admin(doc! { "hello": 1 }).await;
    reply.get_datetime("localTime").unwrap().timestamp_millis()
}

/// A lease that somebody holds, and a call that waits for it.
async fn contended(holder: &LeaseManager, leases: &LeaseManager, name: &str) -> (Lease, Waiting) {
    let lease = holder.acquire(name).await.unwrap();
    (lease, in_line(leases, leases.acquire(name)).await)
}

async fn hand_all_on(contended: Vec<(Lease, Waiting)>) {
    for (lease, waiting) in contended {
        lease.release().await.unwrap();
        granted(waiting).await.release().await.unwrap();
    }
}

/// Entries that joined in four quarters of a heartbeat interval, as on a slow server, come to share one command.
#[tokio::test]
async fn heartbeats_of_entries_that_joined_apart_come_together() {
    let (database, holder) = setup().await;
    let (client, spy) = Spy::client(Server::shared()).await;
    let leases = told_only(&database.through(&client), Duration::from_secs(6));
    let leases = leases.build().await.unwrap();
    let mut all = Vec::new();
    let mut joined: Vec<(&str, i64)> = Vec::new();
    for name in ["a", "b", "c", "d"] {
        if let Some((_, last)) = joined.last() {
            let quarter = async || (server_time().await > last + 540).then_some(());
            until("more than a quarter of an interval has passed", quarter).await;
        }
        all.push(contended(&holder, &leases, name).await);
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
    let sent = spy.names();
    let beats = sent.iter().filter(|name| *name == "update").count();
    // Three intervals, or almost four. Four groups would need at least twelve.
    assert!((2..=5).contains(&beats), "{sent:?}");
    let waiting_costs = ["update", "getMore", "ping"];
    assert!(sent.iter().all(|name| waiting_costs.contains(&name.as_str())), "{sent:?}");
    hand_all_on(all).await;
}

/// A transaction blocks one lease's document: heartbeats for that queue wait, and all others go on.
#[tokio::test]
async fn a_document_in_a_transaction_does_not_delay_other_heartbeats() {
    let (database, holder) = setup().await;
    // Their heartbeats are due each third of this time.
    let waiter_ttl = Duration::from_secs(9);
    let leases = manager_with(Server::shared(), &database, waiter_ttl).await;
    let mut all = Vec::new();
    for name in ["a", "b", "c"] {
        all.push(contended(&holder, &leases, name).await);
    }
    let mut session = transaction_on(&database, doc! { "name": "a" }).await;
    let (blocked, began) = (beat(&database, "a").await, beat(&database, "b").await);
    let mut newest = began;
    while newest < began + 12_000 {
        let beaten = async || Some(beat(&database, "b").await).filter(|beat| *beat > newest);
        let next = until("another heartbeat", beaten).await;
        // Otherwise the entry would have expired.
        assert!(next - newest < 9_000, "{} ms between two heartbeats", next - newest);
        newest = next;
    }
    assert_eq!(beat(&database, "a").await, blocked);
    session.abort_transaction().await.unwrap();
    // Its entry had expired meanwhile, and still no waiter is forgotten.
    hand_all_on(all).await;
}
