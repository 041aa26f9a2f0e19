//! More calls of one process than the server carries out: they wait in the process.

use std::time::Duration;

use mongo_lease::{Error, Lease, Tuning};
use tokio::task::JoinSet;

use crate::common::builder;
use crate::lent::lent_database;
use crate::patience::{MUCH_PATIENCE, soon};

const CALLS: usize = 500;

#[tokio::test]
async fn calls_of_a_server_that_hangs_are_granted_when_it_goes_on() {
    const ATTEMPT: Duration = Duration::from_secs(2);
    let (server, database) = lent_database().await;
    let tuning = Tuning::default().attempt_timeout(ATTEMPT);
    let leases = builder(&database).tuning(tuning).ttl(5 * MUCH_PATIENCE);
    let leases = leases.shutdown_timeout(MUCH_PATIENCE).build().await.unwrap();
    server.mongod().pause();
    let mut calls = JoinSet::new();
    for number in 0..CALLS {
        let acquire = leases.acquire(format!("lease:{number}")).wait(MUCH_PATIENCE);
        calls.spawn(acquire.into_future());
    }
    // Meanwhile attempts are unanswered, and are repeated. A bounded call ends on time.
    let bounded = leases.acquire("bounded").wait(ATTEMPT * 2).into_future();
    let error = soon("the end of a bounded call", bounded).await.unwrap_err();
    assert!(matches!(error, Error::WaitTimeout { .. }), "{error}");
    server.mongod().resume();
    let held: Result<Vec<_>, _> = calls.join_all().await.into_iter().collect();
    let held = held.expect("each call is granted its lease");
    assert!(held.iter().all(Lease::is_valid));
    assert_eq!(leases.shutdown().await.released, CALLS);
}
