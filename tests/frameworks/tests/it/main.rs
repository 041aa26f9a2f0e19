//! The layer in other frameworks, and leases through the driver's compressors. axum is in `examples/axum_service`, a
//! scheduler in `examples/cron_jobs`.

mod compressors;
mod grpc;
mod http1;

use std::time::Duration;

use mongo_lease::LeaseManager;
use mongo_lease_testbed::{Server, TestDatabase};

/// Longer than anything here takes, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);

/// The result of the future, which must come in time.
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

/// A second manager stands for another process.
async fn another(database: &TestDatabase) -> LeaseManager {
    let builder = LeaseManager::builder(database).ensure_indexes(true);
    builder.build().await.expect("a manager")
}

/// Returns when nobody holds the lease.
async fn until_free(leases: &LeaseManager, name: &str) {
    let looking = async { while leases.get(name).await.expect("a look").is_some() {} };
    soon("the lease is free", looking).await;
}
