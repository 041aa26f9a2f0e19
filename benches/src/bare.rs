//! The floor: the same driver on the same server, without our library.

use mongo_lease::LeaseManager;
use mongo_lease::mongodb::Collection;
use mongo_lease::mongodb::bson::{DateTime, Document, doc, oid::ObjectId};
use mongo_lease_measure::{Outcome, bare_collection};
use mongo_lease_testbed::{Server, TestDatabase};

/// A server of its own, with a collection of leases and a bare one, which has the same two indexes.
pub(crate) struct Setup {
    pub(crate) server: Server,
    pub(crate) database: TestDatabase,
    pub(crate) leases: LeaseManager,
    pub(crate) bare: Collection<Document>,
}

impl Setup {
    pub(crate) async fn new() -> Outcome<Setup> {
        Setup::with_tombstones(false).await
    }

    /// The same, where releases may make tombstones.
    pub(crate) async fn with_tombstones(tombstones: bool) -> Outcome<Setup> {
        let server = Server::start();
        let database = server.database().await;
        let builder = LeaseManager::builder(&database).tombstones(tombstones);
        let leases = builder.ensure_indexes().await?.build().await?;
        let bare = bare_collection(&database).await?;
        Ok(Setup { server, database, leases, bare })
    }

    /// Index entries that the server has walked over so far on its way to the next live one.
    pub(crate) async fn entries_skipped(&self) -> u64 {
        let status = self.server.admin(doc! { "serverStatus": 1 }).await;
        let cursor = status.get_document("wiredTiger").and_then(|it| it.get_document("cursor"));
        let skipped = |direction: &str| {
            let name = format!("Total number of entries skipped by cursor {direction} calls");
            let value = cursor.as_ref().ok().and_then(|it| it.get(&name)).cloned();
            let value = value.and_then(|it| it.as_i64().or(it.as_i32().map(i64::from)));
            value.and_then(|it| u64::try_from(it).ok()).unwrap_or(0)
        };
        skipped("next") + skipped("prev")
    }
}

/// A document of the usual hand-written lock.
pub(crate) fn lock(name: &str) -> Document {
    let expires_at = DateTime::from_millis(DateTime::now().timestamp_millis() + 30_000);
    doc! { "name": name, "value": ObjectId::new().to_hex(), "expiresAt": expires_at }
}

/// Removes it, by name and value.
pub(crate) fn unlock(lock: &Document) -> Document {
    let of = |field: &str| lock.get(field).cloned();
    doc! { "name": of("name"), "value": of("value") }
}
