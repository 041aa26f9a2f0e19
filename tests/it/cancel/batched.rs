//! Callers that go while their calls travel in batches: nothing stays held.

use std::time::Duration;

use mongo_lease::LeaseManager;
use mongo_lease::mongodb::Database;
use mongo_lease::mongodb::bson::doc;
use mongo_lease_testbed::FailCommand;
use tokio::task::JoinHandle;

use crate::batches::{CALLS, PendingAcquire, grants_in_oplog, names, start_calls};
use crate::lent::{Proxied, lent_database, proxied};
use crate::patience::{bounded, locks, until, until_nothing_is_left};

async fn until_all_are_granted(database: &Database) {
    let granted = async || (grants_in_oplog(database).await.len() == CALLS).then_some(());
    until("all that was asked for is granted", granted).await;
}

async fn all_go(calls: Vec<PendingAcquire>) {
    calls.iter().for_each(JoinHandle::abort);
    for call in calls {
        let _ended = bounded(call).await;
    }
}

async fn assert_nothing_stays(leases: LeaseManager, database: &Database) {
    assert_eq!(leases.shutdown().await.tasks_left, 0);
    assert_eq!(locks(database).count_documents(doc! {}).await.unwrap(), 0);
}

#[tokio::test]
async fn callers_that_go_behind_a_lost_reply_leave_nothing_behind() {
    let Proxied { _server, database, proxy, slow: leases, .. } = proxied(|builder| builder).await;
    let replies = proxy.hold_replies_to("update");
    let calls = start_calls(&leases, names("lease", CALLS));
    bounded(replies.held(1)).await;
    // Those that were sent alone are granted too before the connections are cut: else they need not be granted at all.
    until_all_are_granted(&database).await;
    all_go(calls).await;
    proxy.cut();
    replies.release();
    until_nothing_is_left(&database).await;
    assert_nothing_stays(leases, &database).await;
}

/// The query fails with an error that, for a write, would mean that it has not happened. The grants have. The query is
/// repeated for as long as an attempt may take. So this test waits for seconds, and stands among the first.
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
    all_go(calls).await;
    until_all_are_granted(&database).await;
    // It is unknown which calls were granted, so all are released.
    until_nothing_is_left(&database).await;
    assert!(failing.disable().await >= 1);
    assert_nothing_stays(asking, &database).await;
}
