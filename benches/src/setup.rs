//! The server of a case, and what it tells about itself.

use std::time::Duration;

use mongo_lease::LeaseManager;
use mongo_lease::mongodb::bson::{Bson, Document, doc};
use mongo_lease_measure::{Outcome, host};
use mongo_lease_testbed::Server;

use crate::databases::Databases;

/// A server of its own, with a manager for the default collection.
pub(crate) struct Setup {
    pub(crate) server: Server,
    pub(crate) databases: Databases,
    pub(crate) leases: LeaseManager,
}

impl Setup {
    pub(crate) async fn new() -> Outcome<Setup> {
        // Under a real service, each acknowledged write waits for a disk.
        Setup::on(Server::builder().on_disk().start()).await
    }

    pub(crate) async fn on(server: Server) -> Outcome<Setup> {
        let databases = Databases::at(server.uri());
        let builder = LeaseManager::builder(databases.by_default().await?);
        let leases = builder.ensure_indexes(true).build().await?;
        Ok(Setup { server, databases, leases })
    }

    /// Another manager of this process for the same leases, through a client of its own.
    pub(crate) async fn beside(setup: &Setup) -> Outcome<LeaseManager> {
        let databases = Databases::at(setup.server.uri());
        Ok(LeaseManager::builder(databases.by_default().await?).build().await?)
    }

    /// The server's processor time so far.
    pub(crate) fn server_time(&self) -> Duration {
        host::processor_time_of(self.server.mongod().pid())
    }

    /// How often writes have met another write of the same document so far, and were tried again by the server.
    pub(crate) async fn write_conflicts(&self) -> u64 {
        let status = self.server.admin(doc! { "serverStatus": 1 }).await;
        let metrics = status.get_document("metrics").and_then(|it| it.get_document("operation"));
        metrics.map_or(0, |operation| count(operation, "writeConflicts"))
    }

    /// Index entries that the server has walked over so far on its way to the next live one.
    pub(crate) async fn entries_skipped(&self) -> u64 {
        let status = self.server.admin(doc! { "serverStatus": 1 }).await;
        let cursor = status.get_document("wiredTiger").and_then(|it| it.get_document("cursor"));
        let skipped = |direction: &str| {
            let name = format!("Total number of entries skipped by cursor {direction} calls");
            cursor.as_ref().map_or(0, |cursor| count(cursor, &name))
        };
        skipped("next") + skipped("prev")
    }
}

/// A counter in a server's answer; 0 where it is missing.
pub(crate) fn count(document: &Document, name: &str) -> u64 {
    let value = document.get(name);
    let value = value.and_then(Bson::as_i64).or_else(|| value?.as_i32().map(i64::from));
    value.and_then(|value| u64::try_from(value).ok()).unwrap_or(0)
}
