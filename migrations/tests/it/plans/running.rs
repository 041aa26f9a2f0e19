//! Indexes that are dropped or created while leases are in use.

use std::time::Duration;

use mongo_lease::Attempt;
use mongo_lease_migrations::indexes;
use mongo_lease_testbed::{FailPoint, Server};
use mongodb::bson::doc;

use super::{apply, build, create_index, fresh, insert, plan, refused};

/// Until it is ready the index refuses no duplicates, although the server lists it like the others.
#[tokio::test]
async fn an_index_that_is_still_being_built_does_not_count() {
    let server = Server::start();
    let database = server.database().await;
    insert(&database, vec![doc! { "name": "a" }]).await;
    let ttl = doc! { "expireAfterSeconds": 0 };
    create_index(&database, "expiresAt_1", doc! { "expiresAt": 1 }, ttl).await;
    let hanging = FailPoint::named("hangAfterStartingIndexBuild").enable(server.uri()).await;
    let builder = database.clone();
    let building = tokio::spawn(async move { apply(&builder).await });
    hanging.wait_times_entered(1).await;
    refused(&database, "`name_1` on `name` is still being built").await;
    let plan = plan(&database).await;
    assert!(plan.to_string().contains("wait for the unique index `name_1`"), "{plan}");
    let mut told = 0;
    let mut hanging = Some(hanging);
    let applied = plan.apply(|progress| {
        if let indexes::Progress::Waiting { elapsed, .. } = progress {
            told += 1;
            assert!(elapsed >= Duration::from_secs(1));
            drop(hanging.take());
        }
    });
    applied.await.unwrap();
    building.await.unwrap().unwrap();
    assert_eq!(told, 1);
    build(&database).await.unwrap();
}

/// Dropped at each of its first polls: the begun work goes on or not, and the next run finishes it.
#[tokio::test]
async fn a_dropped_plan_is_finished_by_the_next_one() {
    for polls in 0..6 {
        let database = fresh().await;
        let plan = plan(&database).await;
        let mut applying = Box::pin(plan.apply(|_progress| ()));
        for _ in 0..polls {
            if futures_util::poll!(&mut applying).is_ready() {
                break;
            }
            tokio::task::yield_now().await;
        }
        drop(applying);
        drop(Box::pin(indexes::plan(&database, "locks")));
        apply(&database).await.unwrap();
        let attempt = build(&database).await.unwrap().try_acquire("a").await.unwrap();
        assert!(matches!(attempt, Attempt::Granted(_)));
    }
}
