//! How long a call waits, and what it reports then.

use std::time::Duration;

use mongo_lease::mongodb::bson::doc;
use mongo_lease::{Acquire, Error, LeaseManager, MemoryStore};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};

use crate::both::{Backend, check};
use crate::common::{builder, setup};
use crate::lent::{lent_database, lent_setup};
use crate::patience::{PATIENCE, bounded, locks};

/// The end of a refusal whose holder is the caller's own process.
const HINT: &str = "; the holder is this process, and leases are not re-entrant";

/// A call that is granted nothing in this time, and ends then.
pub(crate) async fn ends_in_vain(acquire: Acquire, wait: Duration) {
    let started = Instant::now();
    let ends = timeout(wait + PATIENCE, acquire.wait(wait).into_future()).await;
    let error = ends.expect("the wait ends").unwrap_err();
    assert!(matches!(error, Error::WaitTimeout { .. }), "{error}");
    assert!(started.elapsed() >= wait, "{wait:?}: {:?}", started.elapsed());
}

/// The caller's task may itself be the holder, and would wait for itself.
#[tokio::test]
async fn a_refusal_by_the_same_process_says_leases_are_not_reentrant() {
    let (database, leases) = setup().await;
    let others = builder(&database).owner("other").build().await.unwrap();
    let _held = leases.acquire("a").await.unwrap();
    let refusal = async |asking: &LeaseManager| {
        asking.acquire("a").wait(Duration::ZERO).await.unwrap_err().to_string()
    };
    // Also where another manager of this process holds it.
    for error in [refusal(&leases).await, refusal(&others).await] {
        assert!(error.ends_with(HINT), "{error}");
    }
    assert!(leases.get("a").await.unwrap().unwrap().held_here);
    let elsewhere =
        doc! { "value": "v", "grant.value": "v", "grant.id": "y-c.1", "grant.owner": "x@y:1" };
    locks(&database).update_one(doc! { "name": "a" }, doc! { "$set": elsewhere }).await.unwrap();
    let error = refusal(&others).await;
    assert!(error.contains("x@y:1") && !error.contains("this process"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_timeout_by_the_same_process_says_leases_are_not_reentrant() {
    let store = MemoryStore::new();
    let manager = async || LeaseManager::in_memory(&store).build().await.unwrap();
    let (leases, others) = (manager().await, manager().await);
    let _held = leases.acquire("a").await.unwrap();
    for asking in [&leases, &others] {
        let error = asking.acquire("a").wait(Duration::from_secs(3)).await.unwrap_err().to_string();
        assert!(error.ends_with(HINT), "{error}");
    }
}

#[tokio::test]
async fn a_bounded_wait_ends_at_its_deadline_and_names_the_holder() {
    check(async |backend| {
        let leases = backend.manager().await;
        let lease = leases.acquire("a").await.unwrap();
        for millis in [1, 50, 300, 1_000] {
            let wait = Duration::from_millis(millis);
            let started = Instant::now();
            let error = leases.acquire("a").wait(wait).await.unwrap_err();
            let took = started.elapsed();
            let Error::WaitTimeout { name, waited, held, source, .. } = error else {
                panic!("{error}")
            };
            let late = backend.late();
            assert!(took >= wait && took < wait + late, "{wait:?}: {took:?}");
            // It counts from a moment after the call.
            assert!(waited + late >= wait && waited <= took, "{wait:?}: {waited:?}");
            assert_eq!(name, "a");
            // A server may not have answered in that time.
            match backend {
                Backend::Server(_) => {
                    assert!(held.is_none_or(|held| held.value.as_deref() == Some(lease.value())));
                }
                Backend::Memory(_) => {
                    assert_eq!(held.unwrap().value.as_deref(), Some(lease.value()));
                    assert!(source.is_none());
                }
            }
        }
    })
    .await;
}

#[tokio::test]
async fn waits_end_at_their_deadlines_when_the_server_hangs() {
    let (server, _database, leases) = lent_setup().await;
    let lease = leases.acquire("a").await.unwrap();
    server.mongod().pause();
    let mut waits = JoinSet::new();
    // More of them than there are connections.
    for task in 0..20_u32 {
        let wait = Duration::from_millis(300) + Duration::from_millis(50) * task;
        let name = if task % 2 == 0 { "a".to_owned() } else { format!("new:{task}") };
        waits.spawn(ends_in_vain(leases.acquire(name), wait));
    }
    waits.join_all().await;
    server.mongod().resume();
    // Nothing of all that stays: grants in the meantime are given back.
    lease.release().await.unwrap();
    assert!(leases.acquire("a").await.unwrap().is_valid());
    assert!(leases.acquire("new:1").await.unwrap().is_valid());
}

#[tokio::test]
async fn a_waiter_follows_a_crashed_holder_without_the_ttl_monitor() {
    // Its TTL monitor runs once a minute.
    let (_server, database) = lent_database().await;
    let leases = builder(&database).max_clock_skew(Duration::ZERO).build().await.unwrap();
    let ttl = Duration::from_secs(1);
    let key = leases.acquire("a").ttl(ttl).renew(false).await.unwrap().detach().await.unwrap();
    let lease = bounded(leases.acquire("a").into_future()).await.unwrap();
    assert!(lease.token().unwrap() > key.token());
}
