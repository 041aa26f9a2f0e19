//! The layer and the scheduled jobs among other people's frameworks. axum is in `examples/axum_service`.

mod cron;
mod grpc;
mod http1;

use std::time::Duration;

use mongo_lease::LeaseManager;
use mongo_lease_testbed::{Server, TestDatabase};

/// Nothing here takes that long, however busy the machine is.
const PATIENCE: Duration = Duration::from_secs(30);

/// The result of the future, which has to come.
async fn soon<T>(what: &str, future: impl Future<Output = T>) -> T {
    match tokio::time::timeout(PATIENCE, future).await {
        Ok(output) => output,
        Err(_) => panic!("after {PATIENCE:?} this has not happened: {what}"),
    }
}

async fn setup() -> (TestDatabase, LeaseManager) {
    let database = Server::shared().database().await;
    let leases = another(&database).await;
    (database, leases)
}

/// Another process is no other than a manager of its own.
async fn another(database: &TestDatabase) -> LeaseManager {
    let builder = LeaseManager::builder(database).ensure_indexes().await.expect("the indexes");
    builder.build().await.expect("a manager")
}

/// Returns when nobody has the lease.
async fn until_free(leases: &LeaseManager, name: &str) {
    let looking = async { while leases.get(name).await.expect("a look").is_some() {} };
    soon("the lease is free", looking).await;
}
