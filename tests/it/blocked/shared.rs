//! A blocked document in which one manager has several permits, and another one several waiting calls.

use mongo_lease::Lease;
use mongo_lease::mongodb::bson::doc;

use super::{setup, transaction_on};
use crate::patience::{joined, soon, until_blocked};
use crate::permits::{all_granted, queued_by};

#[tokio::test]
async fn permits_and_calls_of_a_blocked_name_go_on_when_it_is_free() {
    let setup = setup().await;
    let others = setup.another_manager().await;
    let (mut held, mut calls) = (Vec::new(), Vec::new());
    for _ in 0..3 {
        held.push(setup.leases.semaphore("a", 3).acquire().await.unwrap());
    }
    for _ in 0..3 {
        calls.push(queued_by(&others, |leases| leases.semaphore("a", 3).acquire()).await);
    }
    let mut session = transaction_on(&setup.database, doc! { "name": "a" }).await;
    let renew = |lease: Lease| {
        tokio::spawn(async move {
            lease.renew().await.unwrap();
            lease
        })
    };
    let renewing: Vec<_> = held.into_iter().map(renew).collect();
    until_blocked(&setup.server, &setup.database).await;
    assert!(renewing.iter().all(|renewing| !renewing.is_finished()));
    session.abort_transaction().await.unwrap();
    for lease in joined(renewing).await {
        assert!(lease.is_valid());
        soon("the release of a permit", lease.release()).await.unwrap();
    }
    all_granted(calls).await;
}
