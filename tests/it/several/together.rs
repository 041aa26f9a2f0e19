//! Many calls for overlapping names, and the number of commands.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use crate::both::check;
use crate::lent::lent_setup;
use crate::patience::bounded;

const NAMES: [&str; 5] = ["a", "b", "c", "d", "e"];

/// Each of six managers acquires sets of three names, in changing orders. No two hold a name at once, and each call
/// ends.
#[tokio::test]
async fn overlapping_sets_in_any_order_exclude_each_other_and_end() {
    check(async |backend| {
        let holders: Arc<[AtomicU32; NAMES.len()]> = Arc::default();
        let mut tasks = Vec::new();
        for task in 0..6_usize {
            let (leases, holders) = (backend.manager().await, Arc::clone(&holders));
            tasks.push(tokio::spawn(async move {
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
            }));
        }
        for task in tasks {
            bounded(task).await.unwrap();
        }
        backend.until_nothing_is_left().await;
    })
    .await;
}

/// The calls of one manager share its queue entries, and wait for its own releases.
#[tokio::test]
async fn overlapping_sets_of_one_manager_exclude_each_other_and_end() {
    check(async |backend| {
        let leases = backend.manager().await;
        let inside = Arc::new(AtomicU32::new(0));
        let mut tasks = Vec::new();
        for task in 0..8_usize {
            let (leases, inside) = (leases.clone(), Arc::clone(&inside));
            tasks.push(tokio::spawn(async move {
                for round in 0..6 {
                    let other = NAMES[(task + round) % 4];
                    let names = if round % 2 == 0 { [other, "e"] } else { ["e", other] };
                    let set = leases.acquire_all(names).wait_forever().await.unwrap();
                    assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "`e` has one holder");
                    tokio::task::yield_now().await;
                    inside.fetch_sub(1, Ordering::SeqCst);
                    set.release().await.unwrap();
                }
            }));
        }
        for task in tasks {
            bounded(task).await.unwrap();
        }
        backend.until_nothing_is_left().await;
    })
    .await;
}

#[tokio::test]
async fn a_hundred_free_names_cost_few_commands() {
    let (server, _database, leases) = lent_setup().await;
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
    assert_eq!(ended.deleted, 100);
}
