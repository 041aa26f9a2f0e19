//! Commits whose answer is lost or says that nobody knows.

use mongo_lease::Error;
use mongo_lease::mongodb::bson::Document;
use mongo_lease::mongodb::error::Error as DriverError;
use mongo_lease_testbed::{FailCommand, TestDatabase};

use super::{count, work, work_of, written};
use crate::common::{builder, document};
use crate::lent::{behind_a_proxy, lent_database};

/// How often the lease's document was written to by grants and guards.
async fn writes(database: &TestDatabase) -> i64 {
    let grant: Document =
        document(database, "a").await.unwrap().get_document("grant").unwrap().clone();
    // A small count is an Int32.
    let writes = grant.get("writes").unwrap();
    writes.as_i64().or_else(|| writes.as_i32().map(i64::from)).unwrap()
}

#[tokio::test]
async fn a_commit_without_an_answer_is_repeated_and_the_guard_is_not() {
    let (server, database) = lent_database().await;
    let (proxy, through) = behind_a_proxy(&server, &database).await;
    let leases = mongo_lease::LeaseManager::builder(&through).build().await.unwrap();
    let work_there = work_of(&database).await;
    let lease = leases.acquire("a").renew(false).await.unwrap();
    let before = writes(&database).await;
    let tx = written(&lease, &work(&through)).await.unwrap();
    // It is committed by then.
    let loss = proxy.lose_next_reply("commitTransaction");
    tx.commit().await.unwrap();
    assert!(loss.has_happened());
    assert_eq!((count(&work_there).await, writes(&database).await), (1, before + 1));
    lease.renew().await.unwrap();
}

/// The driver repeats it once, and the library for longer.
#[tokio::test]
async fn a_commit_is_repeated_more_often_than_by_the_driver() {
    let (server, database) = lent_database().await;
    let leases = builder(&database).build().await.unwrap();
    let work = work_of(&database).await;
    let lease = leases.acquire("a").renew(false).await.unwrap();
    let before = writes(&database).await;
    let tx = written(&lease, &work).await.unwrap();
    const NETWORK_TIMEOUT: i32 = 89;
    let fault = FailCommand::on(&["commitTransaction"]).error_code(NETWORK_TIMEOUT).times(3);
    let fault = fault.error_labels(&["RetryableWriteError"]).enable(server.uri()).await;
    tx.commit().await.unwrap();
    drop(fault);
    assert_eq!((count(&work).await, writes(&database).await), (1, before + 1));
}

#[tokio::test]
async fn a_commit_that_nobody_knows_of_is_unknown_and_not_transient() {
    let (server, database) = lent_database().await;
    let leases = builder(&database).build().await.unwrap();
    let work = work_of(&database).await;
    let lease = leases.acquire("a").renew(false).await.unwrap();
    let tx = written(&lease, &work).await.unwrap();
    // The driver's rules do not repeat it.
    const MAX_TIME_MS_EXPIRED: i32 = 50;
    let fault = FailCommand::on(&["commitTransaction"]).error_code(MAX_TIME_MS_EXPIRED);
    let fault = fault.enable(server.uri()).await;
    let error = tx.commit().await.unwrap_err();
    drop(fault);
    let Error::CommitUnknown { source: Some(_), .. } = &error else { panic!("{error}") };
    assert!(!error.is_transient(), "{error}");
    assert!(error.to_string().contains("whether the transaction under lease \"a\""), "{error}");
    // To the driver's helper it is no error that it repeats.
    let to_driver = DriverError::from(error);
    assert!(to_driver.labels().is_empty(), "{to_driver:?}");
    assert!(matches!(Error::from(to_driver), Error::CommitUnknown { .. }));
    let _ = lease.is_valid();
}
