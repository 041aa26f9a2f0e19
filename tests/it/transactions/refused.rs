//! Where there are no transactions under a lease, nothing is sent.

use mongo_lease::{Error, MemoryStore};
use mongo_lease_testbed::Server;

use crate::common::{migrated, patient};
use crate::spy::spied_at;

fn assert_unsupported(error: &Error, why: &str) {
    assert!(matches!(error, Error::Unsupported { .. }) && !error.is_transient(), "{error}");
    assert!(error.to_string().contains(why), "{error}");
}

/// It ended in a driver's advice to add `retryWrites=false`.
#[tokio::test]
async fn on_a_standalone_server_it_is_unsupported() {
    let database = migrated(Server::shared_standalone()).await;
    let (leases, spy) = spied_at(Server::shared_standalone(), &database, patient).await;
    let lease = leases.acquire("a").renew(false).await.unwrap();
    let mut session = database.client().start_session().await.unwrap();
    spy.names();
    let error = lease.transaction().await.unwrap_err();
    assert_unsupported(&error, "needs a replica set");
    assert_unsupported(&lease.transaction_in(&mut session).await.unwrap_err(), "a replica set");
    assert_eq!(spy.names(), Vec::<String>::new());
    lease.renew().await.unwrap();
}

#[tokio::test]
async fn in_memory_it_is_unsupported() {
    let store = MemoryStore::new();
    let leases = mongo_lease::LeaseManager::in_memory(&store).build().await.unwrap();
    let lease = leases.acquire("a").await.unwrap();
    let error = lease.transaction().await.unwrap_err();
    assert_unsupported(&error, "a store in memory has no transactions");
    lease.renew().await.unwrap();
}
