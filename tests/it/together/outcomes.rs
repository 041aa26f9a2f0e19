//! The results of many calls at once.

use std::collections::{HashMap, HashSet};

use mongo_lease::mongodb::bson::doc;
use mongo_lease::{Attempt, Lease};

use super::{
    CONTESTED, GrantRecord, RIVALS, answer, assert_in_order, granted, names, start_calls,
    start_contest,
};
use crate::blocked::start_releases;
use crate::common::{assert_done, builder, patient};
use crate::lent::lent_database;
use crate::patience::{joined, locks};

#[tokio::test]
async fn two_hundred_leases_at_once_are_granted_in_order_and_released() {
    let (_server, database) = lent_database().await;
    let leases = patient(builder(&database)).build().await.unwrap();
    let held = granted(start_calls(&leases, names("lease", 200))).await;
    assert!(held.iter().all(Lease::is_valid));
    let told: Vec<_> = held.iter().map(GrantRecord::of).collect();
    assert_eq!(told.iter().map(|told| &told.value).collect::<HashSet<_>>().len(), 200);
    assert_in_order(&database, &told).await;
    assert_eq!(locks(&database).count_documents(doc! {}).await.unwrap(), 200);
    for released in joined(start_releases(held)).await {
        assert_done(released.unwrap(), "one of two hundred");
    }
    assert_eq!(locks(&database).count_documents(doc! {}).await.unwrap(), 0);
}

#[tokio::test]
async fn one_of_many_calls_for_a_lease_is_granted_and_others_see_it() {
    let (server, database) = lent_database().await;
    let (mut granted, mut busy) = (HashMap::new(), Vec::new());
    for call in start_contest(&server, &database).await {
        match answer(call).await {
            Attempt::Granted(lease) => {
                let twice = granted.insert(lease.name().to_owned(), lease);
                assert!(twice.is_none(), "granted twice: {twice:?}");
            }
            Attempt::Busy(held) => busy.push(held),
        }
    }
    assert_eq!((granted.len(), busy.len()), (CONTESTED, CONTESTED * (2 * RIVALS - 1)));
    for held in busy {
        assert_eq!(held.value.as_deref(), Some(granted[&held.name].value()), "{held:?}");
    }
    let told: Vec<_> = granted.values().map(GrantRecord::of).collect();
    assert_in_order(&database, &told).await;
}
