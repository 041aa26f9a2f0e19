//! Leases that are lost while a transaction under them is open.
//!
//! These tests wait for seconds. By the name of their module others run meanwhile, as they would not at the end.

use std::time::Duration;

use mongo_lease::mongodb::bson::{Document, doc};
use mongo_lease::{Error, LeaseManager, LostReason};
use mongo_lease_testbed::Server;

use crate::common::{builder, migrated, setup};
use crate::lent::{behind_a_proxy, lent_server, lent_setup};
use crate::patience::{Listener, bounded, soon};
use crate::transactions::{self, count, make_it_guard_first, work_of, written};
use crate::worker::{Worker, as_worker, order, say};

const TTL: Duration = Duration::from_secs(3);

/// No transaction ends by itself on this server within a test.
#[tokio::test]
async fn a_lost_lease_aborts_its_transaction_on_the_server() {
    let (_server, database, leases) = lent_setup().await;
    let work = work_of(&database).await;
    let lease = leases.acquire("a").ttl(TTL).renew(false).await.unwrap();
    make_it_guard_first(&lease, &database).await;
    let mut tx = written(&lease, &work).await.unwrap();
    assert_eq!(bounded(lease.lost()).await, LostReason::EndedAsAsked);
    // Its owner is busy meanwhile, and does nothing with it.
    let next = soon("the next grant", leases.acquire("a").into_future()).await.unwrap();
    let error = work.insert_one(doc! {}).session(&mut tx).await.unwrap_err();
    assert!(Error::from(error).is_transient(), "the loop comes to `transaction`, which tells");
    assert!(matches!(tx.commit().await, Err(Error::Lost { .. })));
    assert!(matches!(lease.transaction().await, Err(Error::Lost { .. })));
    assert_eq!(count(&work).await, 0);
    assert!(next.is_valid());
}

/// Its own renewals cannot get past it, so to repeat it is of no use.
#[tokio::test]
async fn a_transaction_that_outlives_the_validity_names_the_ttl() {
    let (database, leases) = setup().await;
    let work = work_of(&database).await;
    let lease = leases.acquire("a").ttl(TTL).await.unwrap();
    make_it_guard_first(&lease, &database).await;
    let tx = written(&lease, &work).await.unwrap();
    bounded(lease.lost()).await;
    for error in [tx.commit().await.unwrap_err(), lease.transaction().await.unwrap_err()] {
        let Error::TransactionTooLong { ttl: TTL, .. } = error else { panic!("{error}") };
        assert!(error.to_string().contains("3s") && !error.is_transient(), "{error}");
    }
    assert_eq!(count(&work).await, 0);
}

/// It guards last, and renewals go through. They conflict with it.
#[tokio::test]
async fn with_the_guard_last_as_well() {
    let (database, leases) = setup().await;
    let work = work_of(&database).await;
    let mut events = Listener::of(&leases);
    // A renewal has a third of it.
    let lease = leases.acquire("a").ttl(2 * TTL).await.unwrap();
    let tx = written(&lease, &work).await.unwrap();
    // Each after two thirds of the validity.
    events.renewals("a", 2).await;
    let error = tx.commit().await.unwrap_err();
    assert!(matches!(error, Error::TransactionTooLong { .. }), "{error}");
    assert!(error.to_string().contains("6s") && !error.is_transient(), "{error}");
    lease.check().unwrap();
    assert_eq!(count(&work).await, 0);
}

/// A stopped holder that guards last blocks the lease no longer than one without a transaction. The server keeps its
/// transaction for 300 s.
#[tokio::test]
async fn a_process_that_was_stopped_in_a_transaction_blocks_no_grant() {
    const NAME: &str =
        "open_transactions::a_process_that_was_stopped_in_a_transaction_blocks_no_grant";
    if let Some(database) = as_worker().await {
        let leases = LeaseManager::builder(&database).await.unwrap();
        let lease = leases.acquire("a").ttl(TTL).await.unwrap();
        let work = database.collection::<Document>("work");
        for is_stopped in [false, true] {
            let tx = written(&lease, &work).await.unwrap();
            if is_stopped {
                say("written");
                let _woken = order();
            }
            say(match tx.commit().await {
                Ok(()) => "committed".to_owned(),
                Err(error) => error.to_string(),
            });
        }
        let _end = order();
        return;
    }
    let (server, database, leases) = lent_setup().await;
    let work = work_of(&database).await;
    let mut worker = Worker::start(NAME, server.uri(), &database);
    // The negative control: a process that is not stopped commits.
    assert_eq!(worker.says().await, "committed");
    assert_eq!(worker.says().await, "written");
    worker.pause();
    let next = soon("the next grant", leases.acquire("a").into_future()).await.unwrap();
    worker.tell("you were stopped").await;
    worker.resume();
    let lost = worker.says().await;
    assert!(lost.starts_with("lease \"a\" is lost: it was not renewed in time"), "{lost}");
    assert_eq!(count(&work).await, 1);
    assert!(next.is_valid());
}

/// While its guard is on its way, its holder is told of a loss. After the commit was sent, only that counts.
#[tokio::test]
async fn a_loss_is_said_only_before_the_commit() {
    let server = lent_server().await;
    // At the same time, because each waits for the end of a lease.
    tokio::join!(commit(&server, "update", true), commit(&server, "commitTransaction", false));
}

/// Commits through a proxy that holds this command up until the lease is lost.
async fn commit(server: &Server, delayed: &str, is_lost: bool) {
    let database = migrated(server).await;
    let work = work_of(&database).await;
    let (proxy, through) = behind_a_proxy(server, &database).await;
    let leases = LeaseManager::builder(&through).build().await.unwrap();
    let lease = leases.acquire("a").ttl(TTL).renew(false).await.unwrap();
    let tx = written(&lease, &transactions::work(&through)).await.unwrap();
    let late = proxy.hold_requests_to(delayed);
    let mut committing = Box::pin(tx.commit());
    tokio::select! {
        result = &mut committing => panic!("{result:?}"),
        () = late.held(1) => {}
    }
    let result = match is_lost {
        // It waits for no answer.
        true => {
            let result = bounded(committing).await;
            late.release();
            result
        }
        false => {
            tokio::select! {
                result = &mut committing => panic!("{result:?}"),
                reason = bounded(lease.lost()) => assert_eq!(reason, LostReason::EndedAsAsked),
            }
            late.release();
            bounded(committing).await
        }
    };
    assert_eq!(matches!(result, Err(Error::Lost { .. })), is_lost, "{delayed}: {result:?}");
    if is_lost {
        // The command that the proxy has delayed commits nothing.
        let next = builder(&database).build().await.unwrap();
        let _next = soon("a grant", next.acquire("a").into_future()).await.unwrap();
    }
    assert_eq!(count(&work).await, u64::from(!is_lost), "{delayed}");
}
