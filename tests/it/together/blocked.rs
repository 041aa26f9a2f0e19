//! One lease's document in somebody's transaction, and the cost for the others of its batch.

use std::time::{Duration, Instant};

use mongo_lease::mongodb::ClientSession;
use mongo_lease::mongodb::bson::{Bson, Document, doc};
use mongo_lease::{LeaseManager, Tuning};
use mongo_lease_testbed::TestDatabase;

use super::{FILLERS, granted, names, start_calls};
use crate::lent::{LentServer, lent_database};
use crate::patience::{bounded, locks, until, until_blocked};

struct Setup {
    server: LentServer,
    database: TestDatabase,
    leases: LeaseManager,
    session: ClientSession,
}

/// Leases that are free, and that nobody can acquire before the transaction ends.
async fn setup(attempt: Duration, blocked: &[String]) -> Setup {
    let (server, database) = lent_database().await;
    let own = database.through(&server.client().await);
    let leases = LeaseManager::builder(&own).ttl(Duration::from_secs(60));
    let leases = leases.tuning(Tuning::default().attempt_timeout(attempt)).build().await.unwrap();
    let free = |name: &String| doc! { "name": name, "value": "gone", "expiresAt": Bson::Null };
    let free: Vec<Document> = blocked.iter().map(free).collect();
    locks(&database).insert_many(free).await.unwrap();
    let mut session = database.client().start_session().await.unwrap();
    session.start_transaction().await.unwrap();
    let touch = doc! { "$set": { "touched": true } };
    let touched = locks(&database).update_many(doc! {}, touch).session(&mut session).await;
    assert_eq!(touched.unwrap().modified_count, blocked.len() as u64);
    Setup { server, database, leases, session }
}

#[tokio::test]
async fn a_blocked_statement_delays_the_others_by_at_most_an_attempt() {
    const ATTEMPT: Duration = Duration::from_secs(3);
    let blocked = names("blocked", 1);
    let Setup { server, database, leases, mut session } = setup(ATTEMPT, &blocked).await;
    let before = server.command_counts().await;
    let started = Instant::now();
    let fillers = start_calls(&leases, names("filler", FILLERS));
    let before_it = start_calls(&leases, names("before", 10));
    let acquire = leases.acquire(&*blocked[0]);
    let blocked = tokio::spawn(async move { acquire.await });
    let behind_it = start_calls(&leases, names("behind", 10));
    until_blocked(&server, &database).await;
    let _held = granted(fillers.into_iter().chain(before_it).chain(behind_it).collect()).await;
    let took = started.elapsed();
    assert!(took < ATTEMPT * 4, "{took:?}");
    assert!(!blocked.is_finished(), "the transaction was too short");
    // Some of them were in one command.
    assert!(server.command_counts().await.since(&before).update > 0);
    session.abort_transaction().await.unwrap();
    assert!(bounded(blocked).await.unwrap().unwrap().is_valid());
}

/// As many commands hang as may be under way, each for longer than all this takes.
#[tokio::test]
async fn who_comes_later_does_not_wait_for_commands_that_stand_still() {
    const ATTEMPT: Duration = Duration::from_secs(15);
    // Fewer than there are connections.
    let blocked = names("blocked", 4);
    let Setup { server, leases, mut session, .. } = setup(ATTEMPT, &blocked).await;
    let before = server.command_counts().await;
    let started = Instant::now();
    let standing = start_calls(&leases, &blocked);
    let all_have_gone = async || {
        let counts = server.command_counts().await.since(&before);
        (counts.update > 0 || counts.find_and_modify >= 4).then_some(())
    };
    until("all of them have gone", all_have_gone).await;
    let _held = granted(start_calls(&leases, names("later", 50))).await;
    let took = started.elapsed();
    assert!(took < ATTEMPT / 3, "{took:?}");
    assert!(standing.iter().all(|call| !call.is_finished()), "they have not stood still");
    session.abort_transaction().await.unwrap();
    assert_eq!(granted(standing).await.len(), blocked.len());
}
