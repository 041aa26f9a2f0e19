//! Another program keeps its locks in the same collection, and does not know of queues.

use std::time::Duration;

use mongo_lease::LeaseManager;
use mongo_lease_testbed::FailCommand;

use super::crowd::Crowd;
use crate::common::{builder, setup};
use crate::lent::lent_database;
use crate::line::line_of;
use crate::patience::{soon, until, until_nothing_is_left};
use crate::recipe::{Flavour, Recipe};

const WAITERS: usize = 6;
/// The other program locks for this long. Our attempts are blocked for as long, so that its own is first.
const THEIR_TTL: Duration = Duration::from_secs(5);

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

/// It takes the lease just when the holder's expires, because our waiters' requests take as long as it then holds. Then
/// it dies, and leaves the queue as it was: newcomers without waiting do not come first either.
#[tokio::test]
async fn waiters_are_served_in_order_when_a_foreign_barger_dies() {
    let (server, database) = lent_database().await;
    let recipe = Recipe::new(&database, Flavour::Correct);
    let leases = builder(&database).max_clock_skew(Duration::ZERO).build().await.unwrap();
    let ours = server.client_with(|options| options.app_name = Some("ours".to_owned())).await;
    let lost = leases.acquire("a").ttl(Duration::from_secs(15)).renew(false).await.unwrap();
    let before = lost.token().unwrap();
    let crowd = Crowd::of(WAITERS, &LeaseManager::builder(&database.through(&ours))).await;
    let slow = FailCommand::on(&["findAndModify"]).app_name("ours").block_for(THEIR_TTL);
    let slow = slow.enable(server.uri()).await;
    let theirs = async || recipe.lock("a", THEIR_TTL).await;
    let _theirs = until("it is theirs", theirs).await;
    assert_eq!(line_of(&database, "a").await.len(), WAITERS, "it has barged past all");
    // It returns when no command is blocked any more, and theirs may have expired by then.
    slow.disable().await;

    let barging = tokio::spawn(async move {
        loop {
            if let Some(lease) = leases.try_acquire("a").await.unwrap().granted() {
                return lease;
            }
        }
    });
    let turns = crowd.all_served_in_order(before).await;
    let last = soon("a grant to the hasty one", barging).await.unwrap();
    assert!(last.token().unwrap() > turns[WAITERS - 1].token, "it has barged past the queue");
    last.release().await.unwrap();
    until_nothing_is_left(&database).await;
}
