//! Releases of exclusive leases beside permits, and how many commands they take.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::time::Duration;

use futures_util::future::try_join_all;
use mongo_lease::mongodb::bson::{Document, doc};
use mongo_lease::{Acquire, Lease, LeaseManager, Released};
use mongo_lease_testbed::{FailCommand, TestDatabase};

use super::commands::{released_by, setup};
use super::{granted, queued_by};
use crate::common::{builder, document};
use crate::lent::lent_database;
use crate::patience::{locks, until};
use crate::spy::Spy;

const MANY: usize = 200;

async fn hold_many(leases: &LeaseManager) -> Vec<Lease> {
    let acquire = |number| leases.acquire(format!("a:{number}")).renew(false).into_future();
    try_join_all((0..MANY).map(acquire)).await.unwrap()
}

fn reader(leases: &LeaseManager) -> Acquire {
    leases.acquire("a").shared()
}

fn writer(leases: &LeaseManager) -> Acquire {
    leases.acquire("a").renew(false)
}

#[tokio::test]
async fn a_release_of_nothing_costs_a_delete_an_update_and_a_look() {
    let (_database, leases, others, spy) = setup().await;
    assert_eq!(leases.release("a", "nobody's").await.unwrap(), Released::NotHeld);
    assert_eq!(spy.names(), ["delete", "update", "find"]);
    let lost = leases.acquire("a").renew(false).await.unwrap();
    assert_eq!(others.release("a", lost.value()).await.unwrap(), Released::Released);
    spy.names();
    assert_eq!(lost.release().await.unwrap(), Released::NotHeld);
    assert_eq!(spy.names(), ["delete", "update", "find"]);
}

#[tokio::test]
async fn dropped_leases_that_are_gone_share_commands() {
    let (database, leases, _others, spy) = setup().await;
    let held = hold_many(&leases).await;
    locks(&database).delete_many(doc! {}).await.unwrap();
    spy.names();
    drop(held);
    leases.shutdown().await;
    let sent = spy.names();
    assert!(sent.contains(&"delete".to_owned()), "{sent:?}");
    // Each alone, they would be two hundred of each kind. A busy machine drops them in several parts, or is slow to
    // answer, and then a look follows.
    assert!(sent.len() <= 60, "{} commands: {sent:?}", sent.len());
}

/// Each of these calls may have been granted its lease, or have joined the queue.
#[tokio::test]
async fn calls_given_up_without_an_answer_are_released_together() {
    let (server, database) = lent_database().await;
    let spy = Spy::default();
    let client = server
        .client_with(|options| {
            options.app_name = Some("ours".to_owned());
            spy.listen(options);
        })
        .await;
    let leases = LeaseManager::builder(&database.through(&client)).build().await.unwrap();
    let fault = FailCommand::on(&["findAndModify"]).app_name("ours").close_connection();
    let fault = fault.enable(server.uri()).await;
    // With a value of its own each goes by itself, and in the form that finds an earlier grant.
    let acquire = |number: usize| {
        let name = format!("a:{number}");
        tokio::spawn(leases.acquire(&name).value(format!("of {name}")).into_future())
    };
    let calls: Vec<_> = (0..MANY).map(acquire).collect();
    let names = RefCell::new(BTreeSet::new());
    // The others wait for a slot meanwhile.
    const SOME: usize = 5;
    until("some have sent attempts", async || {
        let sent = spy.commands();
        let of_command = |(_, command): &(String, Document)| {
            Some(command.get_document("query").ok()?.to_string())
        };
        names.borrow_mut().extend(sent.iter().filter_map(of_command));
        (names.borrow().len() >= SOME).then_some(())
    })
    .await;
    calls.iter().for_each(tokio::task::JoinHandle::abort);
    spy.names();
    fault.disable().await;
    leases.shutdown().await;
    let sent = spy.commands();
    assert!(sent.iter().any(|(name, _)| name == "delete"), "nothing was given back");
    // Each alone, they would be two hundred of each kind.
    assert!(sent.len() <= 60, "{} commands", sent.len());
    assert_eq!(locks(&database).count_documents(doc! {}).await.unwrap(), 0);
}

#[tokio::test]
async fn a_promoted_writer_hands_over_to_readers_in_one_command() {
    let (_database, leases, others, spy) = setup().await;
    let held = others.acquire("a").renew(false).await.unwrap();
    let call = queued_by(&leases, writer).await;
    held.release().await.unwrap();
    let promoted = granted(call).await;
    let waiting = queued_by(&others, reader).await;
    spy.names();
    assert_eq!(promoted.release().await.unwrap(), Released::Released);
    assert_eq!(released_by(&spy), ["update"]);
    granted(waiting).await.release().await.unwrap();
}

/// They share their first command, and each of them needs another second one.
#[tokio::test]
async fn leases_with_every_kind_of_waiter_are_dropped_together() {
    const EACH: usize = 4;
    let (database, leases, others, _spy) = setup().await;
    let name = |kind: &str, number: usize| format!("{kind}:{number}");
    let (mut held, mut waiting) = (Vec::new(), Vec::new());
    for number in 0..EACH {
        for kind in ["none", "writer", "reader"] {
            held.push(leases.acquire(name(kind, number)).renew(false).await.unwrap());
        }
        let writer = |leases: &LeaseManager| leases.acquire(name("writer", number)).renew(false);
        waiting.push(queued_by(&others, writer).await);
        let reader = |leases: &LeaseManager| leases.acquire(name("reader", number)).shared();
        waiting.push(queued_by(&others, reader).await);
    }
    drop(held);
    for call in waiting {
        let lease = granted(call).await;
        assert_eq!(lease.is_shared(), lease.name().starts_with("reader"));
    }
    for number in 0..EACH {
        let gone =
            async || document(&database, &name("none", number)).await.is_none().then_some(());
        until("it is deleted", gone).await;
    }
}

/// They leave by one command, which leaves those to another that have a reader behind them.
#[tokio::test]
async fn writers_leave_queues_with_and_without_readers() {
    const EACH: usize = 4;
    let (database, leases, others, _spy) = setup().await;
    let third = builder(&database).build().await.unwrap();
    let mut held = Vec::new();
    let mut readers = Vec::new();
    let mut writers = Vec::new();
    for number in 0..2 * EACH {
        let name = format!("a:{number}");
        held.push(others.acquire(&*name).renew(false).await.unwrap());
        writers.push(queued_by(&leases, |leases| leases.acquire(&*name)).await);
        if number < EACH {
            readers.push(queued_by(&third, |leases| leases.acquire(&*name).shared()).await);
        }
    }
    writers.iter().for_each(tokio::task::JoinHandle::abort);
    for number in 0..2 * EACH {
        let left = usize::from(number < EACH);
        let left_alone = async || (queue_of(&database, number).await == left).then_some(());
        // Well before their entries expire.
        let soon = tokio::time::timeout(Duration::from_secs(8), until("they leave", left_alone));
        soon.await.expect("before the waiter ttl");
    }
    for lease in held {
        assert_eq!(lease.release().await.unwrap(), Released::Released);
    }
    for reader in readers {
        assert!(granted(reader).await.is_shared());
    }
}

async fn queue_of(database: &TestDatabase, number: usize) -> usize {
    let found = document(database, &format!("a:{number}")).await.expect("it is held");
    found.get_array("queue").map_or(0, Vec::len)
}
