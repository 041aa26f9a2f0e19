//! Another program keeps its locks in the same collection, and does not know of queues.

use std::time::Duration;

use mongo_lease::Tuning;
use mongo_lease::mongodb::bson::{DateTime, doc};

use super::crowd::Crowd;
use crate::common::{builder, setup};
use crate::lent::lent_database;
use crate::line::line_of;
use crate::patience::{MUCH_PATIENCE, locks, until, until_nothing_is_left};
use crate::recipe::{Flavour, Recipe};

const WAITERS: usize = 6;
/// The other program locks for this long.
const THEIR_TTL: Duration = Duration::from_secs(4);

/// It deletes the document at its end, and the queue with it.
#[tokio::test]
async fn all_waiters_are_served_after_a_foreign_release_by_delete() {
    let (database, leases) = setup().await;
    let lease = leases.acquire("a").await.unwrap();
    let before = lease.token().unwrap();
    lease.release().await.unwrap();
    let recipe = Recipe::new(&database, Flavour::Correct);
    let theirs = recipe.lock("a", Duration::from_secs(60)).await.expect("it is free");
    let crowd = Crowd::of(WAITERS, &builder(&database)).await;
    assert!(recipe.unlock("a", &theirs).await);
    crowd.all_served(before).await;
    until_nothing_is_left(&database).await;
}

/// It takes the lease just when the holder's expires: earlier than our waiters expect, because an operator sets that
/// back. Then it dies, and leaves the queue as it was: newcomers without waiting do not come first either.
#[tokio::test]
async fn waiters_are_served_in_order_when_a_foreign_barger_dies() {
    let (_server, database) = lent_database().await;
    let recipe = Recipe::new(&database, Flavour::Correct);
    let leases = builder(&database).max_clock_skew(Duration::ZERO).build().await.unwrap();
    let lost = leases.acquire("a").ttl(MUCH_PATIENCE).renew(false).await.unwrap();
    let before = lost.token().unwrap();
    // They look again now and then, and no earlier than in this time after they have come.
    let tuning = Tuning::default().recheck_every(THEIR_TTL * 3 / 2);
    let crowd = Crowd::of(WAITERS, &builder(&database).tuning(tuning)).await;
    let past = DateTime::from_millis(DateTime::now().timestamp_millis() - 1_000);
    let expire = doc! { "$set": { "expiresAt": past } };
    locks(&database).update_one(doc! { "name": "a" }, expire).await.unwrap();
    let _theirs = recipe.lock("a", THEIR_TTL).await.expect("it has barged past all");
    assert_eq!(line_of(&database, "a").await.len(), WAITERS, "it has barged past all");

    let barging = async || leases.try_acquire("a").await.unwrap().granted();
    let barging = until("a grant to the hasty one", barging);
    let (turns, last) = tokio::join!(crowd.all_served_in_order(before), barging);
    assert!(last.token().unwrap() > turns[WAITERS - 1].token, "it has barged past the queue");
    last.release().await.unwrap();
    until_nothing_is_left(&database).await;
}
