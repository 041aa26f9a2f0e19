//! Without a change stream: waiters poll, in the same order.

use std::time::{Duration, Instant};

use mongo_lease::mongodb::Database;
use mongo_lease::{Event, LeaseManager, LeaseManagerBuilder, Tuning};
use mongo_lease_testbed::Server;

use super::crowd::{Crowd, longest_pause, queued};
use crate::common::{builder, migrated};
use crate::patience::{BUSY_MACHINE, Listener, PATIENCE, soon, until_nothing_is_left};
use crate::spy::Spy;
use crate::users;

/// The number of waiters that are checked one by one.
const WAITERS: usize = 8;

/// Some wait for a lease that is held, and all are served in order; one with a short wait leaves before.
async fn everybody_is_served_in_order(database: &Database, options: LeaseManagerBuilder) {
    let holder = options.clone().build().await.unwrap();
    let lease = holder.acquire("a").await.unwrap();
    let mut crowd = Crowd::new("a", PATIENCE);
    for _ in 0..WAITERS {
        crowd.join(options.clone().build().await.unwrap()).await;
    }
    let short = Duration::from_millis(400);
    let started = Instant::now();
    let hasty = holder.acquire("a").wait(short).await.unwrap_err();
    let took = started.elapsed();
    assert!(matches!(hasty, mongo_lease::Error::WaitTimeout { .. }), "{hasty}");
    assert!(took >= short && took < short + BUSY_MACHINE, "{took:?}");

    let before = lease.token().unwrap();
    let started = Instant::now();
    lease.release().await.unwrap();
    let turns = crowd.all_served_in_order(before).await;
    let first = turns[0].at - started;
    let (pause, number) = longest_pause(&turns);
    eprintln!("the first after {first:?}, {pause:?} at most between two (before {number})");
    until_nothing_is_left(database).await;
}

#[tokio::test]
async fn on_a_standalone_server_waiters_look_for_themselves_in_order() {
    let database = migrated(Server::shared_standalone()).await;
    everybody_is_served_in_order(&database, builder(&database)).await;
}

#[tokio::test]
async fn without_change_stream_none_is_opened_and_order_is_kept() {
    let server = Server::shared();
    let database = migrated(server).await;
    let (client, spy) = Spy::client(server).await;
    let spied = LeaseManager::builder(&database.through(&client))
        .tuning(Tuning::default().change_stream(false));
    everybody_is_served_in_order(&database, spied.clone()).await;
    let leases = spied.build().await.unwrap();
    let mut events = Listener::of(&leases);
    let holder = builder(&database).build().await.unwrap();
    let lease = holder.acquire("a").await.unwrap();
    let next = tokio::spawn(leases.acquire("a").into_future());
    queued(&mut events).await;
    lease.release().await.unwrap();
    assert!(soon("the next grant", next).await.unwrap().unwrap().is_valid());
    let told = events.so_far();
    let about_streams =
        told.iter().any(|event| matches!(event, Event::Watching | Event::Polling { .. }));
    assert!(!about_streams, "{told:?}");
    assert!(!spy.names().contains(&"aggregate".to_owned()));
}

#[tokio::test]
async fn a_user_without_change_stream_polls_until_it_is_granted() {
    let database = users::migrated().await;
    let worker = users::user_who_may(&database, &users::all_but("changeStream")).await;
    everybody_is_served_in_order(&worker, LeaseManager::builder(&worker)).await;

    let leases = LeaseManager::builder(&worker).build().await.unwrap();
    let holder = LeaseManager::builder(&worker).build().await.unwrap();
    let mut events = Listener::of(&leases);
    let now = holder.acquire("now").await.unwrap();
    let later = holder.acquire("later").await.unwrap();
    let next = tokio::spawn(leases.acquire("now").into_future());
    let last = tokio::spawn(leases.acquire("later").wait_forever().into_future());
    let reason = events.polling().await;
    assert!(reason.contains("not authorized"), "{reason}");
    now.release().await.unwrap();
    soon("a grant by polling", next).await.unwrap().unwrap().release().await.unwrap();

    users::grant(&database, &["changeStream"]).await;
    events.watching().await;
    // With a stream no call polls but at its `recheck_every`.
    let released = Instant::now();
    later.release().await.unwrap();
    let last = soon("a grant that is told", last).await.unwrap().unwrap();
    let told = released.elapsed();
    assert!(told < BUSY_MACHINE, "{told:?}");
    last.release().await.unwrap();
}
