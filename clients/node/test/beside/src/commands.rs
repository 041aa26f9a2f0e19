//! The library's own commands, sent to a proxy that keeps their bytes.

use std::time::Duration;

use mongo_lease::LeaseManager;
use mongo_lease::mongodb::Client;

use crate::Failed;

/// Sends what the Node client sends in the same test: an acquire, a renewal, a refusal, a wait, and their releases.
pub(crate) async fn send(uri: &str, database: &str) -> Result<(), Failed> {
    let client = Client::with_uri_str(uri).await?;
    let database = client.database(database);
    let builder = LeaseManager::builder(&database).owner("o").ensure_indexes(true);
    let leases = builder.build().await?;
    let lease = leases.acquire("golden").wait(Duration::ZERO).await?;
    lease.renew().await?;
    let other = LeaseManager::builder(&database).owner("o").build().await?;
    let _ = other.acquire("golden").wait(Duration::from_millis(300)).await.err();
    // Its entry has left the queue then.
    other.shutdown().await;
    lease.release().await?;
    let reader = leases.acquire("golden").shared().wait(Duration::ZERO).await?;
    reader.renew().await?;
    reader.release().await?;
    leases.shutdown().await;
    client.shutdown().await;
    Ok(())
}
