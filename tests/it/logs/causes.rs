//! One cause is one line.

use std::time::Duration;

use mongo_lease::mongodb::bson::{Document, doc};
use mongo_lease::{
    CommandKind, Election, Error, LeaseManager, MemoryFault, MemoryStore, Released, Tuning,
};
use mongo_lease_testbed::{FailCommand, Server};

use super::{Lines, alone};
use crate::common::{builder, migrated, setup};
use crate::patience::{MUCH_PATIENCE, bounded};
use crate::permits::queued_by;

/// The fault is for a client of this name alone: the server is shared.
const FAULTY: &str = "mongo-lease-unknown-code";

#[tokio::test]
async fn a_code_that_nobody_knows_is_logged_once() {
    let test = "causes::a_code_that_nobody_knows_is_logged_once";
    let Some((lines, _guard)) = alone(test, Lines::default()).await else { return };
    let server = Server::shared();
    let database = migrated(server).await;
    let named = server.client_with(|options| options.app_name = Some(FAULTY.to_owned())).await;
    let leases = LeaseManager::builder(&database.through(&named)).build().await.unwrap();
    let failing = FailCommand::on(&["findAndModify", "update"]).error_code(14_031);
    let _failing = failing.app_name(FAULTY).enable(server.uri()).await;
    let wait = Duration::from_millis(500);
    let calls = (0..10).map(|number| leases.acquire(number.to_string()).wait(wait).into_future());
    for ended in futures_util::future::join_all(calls).await {
        ended.unwrap_err();
    }
    let warned = lines.taken_with("event WARN");
    assert_eq!(warned.len(), 1, "{warned:#?}");
    assert!(warned[0].contains("db.response.status_code=14031"), "{warned:#?}");
}

#[tokio::test(start_paused = true)]
async fn a_refused_renewal_of_many_leases_is_one_line_and_few_commands() {
    const LEASES: usize = 300;
    let test = "causes::a_refused_renewal_of_many_leases_is_one_line_and_few_commands";
    let Some((lines, _guard)) = alone(test, Lines::default()).await else { return };
    let store = MemoryStore::new();
    let leases = LeaseManager::in_memory(&store).build().await.unwrap();
    let acquire = |number: usize| leases.acquire(number.to_string()).into_future();
    let held = futures_util::future::try_join_all((0..LEASES).map(acquire)).await.unwrap();
    for _ in 0..1_000 {
        store.fail_next(CommandKind::Renew, MemoryFault::Refused);
    }
    for lease in &held {
        // It was refused, and not out of reach.
        let reason = bounded(lease.lost()).await.to_string();
        assert!(reason.contains("the last error: the database failed: "), "{reason}");
    }
    let commands = 1_000 - store.faults_left();
    let lines = lines.taken();
    let of = |start: &str| lines.iter().filter(|line| line.starts_with(start)).count();
    assert_eq!((of("event WARN"), of("event ERROR")), (commands, LEASES), "{:#?}", &lines[..50]);
    assert!((3..=30).contains(&commands), "{commands}");
    let is_whole = |line: &&String| line.contains(&format!("leases={LEASES} "));
    assert_eq!(lines.iter().filter(is_whole).count(), commands);
}

/// The work that the loss ends, and every call after it, give their errors to the caller.
#[tokio::test(start_paused = true)]
async fn a_loss_is_one_line_whatever_calls_learn_of_it() {
    let test = "causes::a_loss_is_one_line_whatever_calls_learn_of_it";
    let Some((lines, _guard)) = alone(test, Lines::default()).await else { return };
    let store = MemoryStore::new();
    let leases = LeaseManager::in_memory(&store).build().await.unwrap();
    let held = leases.acquire("held").await.unwrap();
    let (worked, (), ()) = tokio::join!(
        leases.with_lease("worked", async |_| std::future::pending::<()>().await),
        async {
            assert!(held.run(std::future::pending::<()>()).await.is_err());
            assert!(held.check().is_err() && held.renew().await.is_err());
            let _not_held = held.release().await;
        },
        async {
            crate::patience::pass(Duration::from_secs(1)).await;
            store.advance(Duration::from_secs(60));
        }
    );
    assert!(worked.is_err(), "it was lost");
    let lines = lines.taken();
    let errors: Vec<_> = lines.iter().filter(|line| line.starts_with("event ERROR")).collect();
    assert_eq!(errors.len(), 2, "{errors:#?}");
    let warned = lines.iter().filter(|line| line.starts_with("event WARN"));
    assert_eq!(warned.count(), 0, "{lines:#?}");
}

/// Each release deletes its document then.
#[tokio::test]
async fn a_collection_that_refuses_tombstones_is_named_once() {
    let test = "causes::a_collection_that_refuses_tombstones_is_named_once";
    let Some((lines, _guard)) = alone(test, Lines::default()).await else { return };
    let database = migrated(Server::shared()).await;
    let no_tombstones = doc! { "value": { "not": { "pattern": "^released:" } } };
    let schema = doc! { "$jsonSchema": { "properties": no_tombstones } };
    database.run_command(doc! { "collMod": "locks", "validator": schema }).await.unwrap();
    let leases = builder(&database).tombstones(true).build().await.unwrap();
    for name in ["a", "b", "c"] {
        let lease = leases.acquire(name).await.unwrap();
        assert_eq!(lease.release().await.unwrap(), Released::Released);
    }
    let warned = lines.taken_with("event WARN");
    assert_eq!(warned.len(), 1, "{warned:#?}");
    assert!(warned[0].contains("the collection refuses tombstones"), "{warned:#?}");
}

#[tokio::test]
async fn a_transaction_that_blocks_a_lease_is_logged_once() {
    let test = "causes::a_transaction_that_blocks_a_lease_is_logged_once";
    let Some((lines, _guard)) = alone(test, Lines::default()).await else { return };
    let (database, leases) = setup().await;
    let (held, waited) = (leases.acquire("held"), leases.acquire("waited"));
    let lease = held.ttl(Duration::from_secs(4)).await.unwrap();
    let mut session = database.client().start_session().await.unwrap();
    session.start_transaction().await.unwrap();
    let locks = database.collection::<Document>("locks");
    let touched = locks.update_many(doc! {}, doc! { "$set": { "by": "a transaction" } });
    touched.session(&mut session).await.unwrap();
    let reason = bounded(lease.lost()).await;
    drop(waited);
    session.abort_transaction().await.unwrap();
    let warned = lines.taken_with("event WARN");
    let warned: Vec<_> = warned.iter().filter(|it| !it.contains("change stream")).collect();
    assert_eq!(warned.len(), 1, "{reason}: {warned:#?}");
    assert!(warned[0].contains("a transaction has blocked lease \"held\" for"), "{warned:#?}");
}

/// Several are cut off while the call waits.
#[tokio::test]
async fn a_transaction_that_blocks_heartbeats_is_logged_once() {
    let test = "causes::a_transaction_that_blocks_heartbeats_is_logged_once";
    let Some((lines, _guard)) = alone(test, Lines::default()).await else { return };
    let (database, _) = setup().await;
    let holder = builder(&database).ttl(2 * MUCH_PATIENCE).build().await.unwrap();
    let _held = holder.acquire("held").await.unwrap();
    let tuning = Tuning::default().waiter_ttl(Duration::from_secs(5));
    let waiter = builder(&database).tuning(tuning).build().await.unwrap();
    let wait = Duration::from_secs(7);
    let waiting = queued_by(&waiter, |waiter| waiter.acquire("held").wait(wait)).await;
    let mut session = database.client().start_session().await.unwrap();
    session.start_transaction().await.unwrap();
    let locks = database.collection::<Document>("locks");
    let touched = locks.update_many(doc! {}, doc! { "$set": { "by": "a transaction" } });
    touched.session(&mut session).await.unwrap();
    let ended = bounded(waiting).await.unwrap();
    session.abort_transaction().await.unwrap();
    assert!(matches!(ended, Err(Error::WaitTimeout { .. })), "{ended:?}");
    let warned = lines.taken_with("event WARN");
    let warned: Vec<_> = warned.iter().filter(|it| !it.contains("change stream")).collect();
    let of_the_cause = |it: &&&String| it.contains("a transaction has blocked lease \"held\" for");
    assert_eq!(warned.iter().filter(of_the_cause).count(), 1, "{warned:#?}");
    // A busy machine's server says too late that it has cut a heartbeat off.
    assert!(warned.iter().all(|it| it.contains("lease.name=\"held\"")), "{warned:#?}");
}

#[tokio::test(start_paused = true)]
async fn the_begin_and_the_end_of_a_term_are_told() {
    let test = "causes::the_begin_and_the_end_of_a_term_are_told";
    let Some((lines, _guard)) = alone(test, Lines::default()).await else { return };
    let store = MemoryStore::new();
    let leases = LeaseManager::in_memory(&store).build().await.unwrap();
    let election = Election::new(&leases, "leader");
    let told = || lines.taken_with("event INFO message=");
    let during = election.run(async |_| told()).await.unwrap();
    let ended = told();
    for (told, what) in [(during, "begins"), (ended, "ceases")] {
        assert!(
            told.len() == 1 && told[0].contains(&format!("this process {what} to lead")),
            "{told:?}"
        );
        assert!(told[0].contains("lease.name=\"leader\""), "{told:?}");
    }
}
