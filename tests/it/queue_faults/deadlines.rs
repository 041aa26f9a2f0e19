//! Every wait ends at its deadline, and a stream in a small pool delays no command.

use std::time::Duration;

use futures_util::future::{join_all, try_join_all};
use mongo_lease::mongodb::bson::doc;
use mongo_lease::{Event, LeaseManager};
use tokio::task::JoinSet;

use crate::common::{builder, pooled};
use crate::lent::{lent_database, lent_setup};
use crate::line::{all_granted, in_line};
use crate::patience::{
    Listener, MUCH_PATIENCE, PATIENCE, bounded, locks, soon, until, until_nothing_is_left,
};
use crate::waiting::ends_in_vain;

/// The sizes of the driver's pool; 10 is its default.
const POOLS: [u32; 3] = [1, 2, 10];

/// Some of them end before the primary stops, and most while it is stopped.
#[tokio::test]
async fn queued_waits_end_at_their_deadlines_with_any_pool_size() {
    let (server, database, holder) = lent_setup().await;
    let acquire = |number| holder.acquire(format!("held:{number}")).into_future();
    let held = try_join_all((0..3).map(acquire)).await.unwrap();
    let has_stream = |event: &Event| match event {
        Event::Watching => Some(true),
        Event::Polling { .. } => Some(false),
        _ => None,
    };
    let mut waits = JoinSet::new();
    let mut all = Vec::new();
    for size in POOLS {
        let through = pooled(&server, &database, size).await;
        let leases = LeaseManager::builder(&through).build().await.unwrap();
        let mut events = Listener::of(&leases);
        for number in 0..16_u32 {
            let wait = Duration::from_secs(4) + Duration::from_millis(40) * number;
            waits.spawn(ends_in_vain(leases.acquire(format!("held:{}", number % 3)), wait));
        }
        // On a busy machine a stream that has room may seem to have none at first.
        let has_room = events.find(has_stream).await;
        if size > 1 && !has_room {
            events.watching().await;
        }
        assert!(size > 1 || !has_room);
        all.push(leases);
    }
    let some = waits.len() * 2 / 3;
    while let Some(ended) = soon("the end of a wait", waits.join_next()).await {
        ended.unwrap();
        if waits.len() == some {
            server.mongod().pause();
        }
    }
    server.mongod().resume();
    // They have also left the queues.
    let locks = locks(&database);
    let in_line = doc! { "queue": { "$exists": true } };
    let nobody = async || {
        let in_line = locks.count_documents(in_line.clone()).await;
        in_line.is_ok_and(|count| count == 0).then_some(())
    };
    until("all have left", nobody).await;
    drop(held);
    until_nothing_is_left(&database).await;
}

/// Managers that share a pool, each with a stream and a waiter. One of them acquires another lease beside its waiter.
///
/// A call that finds no connection waits for its holder's ttl, or for its own deadline: both are longer than a test's
/// patience.
async fn waiters_are_granted(cases: [(u32, usize); 3]) {
    let (server, database) = lent_database().await;
    let holder = builder(&database).ttl(4 * PATIENCE).build().await.unwrap();
    join_all(cases.map(async |(size, managers)| {
        let shared = pooled(&server, &database, size).await;
        let (mut held, mut waiting, mut all) = (Vec::new(), Vec::new(), Vec::new());
        for number in 0..managers {
            let name = format!("a:{size}:{managers}:{number}");
            let leases = LeaseManager::builder(&shared).wait(MUCH_PATIENCE).build().await.unwrap();
            held.push(holder.acquire(&name).await.unwrap());
            waiting.push(in_line(&leases, leases.acquire(&name)).await);
            all.push(leases);
        }
        let own = all[0].acquire(format!("own:{size}:{managers}"));
        bounded(own.into_future()).await.unwrap().release().await.unwrap();
        for lease in held {
            bounded(lease.release()).await.unwrap();
        }
        all_granted(waiting).await;
    }))
    .await;
}

/// The last pool has fewer connections than streams would take.
#[tokio::test]
async fn in_small_pools_waiters_are_granted_and_block_nothing() {
    waiters_are_granted([(1, 1), (2, 1), (2, 3)]).await;
}
