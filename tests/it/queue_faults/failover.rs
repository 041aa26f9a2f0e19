//! Three nodes, of which the primary steps down, dies or stops while others wait in the queue.

use mongo_lease::{LeaseManager, Tuning};
use mongo_lease_testbed::ReplicaSet;

use super::crowd::Crowd;
use crate::common::{builder, short_or_long};
use crate::lent::lent_set;
use crate::loss::{attentive, attentive_database};
use crate::patience::{MUCH_PATIENCE, until_nothing_is_left};

/// Six are in the queue, or twenty, each with a manager and a client of its own. The primary has the fault during the
/// hand-offs: after `served` of them, or together with the first release if that is 0.
async fn all_are_served_in_order(served: usize, fault: impl AsyncFnOnce(&ReplicaSet, usize)) {
    let set = lent_set().await;
    let database = attentive_database(&set).await;
    let leases = builder(&database).build().await.unwrap();
    let lease = leases.acquire("a").ttl(2 * MUCH_PATIENCE).await.unwrap();
    let before = lease.token().unwrap();
    let mut crowd = Crowd::default();
    // After an election a client may need half a minute on a busy machine, and nobody loses its place meanwhile.
    let tuning = Tuning::default().waiter_ttl(MUCH_PATIENCE);
    for _ in 0..short_or_long(6, 20) {
        let own = database.through(&set.client_with(attentive).await);
        crowd.join(LeaseManager::builder(&own).tuning(tuning.clone()).build().await.unwrap()).await;
    }
    let primary = set.primary().await;
    let fault = async {
        crowd.served(served).await;
        fault(&set, primary).await;
    };
    // The fault first, so that the release meets it.
    let ((), _confirmed) = tokio::join!(fault, lease.release());
    crowd.all_served_in_order(before).await;
    until_nothing_is_left(&database).await;
}

#[tokio::test]
async fn waiters_are_served_in_order_after_a_step_down() {
    all_are_served_in_order(0, async |set, _| _ = set.step_down().await).await;
}

#[tokio::test]
async fn waiters_are_served_in_order_if_a_primary_dies_between() {
    all_are_served_in_order(3, async |set, primary| set.node(primary).kill()).await;
}

/// The old primary wakes when another is primary, and believes for a moment that it still is.
#[tokio::test]
async fn waiters_are_served_in_order_when_the_primary_resumes() {
    let stop_and_go_on = async |set: &ReplicaSet, primary| {
        set.node(primary).pause();
        set.wait_for_primary_other_than(primary).await;
        set.node(primary).resume();
    };
    all_are_served_in_order(0, stop_and_go_on).await;
}
