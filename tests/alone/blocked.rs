//! A blocked document in which one manager has several permits or several waiting calls.
//!
//! Commands on blocked documents have one slot. With a command for each permit or call, those of one document would
//! keep other blocked documents waiting.

use std::time::Duration;

use futures_util::future::join_all;
use mongo_lease::mongodb::bson::{Document, doc};
use mongo_lease::{Event, Lease, LeaseManager, Tuning};

use crate::blocking::{setup, transaction_on};
use crate::patience::{Listener, bounded, until};
use crate::spy::Spy;
use crate::waiters::{all_granted, queued_by};

/// The statements of the updates that were sent since the last call.
fn updates(spy: &Spy) -> Vec<Document> {
    let updates = spy.commands().into_iter().filter(|(name, _)| name == "update");
    let statements = updates.flat_map(|(_, command)| command.get_array("updates").unwrap().clone());
    statements.map(|statement| statement.as_document().unwrap().clone()).collect()
}

/// The number of ids or values that a filter has for this field.
fn wanted(statement: &Document, field: &str) -> usize {
    let wanted = statement.get_document("q").unwrap().get_document(field).unwrap();
    wanted.values().next().unwrap().as_array().unwrap().len()
}

#[tokio::test]
async fn permits_of_a_blocked_name_are_renewed_together() {
    let setup = setup().await;
    let (client, spy) = Spy::client(&setup.server).await;
    let own = setup.database.through(&client);
    let leases = LeaseManager::builder(&own).ttl(Duration::from_secs(12)).build().await.unwrap();
    let held = join_all((0..3).map(|_| leases.semaphore("a", 3).acquire().into_future())).await;
    let held: Vec<_> = held.into_iter().map(Result::unwrap).collect();
    // At the same time, so that they are due at the same time.
    join_all(held.iter().map(Lease::renew)).await.into_iter().for_each(Result::unwrap);
    let mut session = transaction_on(&setup.database, doc! { "name": "a" }).await;
    let mut events = Listener::of(&leases);
    spy.commands();
    // All three fail twice. From the first time on it is known that the document is blocked.
    events.times(6, |event| matches!(event, Event::RenewalFailed { .. })).await;
    let renewals = updates(&spy);
    assert!(renewals.len() >= 2, "{renewals:?}");
    for renewal in &renewals {
        assert_eq!(wanted(renewal, "holders.id"), 3, "{renewals:?}");
    }
    session.abort_transaction().await.unwrap();
    events.renewals("a", 3).await;
    assert!(held.iter().all(Lease::is_valid));
}

#[tokio::test]
async fn calls_for_a_blocked_name_share_heartbeats() {
    let setup = setup().await;
    let all = setup.leases.semaphore("a", 3).acquire().permits(3).await.unwrap();
    let (client, spy) = Spy::client(&setup.server).await;
    let own = setup.database.through(&client);
    let quick = Tuning::default().waiter_ttl(Duration::from_secs(6));
    let leases = LeaseManager::builder(&own).tuning(quick).build().await.unwrap();
    let mut calls = Vec::new();
    for _ in 0..3 {
        calls.push(queued_by(&leases, |leases| leases.semaphore("a", 3).acquire()).await);
    }
    let together =
        async || updates(&spy).iter().any(|it| wanted(it, "queue.value") == 3).then_some(());
    until("all three have a heartbeat in common", together).await;
    let mut session = transaction_on(&setup.database, doc! { "name": "a" }).await;
    // The first one finds the document blocked.
    let mut heartbeats = Vec::new();
    while heartbeats.len() < 4 {
        let more = async || {
            let more = updates(&spy);
            (!more.is_empty()).then_some(more)
        };
        heartbeats.extend(until("another heartbeat", more).await);
    }
    for heartbeat in &heartbeats {
        assert_eq!(wanted(heartbeat, "queue.value"), 3, "{heartbeats:?}");
    }
    session.abort_transaction().await.unwrap();
    bounded(all.release()).await.unwrap();
    all_granted(calls).await;
}
