//! Its test takes the longest of all here. So it stands first, by the name of its module.

use mongo_lease_testbed::ReplicaSet;
use mongodb::bson::{Document, doc};

#[tokio::test]
async fn three_nodes_fail_over_on_a_kill_and_on_a_step_down() {
    let set = ReplicaSet::start();
    let database = set.database().await;
    let leases = database.collection::<Document>("leases");
    leases.insert_one(doc! { "_id": "before" }).await.unwrap();

    let killed = set.primary().await;
    set.node(killed).kill();
    let second = set.wait_for_primary_other_than(killed).await;
    leases.insert_one(doc! { "_id": "without" }).await.unwrap();
    set.restart(killed).await;

    assert_eq!(set.step_down().await, second);
    set.wait_for_primary_other_than(second).await;
    leases.insert_one(doc! { "_id": "after" }).await.unwrap();
    assert_eq!(leases.count_documents(doc! {}).await.unwrap(), 3);
}
