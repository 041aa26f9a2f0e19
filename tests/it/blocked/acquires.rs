//! Calls for free leases, beside calls for leases whose documents are blocked.

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use mongo_lease::mongodb::bson::{Document, Timestamp};
use mongo_lease::{Event, LeaseManager, Tuning};
use mongo_lease_testbed::Server;

use super::{By, manager, names, setup, waiting};
use crate::common::document;
use crate::patience::{Listener, bounded, soon, until, until_blocked};
use crate::spy::Spy;

/// As many commands of one kind may be under way before others wait for them.
const UNDER_WAY_MAX: usize = 4;

#[tokio::test]
async fn free_leases_are_granted_beside_a_blocked_one() {
    const WAIT: Duration = Duration::from_secs(3);
    let setup = setup().await;
    let mut session = setup.expired_and_blocked("blocked").await;

    let started = Instant::now();
    let mut free: Vec<_> =
        names("free", 39).iter().map(|name| waiting(&setup.leases, name, WAIT)).collect();
    // In the middle of the others.
    let blocked = waiting(&setup.leases, "blocked", Duration::from_secs(300));
    free.extend(names("more", 39).iter().map(|name| waiting(&setup.leases, name, WAIT)));
    let mut leases = Vec::new();
    for call in free {
        leases.push(bounded(call).await.unwrap().expect("it is free"));
    }
    eprintln!("78 free leases were granted after {:?}", started.elapsed());
    assert!(!blocked.is_finished(), "the transaction was too short");

    session.abort_transaction().await.unwrap();
    assert!(bounded(blocked).await.unwrap().unwrap().is_valid());
}

/// A statement that is sent again may find the grant of its first sending, and then writes nothing. The time of such a
/// reply says nothing about the grant: a query behind the command reads what was granted, also for a single call.
#[tokio::test]
async fn what_is_sent_again_is_told_by_a_look_also_alone() {
    const LONG: Duration = Duration::from_secs(300);
    let setup = setup().await;
    let (client, spy) = Spy::client(&setup.server).await;
    let leases = manager(&setup.database, &client).await;
    let mut sessions = Vec::new();
    for name in names("filler", UNDER_WAY_MAX).iter().chain(&["blocked".to_owned()]) {
        sessions.push(setup.expired_and_blocked(name).await);
    }
    let mut blocked: Vec<_> =
        names("filler", UNDER_WAY_MAX).iter().map(|name| waiting(&leases, name, LONG)).collect();
    until_blocked(&setup.server, &setup.database).await;
    // One command of two statements, of which the second is blocked.
    let free = waiting(&leases, "free", LONG);
    tokio::task::yield_now().await;
    blocked.push(waiting(&leases, "blocked", LONG));
    let lease = bounded(free).await.unwrap().unwrap();

    let is_about_it = |document: &Document| document.get_str("name").ok() == Some("free");
    let (mut together, mut alone) = (0, 0);
    for (name, command) in spy.commands() {
        match name.as_str() {
            "update" => {
                let statements = command.get_array("updates").unwrap().iter();
                let mut filters = statements.map(|it| it.as_document().unwrap().get_document("q"));
                together += usize::from(filters.any(|filter| is_about_it(filter.unwrap())));
            }
            "findAndModify" if is_about_it(command.get_document("query").unwrap()) => alone += 1,
            _ => {}
        }
    }
    // A busy machine may send it once more, and then alone.
    assert!(together >= 2, "it was not sent again as it should be: {together}, {alone}");
    let granted = lease.token().unwrap();
    let granted_at = document(&setup.database, "free").await.unwrap();
    let granted_at = granted_at.get_document("grant").unwrap().get_datetime("acquiredAt").unwrap();
    assert!(i64::from(Timestamp::from(granted).time) >= granted_at.timestamp_millis() / 1000);
    assert!(blocked.iter().all(|call| !call.is_finished()));
    for mut session in sessions {
        session.abort_transaction().await.unwrap();
    }
}

/// Eight healthy leases of another process, with a transaction on each: a call that joins one of their queues has to
/// wait.
#[tokio::test]
async fn calls_that_cannot_join_a_queue_delay_nobody() {
    let setup = setup().await;
    let held = setup.hold(&names("guarded", 8)).await;
    let mut sessions = Vec::new();
    for lease in &held {
        sessions.push(setup.hold_up(lease, By::Guard).await);
    }
    let others = setup.another_manager().await;
    let idle = idle_ping(&others).await;
    let joining: Vec<_> = names("guarded", 8)
        .iter()
        .map(|name| waiting(&others, name, Duration::from_secs(300)))
        .collect();
    until_blocked(&setup.server, &setup.database).await;

    let started = Instant::now();
    let free: Vec<_> = names("free", 12)
        .iter()
        .map(|name| waiting(&others, name, Duration::from_secs(2)))
        .collect();
    let ping = others.ping().await.unwrap();
    let mut leases = Vec::new();
    for call in free {
        leases.push(bounded(call).await.unwrap().expect("it is free"));
    }
    let took = started.elapsed();
    eprintln!("12 free leases were granted after {took:?}; ping {ping:?}, and idle {idle:?}");
    assert!(ping < idle + Duration::from_millis(1_500), "{ping:?}, and idle {idle:?}");
    assert!(joining.iter().all(|call| !call.is_finished()));

    // When the transactions have ended, the calls soon join their queues, and are granted in turn.
    let mut events = Listener::of(&others);
    for mut session in sessions {
        session.abort_transaction().await.unwrap();
    }
    let mut queued = 0;
    events
        .find(|event| {
            queued += usize::from(matches!(event, Event::Queued { .. }));
            (queued == 8).then_some(())
        })
        .await;
    drop(held);
    for call in joining {
        assert!(bounded(call).await.unwrap().unwrap().is_valid());
    }
}

/// The longest of a few pings of an otherwise idle manager.
async fn idle_ping(leases: &LeaseManager) -> Duration {
    let mut longest = Duration::ZERO;
    for _ in 0..5 {
        longest = longest.max(leases.ping().await.unwrap());
    }
    longest
}

#[tokio::test]
async fn many_calls_for_one_blocked_lease_delay_nobody() {
    let setup = setup().await;
    let mut session = setup.expired_and_blocked("blocked").await;
    let once: Vec<_> = (0..14)
        .map(|_| {
            let leases = setup.leases.clone();
            tokio::spawn(async move { leases.try_acquire("blocked").await })
        })
        .collect();
    until_blocked(&setup.server, &setup.database).await;

    let started = Instant::now();
    let free: Vec<_> = (1..=8)
        .map(|number| {
            let wait = Duration::from_secs(1 + number % 2);
            waiting(&setup.leases, &format!("free:{number}"), wait)
        })
        .collect();
    let mut leases = Vec::new();
    for call in free {
        leases.push(bounded(call).await.unwrap().expect("it is free"));
    }
    eprintln!("8 free leases were granted after {:?}", started.elapsed());
    assert!(once.iter().all(|call| !call.is_finished()), "the transaction was too short");

    session.abort_transaction().await.unwrap();
    let mut granted = 0;
    for call in once {
        let attempt = soon("an answer", call).await.unwrap().unwrap();
        // Each lease is released at once, so more than one call may get it.
        granted += usize::from(attempt.granted().is_some());
    }
    assert!(granted > 0);
}

/// With few slots there is no room for lanes: attempts are short, and renewals go first.
#[tokio::test]
async fn with_one_slot_a_blocked_lease_delays_nobody_for_long() {
    let setup = setup().await;
    let mut session = setup.expired_and_blocked("blocked").await;
    let with_slots = [1, 2, 3].map(async |slots| {
        let own = setup.database.through(&Server::client(&setup.server).await);
        let leases = LeaseManager::builder(&own)
            .tuning(Tuning::default().max_in_flight(slots))
            .ttl(Duration::from_secs(3));
        let leases = leases.build().await.unwrap();
        let renewed = leases.acquire(format!("renewed:{slots}")).await.unwrap();
        let mut events = Listener::of(&leases);
        let blocked: Vec<_> =
            (0..4).map(|_| waiting(&leases, "blocked", Duration::from_secs(300))).collect();
        let started = Instant::now();
        for name in names(&format!("free:{slots}"), 8) {
            let wait = Duration::from_secs(10);
            drop(bounded(waiting(&leases, &name, wait)).await.unwrap().expect("it is free"));
        }
        eprintln!("{slots} slots: 8 free leases, one by one, after {:?}", started.elapsed());
        events.renewals(&format!("renewed:{slots}"), 4).await;
        assert!(renewed.is_valid());
        assert!(blocked.iter().all(|call| !call.is_finished()));
        let stopped = async || (leases.shutdown().await.tasks_left == 0).then_some(());
        until("nothing is left", stopped).await;
    });
    join_all(with_slots).await;
    session.abort_transaction().await.unwrap();
}
