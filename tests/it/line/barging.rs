//! No newcomer is granted a lease before the waiters, and a queue has a maximum length.

use std::time::Duration;

use mongo_lease::mongodb::bson::{DateTime, doc};
use mongo_lease::{Attempt, Error, LeaseState};
use mongo_lease_testbed::{Proxy, Server};

use super::{
    dropped, granted, in_line, manager, start_waiting, told_only, told_only_tuning, until_line_is,
};
use crate::common::{SHORT_TTL, migrated};
use crate::lent::lent_database;
use crate::patience::{bounded, locks, until};

/// The lease has expired, and the first waiter is slow to take it over.
#[tokio::test]
async fn nobody_takes_a_free_lease_for_which_others_wait() {
    let (server, database) = lent_database().await;
    let proxy = Proxy::start(server.mongod().address());
    let slow = told_only(&database.through(&proxy.client().await)).build().await.unwrap();
    let second = manager(&server, &database).await;
    let other = manager(&server, &database).await;
    let crashed = other.acquire("a").ttl(SHORT_TTL).renew(false).await.unwrap();
    // Nobody renews or releases it from here on.
    drop(crashed.detach().await.unwrap());
    let first_in_line = in_line(&slow, slow.acquire("a").owner("first")).await;
    let second_in_line = in_line(&second, second.acquire("a").owner("second")).await;
    let late = proxy.hold_requests_to("findAndModify");
    bounded(late.held(1)).await;

    // Neither a newcomer, nor a manager with a waiter further back.
    for leases in [&other, &second] {
        let Attempt::Busy(info) = leases.try_acquire("a").await.unwrap() else {
            panic!("it went past those who wait");
        };
        assert_eq!(info.state, LeaseState::Free);
        assert_eq!(info.waiting, 2);
        let error = leases.acquire("a").wait(Duration::ZERO).await.unwrap_err();
        assert!(matches!(error, Error::Busy(_)), "{error}");
        until_line_is(&database, "a", &["first", "second"]).await;
    }
    // Nor a newcomer that waits: its attempt calls the first waiter, and it joins behind the others.
    let newcomer = in_line(&other, other.acquire("a").owner("newcomer")).await;
    until_line_is(&database, "a", &["first", "second", "newcomer"]).await;
    let document = locks(&database).find_one(doc! { "name": "a" }).await.unwrap();
    let document = document.unwrap();
    let head = document.get_array("queue").unwrap()[0].as_document().unwrap();
    let called = format!("{}@!", head.get_str("id").unwrap());
    let told = document.get_str("promoted").unwrap();
    assert!(told.starts_with(&called), "{told} calls another than {called}");
    // Its end in the queue admits the first waiter, as every end does.
    newcomer.abort();
    until_line_is(&database, "a", &["second"]).await;
    let third_in_line = in_line(&other, other.acquire("a").owner("third")).await;
    late.release();
    for waiting in [first_in_line, second_in_line, third_in_line] {
        let lease = granted(waiting).await;
        assert!(other.try_acquire("a").await.unwrap().granted().is_none());
        lease.release().await.unwrap();
    }
    assert!(other.try_acquire("a").await.unwrap().granted().is_some());
}

/// A hand-off leaves no moment in which the lease is free.
#[tokio::test]
async fn nobody_gets_in_between_two_who_hand_it_on() {
    let server = Server::shared();
    let database = migrated(server).await;
    let leases = manager(server, &database).await;
    let barging = manager(server, &database).await;
    let mut lease = leases.acquire("a").await.unwrap();
    let others = [manager(server, &database).await, manager(server, &database).await];
    let mut waiting = Vec::new();
    for other in &others {
        waiting.push(in_line(other, other.acquire("a")).await);
    }
    let barging = tokio::spawn(async move {
        let mut refused = 0;
        while barging.try_acquire("a").await.unwrap().granted().is_none() {
            refused += 1;
        }
        refused
    });
    for other in others.iter().cycle().take(20) {
        lease.release().await.unwrap();
        lease = granted(waiting.remove(0)).await;
        waiting.push(in_line(other, other.acquire("a")).await);
        assert!(!barging.is_finished(), "it was granted the lease past those who wait");
    }
    for waiting in waiting {
        lease.release().await.unwrap();
        lease = granted(waiting).await;
    }
    assert!(!barging.is_finished(), "it was granted the lease past those who wait");
    lease.release().await.unwrap();
    let refused = bounded(barging).await.unwrap();
    assert!(refused > 20, "{refused}");
}

#[tokio::test]
async fn a_full_queue_is_an_error_until_a_waiter_leaves() {
    let server = Server::shared();
    let database = migrated(server).await;
    let mut managers = Vec::new();
    for _ in 0..4 {
        let through = database.through(&server.client().await);
        managers.push(
            told_only(&through).tuning(told_only_tuning().max_waiting(2)).build().await.unwrap(),
        );
    }
    let [holder, first, second, third] = &managers[..] else { unreachable!() };
    let lease = holder.acquire("a").await.unwrap();
    let first_in_line = in_line(first, first.acquire("a").owner("first")).await;
    let second_in_line = in_line(second, second.acquire("a").owner("second")).await;
    let error = third.acquire("a").await.unwrap_err();
    let Error::QueueFull { name, waiting, .. } = error else { panic!("{error}") };
    assert_eq!((name.as_str(), waiting), ("a", 2));
    // It can still make attempts, and managers that are in the queue already can have more calls wait.
    assert!(third.try_acquire("a").await.unwrap().granted().is_none());
    let behind_second = start_waiting(second.acquire("a").owner("second"));

    dropped(first_in_line).await;
    until_line_is(&database, "a", &["second"]).await;
    let third_in_line = in_line(third, third.acquire("a").owner("third")).await;
    let error = first.acquire("a").await.unwrap_err();
    assert!(matches!(error, Error::QueueFull { .. }), "{error}");
    lease.release().await.unwrap();
    granted(second_in_line).await.release().await.unwrap();
    granted(third_in_line).await.release().await.unwrap();
    granted(behind_second).await.release().await.unwrap();
}

/// Dead entries do not count against the limit, and block no waiter.
#[tokio::test]
async fn the_dead_take_no_room() {
    let server = Server::shared();
    let database = migrated(server).await;
    let leases =
        told_only(&database).tuning(told_only_tuning().max_waiting(1)).build().await.unwrap();
    let other = manager(server, &database).await;
    let lease = other.acquire("a").await.unwrap();
    let waiting = in_line(&leases, leases.acquire("a")).await;
    let past = DateTime::from_millis(DateTime::now().timestamp_millis() - 60_000);
    waiting.abort();
    until_line_is(&database, "a", &[]).await;
    let dead = |value: &str| {
        doc! {
            "value": value, "id": format!("{value}.1"), "sentMicros": 1_i64,
            "heartbeatAt": past, "expiresAt": past,
            "ttlMs": 30_000_i64, "maxClockSkewMs": 0_i64, "owner": "dead@host:1", "metadata": {},
        }
    };
    let queue = vec![dead("one"), dead("two"), dead("three")];
    let update = doc! { "$set": { "queue": queue } };
    locks(&database).update_one(doc! { "name": "a" }, update).await.unwrap();
    let waiting = in_line(&leases, leases.acquire("a").owner("alive")).await;
    until_line_is(&database, "a", &["alive"]).await;
    let update = doc! { "$push": { "queue": { "$each": [dead("four")], "$position": 0 } } };
    locks(&database).update_one(doc! { "name": "a" }, update).await.unwrap();
    lease.release().await.unwrap();
    let lease = granted(waiting).await;
    lease.release().await.unwrap();
    until("the lease is free", async || other.get("a").await.unwrap().is_none().then_some(()))
        .await;
}
