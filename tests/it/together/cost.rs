//! The number of commands, by the server's own count.

use std::cell::Cell;
use std::collections::{HashMap, HashSet};

use mongo_lease::mongodb::bson::doc;
use mongo_lease::{Attempt, Lease, LeaseManager, Released};

use super::{GrantRecord, answer, assert_in_order, granted, names, start_calls};
use crate::blocked::start_releases;
use crate::common::{assert_done, builder, patient, refused};
use crate::lent::lent_database;
use crate::patience::{joined, locks};
use crate::permits::{self, queued_by};
use crate::spy::spied_at;

#[tokio::test]
async fn two_hundred_leases_are_acquired_and_released_in_few_commands() {
    let (server, database) = lent_database().await;
    let leases = patient(builder(&database)).build().await.unwrap();
    leases.acquire("before").await.unwrap().release().await.unwrap();
    let before = server.command_counts().await;
    let held = granted(start_calls(&leases, names("lease", 200))).await;
    let asked = server.command_counts().await.since(&before);
    // Each alone, they would be two hundred. A busy machine is slow to answer a batch, and the next ones are smaller.
    assert!(asked.find_and_modify + asked.update + asked.find <= 40, "{asked:?}");
    assert_eq!(asked.insert + asked.aggregate + asked.delete, 0, "{asked:?}");

    assert!(held.iter().all(Lease::is_valid));
    let told: Vec<_> = held.iter().map(GrantRecord::of).collect();
    assert_eq!(told.iter().map(|told| &told.value).collect::<HashSet<_>>().len(), 200);
    assert_in_order(&database, &told).await;
    assert_eq!(locks(&database).count_documents(doc! {}).await.unwrap(), 200);

    let before = server.command_counts().await;
    for released in joined(start_releases(held)).await {
        assert_done(released.unwrap(), "one of two hundred");
    }
    let ended = server.command_counts().await.since(&before);
    // A statement each. Statements that a busy machine holds up are taken out of their command, and sent again; a
    // release whose command was not answered then looks once.
    assert!(ended.deleted >= 200, "{ended:?}");
    let looks_max = if ended.deleted == 200 { 0 } else { 200 };
    assert!(ended.delete + ended.update + ended.find <= 40 + looks_max, "{ended:?}");
    assert_eq!((ended.insert, ended.aggregate, ended.find_and_modify), (0, 0, 0), "{ended:?}");
    assert_eq!(locks(&database).count_documents(doc! {}).await.unwrap(), 0);
}

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
        assert_eq!(spy.undisturbed(round).await, ["findAndModify", "update", "delete"]);
        // The server's own count includes what the driver hides; also finds of a new primary itself.
        let counts = counts.take().unwrap();
        let writes = (counts.find_and_modify, counts.update, counts.delete, counts.insert);
        assert_eq!((writes, counts.aggregate), ((1, 1, 1, 0), 0), "{counts:?}");
        let lease = leases.acquire("a").await.unwrap();
        let refusal = Cell::default();
        let round = async || refusal.set(Some(refused(&others, "a").await));
        assert_eq!(spy.undisturbed(round).await, ["findAndModify"]);
        let held = refusal.take().unwrap();
        assert_eq!(held.value.as_deref(), Some(lease.value()));
        assert_eq!(held.owner.as_deref().and_then(|owner| owner.split('@').next()), Some("test"));
        lease.release().await.unwrap();
    }
}

#[tokio::test]
async fn one_of_many_calls_for_a_lease_is_granted_and_others_see_it() {
    const NAMES: usize = 8;
    const CALLS: usize = 25;
    let (server, database) = lent_database().await;
    let one = patient(builder(&database)).build().await.unwrap();
    let other = patient(LeaseManager::builder(&database.through(&server.client().await)));
    let other = other.build().await.unwrap();
    let before = server.command_counts().await;
    let mut calls = Vec::new();
    for _ in 0..CALLS {
        calls.extend(start_calls(&one, names("lease", NAMES)));
        calls.extend(start_calls(&other, names("lease", NAMES)));
    }
    let (mut granted, mut busy) = (HashMap::new(), Vec::new());
    for call in calls {
        match answer(call).await {
            Attempt::Granted(lease) => {
                let twice = granted.insert(lease.name().to_owned(), lease);
                assert!(twice.is_none(), "granted twice: {twice:?}");
            }
            Attempt::Busy(held) => busy.push(held),
        }
    }
    let counts = server.command_counts().await.since(&before);
    assert_eq!((granted.len(), busy.len()), (NAMES, NAMES * (2 * CALLS - 1)));
    for held in busy {
        assert_eq!(held.value.as_deref(), Some(granted[&held.name].value()), "{held:?}");
    }
    let commands = counts.find_and_modify + counts.update + counts.find;
    assert!(commands < 100, "{counts:?}");
    let told: Vec<_> = granted.values().map(GrantRecord::of).collect();
    assert_in_order(&database, &told).await;
}

/// A call that waits needs a slow acquire. Where the lease was held the last time, it sends that at once.
#[tokio::test]
async fn who_waits_for_a_lease_that_was_held_before_asks_once() {
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
        permits::granted(call).await.release().await.unwrap();
        if is_free_then {
            waiting.acquire("a").await.unwrap().release().await.unwrap();
        }
    }
}
