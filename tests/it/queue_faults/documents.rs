//! Changes of the document, the collection or a transaction while others wait in the queue.

use std::time::Duration;

use mongo_lease::mongodb::bson::{DateTime, doc};
use mongo_lease::{Error, Token, Tuning};
use mongo_lease_testbed::TestDatabase;

use super::crowd::Crowd;
use crate::common::{builder, document, setup};
use crate::lent::lent_setup;
use crate::line::{NEVER, in_line_watching};
use crate::patience::{locks, soon, until, until_nothing_is_left};
use crate::transactions::make_it_guard_first;

const LIFE: Duration = Duration::from_secs(5);

async fn assert_served_soon(database: &TestDatabase, crowd: Crowd, before: Token) {
    soon("all are served", crowd.all_served(before)).await;
    until_nothing_is_left(database).await;
}

/// An operator, for example, sets the expiry of a lease back, and no waiter knows of it. The TTL monitor removes the
/// document, and the queue with it.
#[tokio::test]
async fn all_waiters_are_served_after_the_ttl_monitor_drops_the_queue() {
    // Its TTL monitor runs every second.
    let (database, leases) = setup().await;
    let key = leases.acquire("a").await.unwrap().detach().await.unwrap();
    let tuning = Tuning::default().waiter_ttl(LIFE);
    let crowd = Crowd::of(6, &builder(&database).tuning(tuning)).await;
    let past = DateTime::from_millis(DateTime::now().timestamp_millis() - 1_000);
    let filter = doc! { "name": "a", "value": key.value(), "queue.5": { "$exists": true } };
    let expire = doc! { "$set": { "expiresAt": past } };
    assert_eq!(locks(&database).update_one(filter, expire).await.unwrap().modified_count, 1);
    let gone = async || {
        let found = document(&database, "a").await;
        let by_us = found.as_ref().is_some_and(|it| it.get_str("value").ok() != Some(key.value()));
        assert!(!by_us, "somebody was quicker than the monitor: {found:?}");
        found.is_none().then_some(())
    };
    until("the server has removed the document", gone).await;
    assert_served_soon(&database, crowd, key.token()).await;
}

#[tokio::test]
async fn who_waits_is_told_when_collection_or_index_is_dropped() {
    for (dropped, recheck_every) in [("collection", NEVER), ("index", Duration::from_secs(1))] {
        let (_server, database, holder) = lent_setup().await;
        let _lease = holder.acquire("a").await.unwrap();
        let tuning = Tuning::default().waiter_ttl(LIFE).recheck_every(recheck_every);
        let leases = builder(&database).tuning(tuning).build().await.unwrap();
        let waiting = in_line_watching(&leases, leases.acquire("a").wait_forever()).await;
        match dropped {
            "collection" => locks(&database).drop().await.unwrap(),
            _ => locks(&database).drop_index("name_1").await.unwrap(),
        }
        let answer = soon(&format!("an answer without {dropped}"), waiting).await;
        let error = answer.unwrap().unwrap_err();
        assert!(matches!(error, Error::NotMigrated { .. }), "{dropped}: {error}");
    }
}

/// Its entries expire meanwhile, and the waiters join again.
#[tokio::test]
async fn all_waiters_are_served_after_a_transaction_outlives_entries() {
    let (_server, database, holder) = lent_setup().await;
    let lease = holder.acquire("a").await.unwrap();
    let before = lease.token().unwrap();
    let tuning = Tuning::default().waiter_ttl(LIFE);
    let crowd = Crowd::of(6, &builder(&database).tuning(tuning)).await;
    make_it_guard_first(&lease, &database).await;
    let tx = lease.transaction().await.unwrap();
    let dead = async || {
        let alive = doc! { "queue.expiresAt": { "$gt": DateTime::now() } };
        locks(&database).find_one(alive).await.unwrap().is_none().then_some(())
    };
    until("all entries are dead", dead).await;
    tx.commit().await.unwrap();
    lease.release().await.unwrap();
    assert_served_soon(&database, crowd, before).await;
}
