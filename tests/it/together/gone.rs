//! Callers that go while their calls travel in batches, and managers that are shut down: nothing stays held.

use std::time::Duration;

use mongo_lease::mongodb::bson::doc;
use mongo_lease::{Error, LeaseManager};
use mongo_lease_testbed::{FailCommand, HoldGuard, Proxy};

use super::{FILLERS, grants_in_oplog, names, start_calls};
use crate::lent::{behind_a_proxy, lent_database, lent_setup};
use crate::patience::{bounded, locks, until, until_nothing_is_left};

const CALLS: usize = 60;

/// All callers go while a message is held back.
async fn gone_while(hold: impl FnOnce(&Proxy) -> HoldGuard, are_sent: bool) {
    let (server, database) = lent_database().await;
    let (proxy, through) = behind_a_proxy(&server, &database).await;
    let leases = LeaseManager::builder(&through).build().await.unwrap();
    let hold = hold(&proxy);
    let calls = start_calls(&leases, names("lease", CALLS));
    bounded(hold.held(1)).await;
    calls.iter().for_each(tokio::task::JoinHandle::abort);
    for call in calls {
        // The first ones were sent alone, and may have been granted: then the lease is dropped here.
        let _ended = bounded(call).await;
    }
    hold.release();
    if are_sent {
        let granted = async || (grants_in_oplog(&database).await.len() == CALLS).then_some(());
        until("all that was asked for is granted", granted).await;
    }
    until_nothing_is_left(&database).await;
    let report = leases.shutdown().await;
    assert_eq!((report.released, report.tasks_left), (0, 0));
    assert_eq!(locks(&database).count_documents(doc! {}).await.unwrap(), 0);
    if !are_sent {
        // The others still waited in the process: they went with their callers.
        let granted = grants_in_oplog(&database).await.len();
        assert!(granted <= FILLERS, "{granted}");
    }
}

#[tokio::test]
async fn calls_dropped_before_their_batch_is_sent_leave_nothing() {
    gone_while(|proxy| proxy.hold_requests_to("findAndModify"), false).await;
}

#[tokio::test]
async fn calls_dropped_while_their_batch_is_on_its_way_leave_nothing() {
    gone_while(|proxy| proxy.hold_requests_to("update"), true).await;
}

#[tokio::test]
async fn calls_dropped_before_their_batch_is_answered_leave_nothing() {
    gone_while(|proxy| proxy.hold_replies_to("update"), true).await;
}

#[tokio::test]
async fn calls_dropped_before_their_grants_are_found_leave_nothing() {
    gone_while(|proxy| proxy.hold_replies_to("find"), true).await;
}

#[tokio::test]
async fn callers_that_go_behind_a_lost_reply_leave_nothing_behind() {
    let (server, database) = lent_database().await;
    let (proxy, through) = behind_a_proxy(&server, &database).await;
    let leases = LeaseManager::builder(&through).build().await.unwrap();
    let replies = proxy.hold_replies_to("update");
    let calls = start_calls(&leases, names("lease", CALLS));
    bounded(replies.held(1)).await;
    // Those that were sent alone are granted too before the connections are cut: else they need not be granted at all.
    let granted = async || (grants_in_oplog(&database).await.len() == CALLS).then_some(());
    until("all that was asked for is granted", granted).await;
    calls.iter().for_each(tokio::task::JoinHandle::abort);
    proxy.cut();
    replies.release();
    for call in calls {
        let _ended = bounded(call).await;
    }
    until_nothing_is_left(&database).await;
    assert_eq!(leases.shutdown().await.tasks_left, 0);
    assert_eq!(locks(&database).count_documents(doc! {}).await.unwrap(), 0);
}

/// The query fails with an error that, for a write, would mean that it has not happened. The grants have.
#[tokio::test]
async fn callers_that_go_before_the_look_fails_leave_nothing_behind() {
    const TEMPORARILY_UNAVAILABLE: i32 = 365;
    let (server, database) = lent_database().await;
    let failing = FailCommand::on(&["find"]).error_code(TEMPORARILY_UNAVAILABLE);
    let failing = failing.block_for(Duration::from_millis(100)).app_name("asking");
    let client = server.client_with(|options| options.app_name = Some("asking".to_owned())).await;
    let asking = LeaseManager::builder(&database.through(&client)).build().await.unwrap();
    let failing = failing.enable(server.uri()).await;
    let calls = start_calls(&asking, names("lease", CALLS));
    failing.wait_times_entered(1).await;
    calls.iter().for_each(tokio::task::JoinHandle::abort);
    for call in calls {
        let _ended = bounded(call).await;
    }
    let granted = async || (grants_in_oplog(&database).await.len() == CALLS).then_some(());
    until("all that was asked for is granted", granted).await;
    // It is unknown which calls were granted, so all are released.
    until_nothing_is_left(&database).await;
    assert!(failing.disable().await >= 1);
    assert_eq!(asking.shutdown().await.tasks_left, 0);
    assert_eq!(locks(&database).count_documents(doc! {}).await.unwrap(), 0);
}

/// Some are under way, others are not sent yet.
#[tokio::test]
async fn a_shutdown_during_a_batch_leaves_no_task_and_nothing_held() {
    let (server, database, leases) = lent_setup().await;
    let slow = FailCommand::on(&["update"]).block_for(Duration::from_secs(1));
    let slow = slow.enable(server.uri()).await;
    let mut calls = start_calls(&leases, names("lease", CALLS));
    slow.wait_times_entered(1).await;
    let later = start_calls(&leases, names("later", CALLS));
    calls.extend(later);
    tokio::task::yield_now().await;
    let report = leases.shutdown().await;
    assert_eq!((report.tasks_left, report.left_to_expire.len()), (0, 0), "{report:?}");
    let mut ended = 0;
    for call in calls {
        match bounded(call).await.unwrap() {
            Err(Error::ShutDown) => ended += 1,
            // It was answered before.
            answer => assert!(answer.unwrap().granted().is_some_and(|lease| !lease.is_valid())),
        }
    }
    assert!(ended >= 2 * (CALLS - FILLERS), "{ended}");
    assert_eq!(locks(&database).count_documents(doc! {}).await.unwrap(), 0);
}
