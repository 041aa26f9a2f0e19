//! Many calls for overlapping names, and the number of commands.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use mongo_lease::LeaseManager;

use crate::both::check;
use crate::common::{builder, patient};
use crate::lent::lent_database;
use crate::patience::soon;

const NAMES: [&str; 5] = ["a", "b", "c", "d", "e"];

/// Six tasks acquire sets of three names, in changing orders. No two hold a name at once, and each call ends. Each task
/// has a manager of its own; or they share one, and with it its queue entries, and wait for its own releases.
#[tokio::test]
async fn overlapping_sets_in_any_order_exclude_each_other_and_end() {
    check(async |backend| {
        let shared = backend.manager().await;
        for is_shared in [false, true] {
            let holders: Arc<[AtomicU32; NAMES.len()]> = Arc::default();
            let mut tasks = Vec::new();
            for task in 0..6_usize {
                let leases = if is_shared { shared.clone() } else { backend.manager().await };
                tasks.push(tokio::spawn(hold_sets(leases, task, Arc::clone(&holders))));
            }
            for task in tasks {
                let case = format!("with one manager: {is_shared}");
                let ended = soon(&case, task).await;
                ended.unwrap_or_else(|error| panic!("{case}: {error}"));
            }
            backend.until_nothing_is_left().await;
        }
    })
    .await;
}

async fn hold_sets(leases: LeaseManager, task: usize, holders: Arc<[AtomicU32; NAMES.len()]>) {
    for round in 0..12 {
        let first = task + round;
        let places = [first, first + 2 + round % 2, first + 1].map(|at| at % 5);
        let names = places.map(|place| NAMES[place]);
        let set = leases.acquire_all(names).wait_forever().await.unwrap();
        for place in places {
            assert_eq!(holders[place].fetch_add(1, Ordering::SeqCst), 0, "{names:?}");
        }
        tokio::task::yield_now().await;
        for place in places {
            holders[place].fetch_sub(1, Ordering::SeqCst);
        }
        set.release().await.unwrap();
    }
}

#[tokio::test]
async fn a_hundred_free_names_cost_few_commands() {
    let (server, database) = lent_database().await;
    let leases = patient(builder(&database)).build().await.unwrap();
    let names: Vec<String> = (0..100).map(|number| format!("name:{number}")).collect();
    let before = server.command_counts().await;
    let set = leases.acquire_all(names).wait(Duration::from_secs(30)).await.unwrap();
    let asked = server.command_counts().await.since(&before);
    // Each alone, they would be a hundred.
    assert!(asked.find_and_modify + asked.update + asked.find <= 30, "{asked:?}");
    let before = server.command_counts().await;
    set.release().await.unwrap();
    let ended = server.command_counts().await.since(&before);
    assert!(ended.delete <= 15, "{ended:?}");
    assert!(ended.deleted >= 100, "{ended:?}");
}
