//! Setup that the tests share.

use std::time::Duration;

use mongo_lease::mongodb::bson::{Document, doc};
use mongo_lease::{LeaseManager, LeaseManagerBuilder, Tuning};
use mongo_lease_testbed::{Server, TestDatabase};

/// A ttl that does not end within a test, also when PATIENCE is used up.
pub(crate) const LONG_TTL: Duration = Duration::from_secs(300);

/// A database of its own, with the indexes.
pub(crate) async fn migrated() -> TestDatabase {
    let database = Server::shared().database().await;
    builder(&database).ensure_indexes(true).build().await.expect("the indexes are made");
    database
}

/// The usual options, without a margin for clock skew: a holder that believes too long is detected. No command is
/// repeated on a busy machine: the second one of a release would find nothing, and its outcome would be unknown.
pub(crate) fn builder(database: &TestDatabase) -> LeaseManagerBuilder {
    let patient = Tuning::default().attempt_timeout(Duration::from_secs(15));
    LeaseManager::builder(database).owner("rust").max_clock_skew(Duration::ZERO).tuning(patient)
}

/// The document of a lease.
pub(crate) async fn document(database: &TestDatabase, name: &str) -> Option<Document> {
    let locks = database.collection::<Document>("locks");
    locks.find_one(doc! { "name": name }).await.expect("a look at the document")
}
