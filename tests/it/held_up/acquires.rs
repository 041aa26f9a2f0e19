//! Calls for free leases, beside calls for leases whose documents are held up.

use std::time::{Duration, Instant};

use mongo_lease::{Event, LeaseManager};
use mongo_lease_testbed::Server;

use super::{By, names, setup, waiting};
use crate::patience::{Listener, bounded, soon, until, until_blocked};

#[tokio::test]
async fn free_leases_are_granted_beside_a_held_up_one() {
    const WAIT: Duration = Duration::from_secs(3);
    let setup = setup().await;
    let mut session = setup.expired_and_held_up("held up").await;

    let started = Instant::now();
    let mut free: Vec<_> =
        names("free", 39).iter().map(|name| waiting(&setup.leases, name, WAIT)).collect();
    // In the midst of the others.
    let held_up = waiting(&setup.leases, "held up", Duration::from_secs(300));
    free.extend(names("more", 39).iter().map(|name| waiting(&setup.leases, name, WAIT)));
    let mut leases = Vec::new();
    for call in free {
        leases.push(bounded(call).await.unwrap().expect("it is free"));
    }
    eprintln!("78 free leases were granted after {:?}", started.elapsed());
    assert!(!held_up.is_finished(), "the transaction was too short");

    session.abort_transaction().await.unwrap();
    assert!(bounded(held_up).await.unwrap().unwrap().is_valid());
}

/// Eight healthy leases of another process, with a transaction on each: whoever joins their queues has to wait.
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
    assert!(ping < idle + Duration::from_millis(500), "{ping:?}, and idle {idle:?}");
    assert!(joining.iter().all(|call| !call.is_finished()));

    // When the transactions have ended, the calls join their queues before long, and are granted in turn.
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

/// The longest of a few pings of a manager that does nothing else.
async fn idle_ping(leases: &LeaseManager) -> Duration {
    let mut longest = Duration::ZERO;
    for _ in 0..5 {
        longest = longest.max(leases.ping().await.unwrap());
    }
    longest
}

#[tokio::test]
async fn many_calls_for_one_held_up_lease_delay_nobody() {
    let setup = setup().await;
    let mut session = setup.expired_and_held_up("held up").await;
    let once: Vec<_> = (0..14)
        .map(|_| {
            let leases = setup.leases.clone();
            tokio::spawn(async move { leases.try_acquire("held up").await })
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
        // Each lease is given back at once, so more than one may get it.
        granted += usize::from(attempt.granted().is_some());
    }
    assert!(granted > 0);
}

/// With few slots there is no room for lanes: attempts are short, and renewals go first.
#[tokio::test]
async fn with_one_slot_a_held_up_lease_delays_nobody_for_long() {
    let setup = setup().await;
    let mut session = setup.expired_and_held_up("held up").await;
    for slots in [1, 2, 3] {
        let own = setup.database.through(&Server::client(&setup.server).await);
        let leases = LeaseManager::builder(&own).max_in_flight(slots).ttl(Duration::from_secs(3));
        let leases = leases.build().await.unwrap();
        let renewed = leases.acquire(format!("renewed:{slots}")).await.unwrap();
        let mut events = Listener::of(&leases);
        let held_up: Vec<_> =
            (0..4).map(|_| waiting(&leases, "held up", Duration::from_secs(300))).collect();
        let started = Instant::now();
        for name in names(&format!("free:{slots}"), 8) {
            let wait = Duration::from_secs(10);
            drop(bounded(waiting(&leases, &name, wait)).await.unwrap().expect("it is free"));
        }
        eprintln!("{slots} slots: 8 free leases, one by one, after {:?}", started.elapsed());
        events.renewals(&format!("renewed:{slots}"), 4).await;
        assert!(renewed.is_valid());
        assert!(held_up.iter().all(|call| !call.is_finished()));
        let stopped = async || (leases.shutdown().await.tasks_left == 0).then_some(());
        until("nothing is left", stopped).await;
    }
    session.abort_transaction().await.unwrap();
}
