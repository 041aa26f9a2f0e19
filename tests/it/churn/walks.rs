//! How many deleted index entries a command walks over.

use mongo_lease::mongodb::bson::doc;
use mongo_lease_testbed::Server;

use super::{come_and_go, with_tombstones};
use crate::lent::lent_database;
use crate::patience::locks;

/// The server keeps deleted entries for a time, and a query for a name walks over those that sort behind it.
#[tokio::test]
async fn a_new_name_walks_over_no_deleted_entries() {
    const DELETED: usize = 1_000;
    const NEW: usize = 50;
    let (server, database) = lent_database().await;
    let leases = with_tombstones(&database).await;
    // These sort behind all new names, and nothing else does.
    let dead = |number: usize| doc! { "name": format!("z:{number:04}"), "value": "", "n": 1 };
    locks(&database).insert_many((0..DELETED).map(dead)).await.unwrap();
    locks(&database).delete_many(doc! { "n": 1 }).await.unwrap();
    let before = entries_skipped(&server).await;
    come_and_go(&leases, (0..NEW).map(|number| format!("a:{number:04}"))).await;
    let skipped = entries_skipped(&server).await - before;
    // A single query would walk over all of them.
    assert!(skipped < i64::try_from(DELETED).unwrap() / 2, "{skipped} entries for {NEW} names");
}

async fn entries_skipped(server: &Server) -> i64 {
    let status = server.admin(doc! { "serverStatus": 1 }).await;
    let cursor = status.get_document("wiredTiger").unwrap().get_document("cursor").unwrap();
    let skipped = |direction: &str| {
        let name = format!("Total number of entries skipped by cursor {direction} calls");
        let value = cursor.get(name).expect("the server counts it");
        value.as_i64().or(value.as_i32().map(i64::from)).unwrap()
    };
    skipped("next") + skipped("prev")
}
