//! Waiting in the queue: order, hand-off, and cleanup after calls that have gone.

mod barging;
mod beats;
mod damaged;
mod dead;
mod leaving;
mod order;
mod terms;
mod turns;
mod workers;

use std::time::Duration;

use mongo_lease::mongodb::bson::Document;
use mongo_lease::{Acquire, Lease, LeaseManager};
use mongo_lease_testbed::{Server, TestDatabase};

use crate::common::migrated;
pub(crate) use crate::waiters::{
    LONG_LIFE, NEVER, WAITER_TTL, Waiting, dropped, granted, in_line, in_line_watching, line_of,
    manager, manager_with, queued, start_waiting, told_only, until_line_is,
};

/// A lease that is held on the shared server, and a manager whose calls wait for it.
struct Held {
    database: TestDatabase,
    holder: LeaseManager,
    lease: Lease,
    leases: LeaseManager,
}

impl Held {
    async fn new(waiter_ttl: Duration) -> Held {
        let server = Server::shared();
        let database = migrated(server).await;
        let holder = manager(server, &database).await;
        let lease = holder.acquire("a").await.unwrap();
        let leases = manager_with(server, &database, waiter_ttl).await;
        Held { database, holder, lease, leases }
    }

    /// A call that is in the queue when this returns.
    async fn wait(&self, options: impl FnOnce(Acquire) -> Acquire) -> Waiting {
        in_line(&self.leases, options(self.leases.acquire("a"))).await
    }
}

/// Each of the waiting calls is granted the lease when the one before it releases it.
pub(crate) async fn all_granted(waiting: impl IntoIterator<Item = Waiting>) {
    for waiting in waiting {
        granted(waiting).await.release().await.unwrap();
    }
}

/// The document's holder, by the label of its owner.
fn holder_of(document: &Document) -> Option<&str> {
    document.get_document("grant").ok()?.get_str("owner").ok()?.split('@').next()
}
