//! Setup that the tests share.

use std::fmt::Display;
use std::time::Duration;

use mongo_lease::mongodb::bson::{Document, doc};
use mongo_lease::{Acquire, Attempt, Error, LeaseManager, LeaseManagerBuilder, Released};
use mongo_lease_testbed::{Server, TestDatabase};

/// A ttl that ends within a test.
pub(crate) const SHORT_TTL: Duration = Duration::from_millis(400);

/// A database of its own on the shared server, with the indexes, and a manager for it.
pub(crate) async fn setup() -> (TestDatabase, LeaseManager) {
    let database = migrated(Server::shared()).await;
    let leases = builder(&database).build().await.expect("a manager");
    (database, leases)
}

/// A database of its own on this server, with the indexes.
pub(crate) async fn migrated(server: &Server) -> TestDatabase {
    let database = server.database().await;
    builder(&database).ensure_indexes(true).build().await.expect("the indexes are made");
    database
}

/// One attempt of a call with options, with the result in the terms of `try_acquire`.
pub(crate) trait TryOnce {
    fn try_once(self) -> impl Future<Output = mongo_lease::Result<Attempt>> + Send;
}

impl TryOnce for Acquire {
    async fn try_once(self) -> mongo_lease::Result<Attempt> {
        match self.wait(Duration::ZERO).await {
            Ok(lease) => Ok(Attempt::Granted(lease)),
            Err(Error::Busy(held)) => Ok(Attempt::Busy(held)),
            Err(error) => Err(error),
        }
    }
}

/// The usual options.
pub(crate) fn builder(database: &TestDatabase) -> LeaseManagerBuilder {
    LeaseManager::builder(database).owner("test")
}

/// Asserts that the release was carried out. It may be unconfirmed: a machine that is too busy to answer an attempt in
/// its time makes the next one find nothing.
pub(crate) fn assert_done(released: Released, what: impl Display) {
    assert_ne!(released, Released::NotHeld, "{what}");
}

/// The document of a lease.
pub(crate) async fn document(database: &TestDatabase, name: &str) -> Option<Document> {
    let locks = database.collection::<Document>("locks");
    locks.find_one(doc! { "name": name }).await.expect("a look at the document")
}
