//! Without a change stream: waiters poll, in the same order.

use mongo_lease::mongodb::Database;
use mongo_lease::{Event, LeaseManager, LeaseManagerBuilder, Tuning};
use mongo_lease_testbed::Server;

use super::crowd::Crowd;
use crate::common::{builder, migrated};
use crate::patience::{Listener, until_nothing_is_left};
use crate::spy::Spy;

/// Some wait for a lease that is held, and all are served in order. Returns what the last one of them was told.
async fn all_are_served_in_order(database: &Database, options: LeaseManagerBuilder) -> Vec<Event> {
    let holder = options.clone().build().await.unwrap();
    let lease = holder.acquire("a").await.unwrap();
    let mut crowd = Crowd::of(7, &options).await;
    let last = options.build().await.unwrap();
    let mut events = Listener::of(&last);
    crowd.join(last).await;
    let before = lease.token().unwrap();
    lease.release().await.unwrap();
    crowd.all_served_in_order(before).await;
    until_nothing_is_left(database).await;
    events.so_far()
}

#[tokio::test]
async fn on_a_standalone_server_waiters_look_for_themselves_in_order() {
    let database = migrated(Server::shared_standalone()).await;
    all_are_served_in_order(&database, builder(&database)).await;
}

#[tokio::test]
async fn without_change_stream_none_is_opened_and_order_is_kept() {
    let server = Server::shared();
    let database = migrated(server).await;
    let (client, spy) = Spy::client(server).await;
    let without = Tuning::default().change_stream(false);
    let spied = LeaseManager::builder(&database.through(&client)).tuning(without);
    let told = all_are_served_in_order(&database, spied).await;
    assert!(told.iter().any(|event| matches!(event, Event::Queued { .. })), "{told:?}");
    let is_about_streams = |event: &Event| matches!(event, Event::Watching | Event::Polling { .. });
    assert!(!told.iter().any(is_about_streams), "{told:?}");
    assert!(!spy.names().contains(&"aggregate".to_owned()));
}
