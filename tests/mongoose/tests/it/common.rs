//! What the tests share.

use std::time::{Duration, Instant};

use mongo_lease::mongodb::bson::{Document, doc};
use mongo_lease::{LeaseManager, LeaseManagerBuilder};
use mongo_lease_testbed::{Server, TestDatabase};

/// Nothing here takes that long, however busy the machine is.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// A ttl that ends within a test.
pub(crate) const SHORT_TTL: Duration = Duration::from_millis(400);

/// A ttl that does not, also when PATIENCE is used up.
pub(crate) const LONG_TTL: Duration = Duration::from_secs(300);

/// A database of its own, with the indexes.
pub(crate) async fn migrated() -> TestDatabase {
    let database = Server::shared().database().await;
    builder(&database).ensure_indexes().await.expect("the indexes are made");
    database
}

/// The usual options, and no allowance: who believes for too long is found out.
pub(crate) fn builder(database: &TestDatabase) -> LeaseManagerBuilder {
    LeaseManager::builder(database).owner("rust").allowance(Duration::ZERO)
}

/// The document of a lease, as it is.
pub(crate) async fn document(database: &TestDatabase, name: &str) -> Option<Document> {
    let locks = database.collection::<Document>("locks");
    locks.find_one(doc! { "name": name }).await.expect("a look at the document")
}

/// The result of the future, which has to come.
pub(crate) async fn soon<T>(what: &str, future: impl Future<Output = T>) -> T {
    match tokio::time::timeout(PATIENCE, future).await {
        Ok(output) => output,
        Err(_) => panic!("after {PATIENCE:?} this has not happened: {what}"),
    }
}

/// Looks again and again, until there is something to be seen of which nobody sends an event.
pub(crate) async fn until<T>(what: &str, look: impl AsyncFn() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(seen) = look().await {
            return seen;
        }
        assert!(Instant::now() < deadline, "after {PATIENCE:?} this has not happened: {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Returns when somebody stands in line for the lease.
pub(crate) async fn until_in_line(leases: &LeaseManager, name: &str, processes: u32) {
    let look = async || {
        let found = leases.get(name).await.unwrap();
        found.filter(|lease| lease.waiting == processes)
    };
    until("they stand in line", look).await;
}
