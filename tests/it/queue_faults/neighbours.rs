//! Another program keeps its locks in the same collection, and does not know of queues.

use std::time::{Duration, Instant};

use mongo_lease::{LeaseManager, Token};
use mongo_lease_testbed::{FailCommand, Server, TestDatabase};

use super::crowd::{Crowd, assert_tokens_rise};
use crate::common::{SHORT_TTL, builder, document, migrated};
use crate::lent::{LentServer, lent_database};
use crate::patience::{PATIENCE, soon, until, until_nothing_is_left};
use crate::recipe::{Flavour, Recipe};

const WAITERS: usize = 6;
const LONG: Duration = Duration::from_secs(60);

/// It deletes the document at its end, and the queue with it.
#[tokio::test]
async fn all_waiters_are_served_after_a_foreign_release_by_delete() {
    let database = migrated(Server::shared()).await;
    let recipe = Recipe::new(&database, Flavour::Correct);
    let theirs = recipe.lock("a", LONG).await.expect("it is free");
    let mut crowd = Crowd::new("a", PATIENCE);
    for _ in 0..WAITERS {
        crowd.join(builder(&database).build().await.unwrap()).await;
    }
    let started = Instant::now();
    assert!(recipe.unlock("a", &theirs).await);
    let turns = crowd.all_served().await;
    let first = turns[0].at - started;
    let last = turns[WAITERS - 1].at - started;
    let order: Vec<_> = turns.iter().map(|turn| turn.number).collect();
    eprintln!("served between {first:?} and {last:?} behind the release, in the order {order:?}");
    assert_tokens_rise(turns[0].token, &turns[1..]);
    until_nothing_is_left(&database).await;
}

/// Our waiters' requests are slow just when the holder's lease expires: the other program takes it.
struct Barged {
    _server: LentServer,
    database: TestDatabase,
    recipe: Recipe,
    crowd: Crowd,
    theirs: String,
    before: Token,
}

async fn barged(their_ttl: Duration) -> Barged {
    let (server, database) = lent_database().await;
    let recipe = Recipe::new(&database, Flavour::Correct);
    let leases = builder(&database).max_clock_skew(Duration::ZERO).build().await.unwrap();
    let ours = server.client_with(|options| options.app_name = Some("ours".to_owned())).await;
    let ours = database.through(&ours);
    let lost = leases.acquire("a").ttl(Duration::from_secs(2)).renew(false).await.unwrap();
    let before = lost.token().unwrap();
    let mut crowd = Crowd::new("a", PATIENCE);
    for _ in 0..WAITERS {
        crowd.join(LeaseManager::builder(&ours).build().await.unwrap()).await;
    }
    let slow = FailCommand::on(&["findAndModify"]).app_name("ours").block_for(SHORT_TTL / 2);
    let slow = slow.enable(server.uri()).await;
    let theirs = until("it is theirs", async || recipe.lock("a", their_ttl).await).await;
    slow.disable().await;
    let waiting = document(&database, "a").await.unwrap();
    assert_eq!(waiting.get_array("queue").unwrap().len(), WAITERS, "they have barged past all");
    Barged { _server: server, database, recipe, crowd, theirs, before }
}

/// It deletes the document at its end, and our queue with it.
#[tokio::test]
async fn all_waiters_are_served_when_a_foreign_program_barges() {
    let Barged { _server, database, recipe, crowd, theirs, before } = barged(LONG).await;
    let started = Instant::now();
    assert!(recipe.unlock("a", &theirs).await);
    let turns = crowd.all_served().await;
    eprintln!("all were served in {:?}", started.elapsed());
    assert_tokens_rise(before, &turns);
    until_nothing_is_left(&database).await;
}

/// It dies, and leaves the queue as it was: newcomers without waiting do not come first either.
#[tokio::test]
async fn waiters_are_served_in_order_when_a_foreign_barger_dies() {
    let Barged { _server, database, crowd, before, .. } = barged(SHORT_TTL).await;
    let hasty = builder(&database).build().await.unwrap();
    let barging = tokio::spawn(async move {
        loop {
            if let Some(lease) = hasty.try_acquire("a").await.unwrap().granted() {
                return lease;
            }
        }
    });
    let started = Instant::now();
    let turns = crowd.all_served_in_order(before).await;
    eprintln!("all were served in {:?}", started.elapsed());
    let last = soon("a grant to the hasty one", barging).await.unwrap();
    assert!(last.token().unwrap() > turns[WAITERS - 1].token, "it has barged past the queue");
    last.release().await.unwrap();
    until_nothing_is_left(&database).await;
}
