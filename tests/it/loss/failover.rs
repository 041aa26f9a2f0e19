//! Three nodes, of which one stops, steps down or dies. Each test takes some seconds: the start, and an election.

use std::time::{Duration, Instant};

use mongo_lease::mongodb::Client;
use mongo_lease::{Event, Lease, LeaseManager, LostReason};

use super::attentive_database;
use crate::common::builder;
use crate::lent::lent_set;
use crate::patience::{Listener, PATIENCE, soon, until};

/// The holder knows one node alone, the one that stops, as behind a partitioned network. The others elect a new primary
/// meanwhile, which grants the lease when it has expired. The stopped node is never resumed.
#[tokio::test]
async fn a_holder_on_a_stopped_primary_is_told_before_the_next_grant() {
    let set = lent_set().await;
    let database = attentive_database(&set).await;
    let primary = set.primary().await;
    let apart = Client::with_uri_str(set.node(primary).uri()).await.unwrap();
    let leases = LeaseManager::builder(&database.through(&apart));
    let leases = leases.ttl(Duration::from_secs(3)).max_clock_skew(Duration::ZERO).await.unwrap();
    let lease = leases.acquire("a").await.unwrap();
    let others = builder(&database).build().await.unwrap();
    assert!(!others.try_acquire("a").await.unwrap().is_granted());

    set.node(primary).pause();
    let next = tokio::spawn(async move {
        let lease = others.acquire("a").wait(PATIENCE).await.unwrap();
        (Instant::now(), lease)
    });
    let reason = soon("the loss", lease.lost()).await;
    let lost = Instant::now();
    assert!(!next.is_finished());
    assert!(matches!(reason, LostReason::OutOfReach { .. }), "{reason}");
    let (granted, next) = soon("the next grant", next).await.unwrap();
    assert!(lost < granted);
    assert!(next.is_valid());
    set.node(primary).resume();
}

#[tokio::test]
async fn a_failover_loses_no_lease() {
    let set = lent_set().await;
    let database = attentive_database(&set).await;
    // The default ttl; and one that renews itself in the middle of the failover.
    let leases = builder(&database).build().await.unwrap();
    let mut events = Listener::of(&leases);
    let mut held = Vec::new();
    for number in 0..8 {
        held.push(leases.acquire(format!("default:{number}")).await.unwrap());
        let quick = leases.acquire(format!("quick:{number}")).ttl(Duration::from_secs(12));
        held.push(quick.await.unwrap());
    }
    let renew_all = async || {
        for lease in &held {
            let renewed = async || lease.renew().await.ok();
            until("each lease is renewed by the new primary", renewed).await;
        }
    };

    let former = set.step_down().await;
    renew_all().await;
    let second = set.wait_for_primary_other_than(former).await;
    set.node(second).kill();
    set.wait_for_primary_other_than(second).await;
    renew_all().await;

    let lost = |event: &Event| matches!(event, Event::Lost { .. });
    let told = events.so_far();
    assert!(!told.iter().any(lost), "{told:?}");
    // And the manager's own renewals go on.
    events.renewals("quick:7", 1).await;
    assert!(held.iter().all(Lease::is_valid));
    let newest = held.iter().map(|lease| lease.token().unwrap()).max().unwrap();
    assert!(leases.acquire("next").await.unwrap().token().unwrap() > newest);
}
