//! A read `afterClusterTime`, on a replica set where no majority has that time's writes yet.

use crate::bson::{Timestamp, doc};
use mongo_lease_testbed::{FailPoint, ReplicaSet, TestDatabase};
use mongodb::error::ErrorKind;

use super::SENT;
use crate::commands::Command;
use crate::commands::find::FindLeases;
use crate::commands::reply;

const MAX_TIME_MS_EXPIRED: i32 = 50;

/// The value that the read finds, or the code of its error.
async fn value_seen(database: &TestDatabase, after: Option<Timestamp>) -> Result<String, i32> {
    let look = FindLeases { names: vec!["a".to_owned()], after };
    let mut command = look.build("locks", SENT);
    command.insert("maxTimeMS", if after.is_some() { 500 } else { 30_000 });
    let reply = database.run_command(command).await.map_err(|error| {
        let ErrorKind::Command(error) = error.kind.as_ref() else { panic!("{error}") };
        error.code
    })?;
    let found = look.decode(&reply, SENT).unwrap();
    Ok(found[0].info.value.clone().unwrap())
}

/// Without the time it finds the older document, and the calls would be answered by that.
#[tokio::test]
async fn a_look_behind_a_time_never_shows_what_was_before_it() {
    let set = ReplicaSet::start();
    let database = TestDatabase::of(&set.client().await);
    let insert = doc! { "insert": "locks", "documents": [{ "name": "a", "value": "before" }] };
    database.run_command(insert).await.unwrap();
    let primary = set.primary().await;
    let mut stopped = Vec::new();
    for node in (0..3).filter(|&node| node != primary) {
        let stop = FailPoint::named("stopReplProducer").enable(set.node(node).uri()).await;
        stop.wait_times_entered(1).await;
        stopped.push(stop);
    }
    let write = doc! {
        "update": "locks",
        "updates": [{ "q": { "name": "a" }, "u": { "$set": { "value": "after" } } }],
        "writeConcern": { "w": 1 },
    };
    let written = reply::token(&database.run_command(write).await.unwrap()).unwrap();
    assert_eq!(value_seen(&database, None).await.as_deref(), Ok("before"));
    assert_eq!(value_seen(&database, Some(written)).await, Err(MAX_TIME_MS_EXPIRED));
    for stop in stopped {
        stop.disable().await;
    }
    let seen = loop {
        // On a busy machine one read may end before the members have caught up.
        match value_seen(&database, Some(written)).await {
            Err(MAX_TIME_MS_EXPIRED) => {}
            seen => break seen,
        }
    };
    assert_eq!(seen.as_deref(), Ok("after"));
}
