//! The primary steps down while both programs hold a lock.

use mongo_lease::{Attempt, Released};
use mongo_lease_testbed::ReplicaSet;

use crate::common::{LONG_TTL, builder};
use crate::neighbour::{Character, Neighbour, ONCE};

#[tokio::test]
async fn each_refuses_across_a_failover_what_the_other_holds_and_has_it_after_a_release() {
    let set = tokio::task::spawn_blocking(ReplicaSet::start).await.unwrap();
    let database = set.database().await;
    let leases = builder(&database).ensure_indexes(true).build().await.unwrap();
    let mongoose = Neighbour::start_at(&set.uri(), database.name(), Character::default()).await;
    let lease = leases.acquire("ours").ttl(LONG_TTL).await.unwrap();
    let theirs = mongoose.lock("theirs", ONCE).await.expect("it is free");

    set.step_down().await;
    assert_eq!(mongoose.lock("ours", ONCE).await, None);
    let Attempt::Busy(held) = leases.try_acquire("theirs").await.unwrap() else {
        panic!("granted what Mongoose holds");
    };
    assert_eq!((held.value.as_ref(), held.owner), (Some(&theirs), None));
    lease.renew().await.unwrap();

    assert!(!mongoose.release("ours", &theirs).await, "it is another's");
    assert_eq!(lease.release().await.unwrap(), Released::Released);
    assert!(mongoose.lock("ours", ONCE).await.is_some());
    assert!(mongoose.release("theirs", &theirs).await);
    assert!(leases.try_acquire("theirs").await.unwrap().granted().is_some());
}
