//! Calls for free leases, beside calls for leases whose documents are blocked.

use std::time::Duration;

use futures_util::future::join_all;
use mongo_lease::mongodb::bson::Document;
use mongo_lease::{Error, Event, LeaseManager, Tuning};
use mongo_lease_testbed::Server;

use super::{LONG, Setup, free_and_blocked, manager, names, none_has_ended, setup, waiting};
use crate::patience::{Listener, PATIENCE, joined, until, until_blocked};
use crate::permits::all_granted;
use crate::spy::Spy;

#[tokio::test]
async fn free_leases_are_granted_beside_a_blocked_one() {
    let setup = setup().await;
    let mut session = free_and_blocked(&setup.database, &["blocked"]).await;
    let mut free = waiting(&setup.leases, names("free", 39), PATIENCE);
    // In the middle of the others.
    let blocked = waiting(&setup.leases, ["blocked"], LONG);
    free.extend(waiting(&setup.leases, names("more", 39), PATIENCE));
    let _leases = all_granted(free).await;
    assert!(none_has_ended(&blocked), "the transaction was too short");
    session.abort_transaction().await.unwrap();
    all_granted(blocked).await;
}

/// Eight healthy leases of another process, with a transaction on each: a call that joins one of their queues has to
/// wait.
#[tokio::test]
async fn calls_that_cannot_join_a_queue_delay_nobody() {
    let setup = setup().await;
    let held = setup.hold(&names("guarded", 8)).await;
    let mut sessions = Vec::new();
    for lease in &held {
        sessions.push(setup.hold_up(lease).await);
    }
    let others = setup.another_manager().await;
    let mut idle = Duration::ZERO;
    for _ in 0..5 {
        idle = idle.max(others.ping().await.unwrap());
    }
    let joining = waiting(&others, names("guarded", 8), LONG);
    until_blocked(&setup.server, &setup.database).await;

    let free = waiting(&others, names("free", 12), PATIENCE);
    // Documents that are blocked would delay each ping, and a busy machine delays one or the other.
    let is_quick = |ping| ping < idle + Duration::from_millis(1_500);
    let quick = async || is_quick(others.ping().await.unwrap()).then_some(());
    until("a quick ping", quick).await;
    let _leases = all_granted(free).await;
    assert!(none_has_ended(&joining), "the transactions were too short");

    // When the transactions have ended, the calls soon join their queues, and are granted in turn.
    let mut events = Listener::of(&others);
    for mut session in sessions {
        session.abort_transaction().await.unwrap();
    }
    events.times(8, |event| matches!(event, Event::Queued { .. })).await;
    drop(held);
    assert_eq!(all_granted(joining).await.len(), 8);
}

#[tokio::test]
async fn many_calls_for_one_blocked_lease_delay_nobody() {
    let setup = setup().await;
    let mut session = free_and_blocked(&setup.database, &["blocked"]).await;
    let leases = &setup.leases;
    let once = waiting(leases, ["blocked"; 14], Duration::ZERO);
    until_blocked(&setup.server, &setup.database).await;
    let mut free = waiting(leases, names("short", 4), PATIENCE);
    free.extend(waiting(leases, names("long", 4), 2 * PATIENCE));
    let _leases = all_granted(free).await;
    assert!(none_has_ended(&once), "the transaction was too short");
    session.abort_transaction().await.unwrap();
    let (granted, refused): (Vec<_>, Vec<_>) =
        joined(once).await.into_iter().partition(Result::is_ok);
    assert_eq!(granted.len(), 1);
    for answer in refused {
        assert!(matches!(answer, Err(Error::Busy(_))), "{answer:?}");
    }
}

/// With few slots there is no room for lanes: attempts are short, and renewals go first.
#[tokio::test]
async fn with_one_slot_a_blocked_lease_delays_nobody_for_long() {
    let setup = setup().await;
    let mut session = free_and_blocked(&setup.database, &["blocked"]).await;
    let with_slots = [1, 2, 3].map(async |slots| {
        let own = setup.database.through(&Server::client(&setup.server).await);
        let few = Tuning::default().max_in_flight(slots);
        let leases = LeaseManager::builder(&own).tuning(few).ttl(Duration::from_secs(9));
        let leases = leases.build().await.unwrap();
        let name = format!("renewed:{slots}");
        let renewed = leases.acquire(&name).await.unwrap();
        let mut events = Listener::of(&leases);
        let blocked = waiting(&leases, ["blocked"; 4], LONG);
        for name in names(&format!("free:{slots}"), 8) {
            drop(all_granted(waiting(&leases, [name], PATIENCE)).await);
        }
        events.renewals(&name, 1).await;
        assert!(renewed.is_valid() && none_has_ended(&blocked), "{slots} slots");
        let stopped = async || (leases.shutdown().await.tasks_left == 0).then_some(());
        until("nothing is left", stopped).await;
    });
    join_all(with_slots).await;
    session.abort_transaction().await.unwrap();
}

/// A statement that is sent again may find the grant of its first sending, and then it writes nothing: the time of such
/// a reply says nothing about the grant. So a single one is sent again as a batch too, with the look behind it.
#[tokio::test]
async fn what_is_sent_again_is_told_by_a_look_also_alone() {
    let setup = setup().await;
    let (client, spy) = Spy::client(&setup.server).await;
    let leases = manager(&setup.database.through(&client)).await;
    // On a busy machine the fillers' commands may have ended before the calls behind them begin, which then go alone.
    let in_a_batch = async || (sent_behind_fillers(&setup, &leases, &spy).await >= 2).then_some(());
    until("it was sent again in a batch", in_a_batch).await;
}

/// How many batches are sent for a free lease whose call shares its first command with that for a blocked one.
async fn sent_behind_fillers(setup: &Setup, leases: &LeaseManager, spy: &Spy) -> usize {
    const UNDER_WAY_MAX: usize = 4;
    let fillers = names("filler", UNDER_WAY_MAX);
    let mut held_names = fillers.clone();
    held_names.push("blocked".to_owned());
    let mut session = free_and_blocked(&setup.database, &held_names).await;
    let mut blocked = waiting(leases, fillers, LONG);
    until_blocked(&setup.server, &setup.database).await;
    // One command of two statements, of which the second is blocked: both calls begin in one turn of the runtime.
    let mut both = waiting(leases, ["free", "blocked"], LONG);
    blocked.extend(both.pop());
    let free = all_granted(both).await;
    let is_about_it = |filter: &Document| filter.get_str("name").ok() == Some("free");
    let together = spy.commands().into_iter().filter(|(_, command)| {
        let statements = command.get_array("updates").into_iter().flatten();
        let mut filters = statements.filter_map(|it| it.as_document()?.get_document("q").ok());
        filters.any(is_about_it)
    });
    let together = together.count();
    assert!(none_has_ended(&blocked));
    session.abort_transaction().await.unwrap();
    for lease in all_granted(blocked).await.into_iter().chain(free) {
        lease.release().await.unwrap();
    }
    together
}
