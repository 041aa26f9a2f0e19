//! A guard that is held open costs other leases nothing.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use mongo_lease::{Event, Lease, LeaseManager, Released};
use mongo_lease_testbed::Server;

use super::transaction;
use crate::lent::lent_setup;
use crate::patience::{Listener, soon};

/// For how many of the other leases' ttls the guard stays open. For the run by hand: 60.
fn ttls() -> u32 {
    let by_hand = std::env::var("MONGO_LEASE_GUARD_TTLS").ok();
    by_hand.and_then(|ttls| ttls.parse().ok()).unwrap_or(3)
}

#[tokio::test]
async fn an_open_guard_does_not_slow_down_other_leases_or_processes() {
    const TTL: Duration = Duration::from_secs(2);
    const OTHERS: usize = 100;
    let (server, database, leases) = lent_setup().await;
    let mut held = Vec::new();
    for number in 0..OTHERS {
        held.push(leases.acquire(format!("lease:{number}")).ttl(TTL).await.unwrap());
    }
    // Its renewals come due while it is guarded, and meet the transaction.
    let guarded = leases.acquire("guarded").ttl(2 * ttls() * TTL).await.unwrap();
    let mut session = transaction(&database).await;
    guarded.guard(&mut session).await.unwrap();
    let opened = Instant::now();

    let elsewhere = database.through(&Server::client(&server).await);
    let elsewhere = LeaseManager::builder(&elsewhere).await.unwrap();
    let mut events = Listener::of(&leases);
    let mut renewed: HashMap<String, u32> = HashMap::new();
    let mut failed = HashMap::new();
    let mut slowest = Duration::ZERO;
    while opened.elapsed() < ttls() * TTL {
        let started = Instant::now();
        let lease = soon("a grant elsewhere", elsewhere.acquire("elsewhere").into_future()).await;
        assert_eq!(lease.unwrap().release().await.unwrap(), Released::Released);
        // A call for the guarded lease itself is answered as well, and does not wait for the transaction.
        assert!(elsewhere.try_acquire("guarded").await.unwrap().granted().is_none());
        slowest = slowest.max(started.elapsed());
        for event in [events.next().await].into_iter().chain(events.so_far()) {
            match event {
                Event::Renewed { name, .. } => *renewed.entry(name).or_default() += 1,
                Event::RenewalFailed { name, reason, .. } => _ = failed.insert(name, reason),
                other => panic!("{other:?}"),
            }
        }
    }
    eprintln!(
        "{:?} open: {} renewals of the others, failing: {failed:?}, slowest elsewhere {slowest:?}",
        opened.elapsed(),
        renewed.values().sum::<u32>(),
    );
    session.commit_transaction().await.unwrap();
    drop(failed.remove("guarded"));

    assert!(failed.is_empty(), "{failed:?}");
    assert!(held.iter().all(Lease::is_valid));
    assert!(renewed.len() >= OTHERS, "{} were renewed", renewed.len());
    assert!(renewed.iter().all(|(name, times)| name == "guarded" || *times >= 2 * ttls()));
    // A call that waited for the transaction would take all of its time.
    assert!(slowest < ttls() * TTL / 2, "{slowest:?} for a pair elsewhere");
    // And once it has ended, the lease itself is renewed.
    events.renewals("guarded", 1).await;
    assert!(guarded.is_valid());
}
