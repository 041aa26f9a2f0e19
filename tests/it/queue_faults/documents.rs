//! Changes of the document, the collection or a transaction while others wait in the queue.

use std::time::{Duration, Instant};

use mongo_lease::mongodb::bson::{DateTime, Document, doc};
use mongo_lease::mongodb::options::UpdateModifications;
use mongo_lease::{Error, LeaseManager, Tuning};
use mongo_lease_testbed::{Server, TestDatabase};

use super::crowd::{Crowd, assert_tokens_rise, queued};
use crate::common::{builder, document, migrated};
use crate::lent::lent_database;
use crate::patience::{
    BUSY_MACHINE, Listener, PATIENCE, locks, soon, until, until_nothing_is_left,
};

const WAITERS: usize = 6;
const LIFE: Duration = Duration::from_secs(3);

/// Lets each waiter join, in a manager of its own.
async fn join_all_of(database: &TestDatabase, crowd: &mut Crowd, waiter_ttl: Duration) {
    for _ in 0..WAITERS {
        let waiter = builder(database).tuning(Tuning::default().waiter_ttl(waiter_ttl));
        crowd.join(waiter.build().await.unwrap()).await;
    }
}

/// An operator, for example, sets the expiry of a lease back, and no waiter knows of it. The TTL monitor removes the
/// document, and the queue with it.
#[tokio::test]
async fn all_waiters_are_served_after_the_ttl_monitor_drops_the_queue() {
    let server = Server::builder().ttl_monitor_sleep_secs(1).start();
    let database = migrated(&server).await;
    let leases = builder(&database).build().await.unwrap();
    let key = leases.acquire("a").await.unwrap().detach().await.unwrap();
    let mut crowd = Crowd::new("a", PATIENCE);
    join_all_of(&database, &mut crowd, LIFE).await;
    let past = DateTime::from_millis(DateTime::now().timestamp_millis() - 1_000);
    let filter = doc! { "name": "a", "value": key.value(), "queue.5": { "$exists": true } };
    let expire = UpdateModifications::Document(doc! { "$set": { "expiresAt": past } });
    assert_eq!(locks(&database).update_one(filter, expire).await.unwrap().modified_count, 1);
    let gone = async || {
        let found = document(&database, "a").await;
        let by_us = found.as_ref().is_some_and(|it| it.get_str("value").ok() != Some(key.value()));
        assert!(!by_us, "somebody was quicker than the monitor: {found:?}");
        found.is_none().then_some(())
    };
    until("the server has removed the document", gone).await;
    let started = Instant::now();
    let turns = crowd.all_served().await;
    let took = started.elapsed();
    eprintln!("all were served within {took:?} of the removal");
    assert_tokens_rise(key.token(), &turns);
    assert!(took < LIFE + BUSY_MACHINE, "{took:?}");
    until_nothing_is_left(&database).await;
}

/// The error of a waiter whose collection, or index, has gone.
async fn told_when(recheck_every: Duration, gone: impl AsyncFnOnce(&TestDatabase)) {
    let (_server, database) = lent_database().await;
    let holder = builder(&database).build().await.unwrap();
    let lease = holder.acquire("a").await.unwrap();
    let leases = builder(&database)
        .tuning(Tuning::default().waiter_ttl(LIFE).recheck_every(recheck_every))
        .build()
        .await
        .unwrap();
    let mut events = Listener::of(&leases);
    let waiting = tokio::spawn(leases.acquire("a").wait_forever().into_future());
    queued(&mut events).await;
    events.watching().await;
    let started = Instant::now();
    gone(&database).await;
    let error = soon("an answer", waiting).await.unwrap().unwrap_err();
    let took = started.elapsed();
    eprintln!("{took:?}: {error}");
    assert!(matches!(error, Error::NotMigrated { .. }), "{error}");
    drop(lease);
}

#[tokio::test]
async fn who_waits_is_told_when_the_collection_is_dropped() {
    let hour = Duration::from_secs(3600);
    told_when(hour, async |database| locks(database).drop().await.unwrap()).await;
}

#[tokio::test]
async fn who_waits_is_told_when_the_index_is_dropped() {
    let dropped = async |database: &TestDatabase| {
        locks(database).drop_index("name_1").await.unwrap();
    };
    told_when(Duration::from_secs(1), dropped).await;
}

/// The end of the waiter's entry in this lease's queue.
async fn entry_ends(database: &TestDatabase, name: &str) -> DateTime {
    let found = document(database, name).await.unwrap();
    let queue = found.get_array("queue").unwrap_or_else(|_| panic!("nobody waits for {name}"));
    *queue[0].as_document().unwrap().get_datetime("expiresAt").unwrap()
}

#[tokio::test]
async fn a_transaction_on_one_lease_does_not_delay_other_waiters() {
    const OTHERS: usize = 20;
    const LIFE: Duration = Duration::from_secs(8);
    let (_server, database) = lent_database().await;
    let holder = builder(&database).build().await.unwrap();
    let waiter =
        builder(&database).tuning(Tuning::default().waiter_ttl(LIFE)).build().await.unwrap();
    let mut events = Listener::of(&waiter);
    let guarded = holder.acquire("guarded").await.unwrap();
    let token = guarded.token().unwrap();
    let next = tokio::spawn(waiter.acquire("guarded").wait_forever().into_future());
    queued(&mut events).await;
    let mut others = Vec::new();
    for number in 0..OTHERS {
        let name = format!("other:{number}");
        others.push(holder.acquire(&name).await.unwrap());
        drop(tokio::spawn(waiter.acquire(&name).wait_forever().into_future()));
        queued(&mut events).await;
    }
    // It begins right after a heartbeat, or the entry might expire before the transaction ends.
    let last = entry_ends(&database, "guarded").await;
    let beaten = async || (entry_ends(&database, "guarded").await > last).then_some(());
    until("a sign of life", beaten).await;
    let mut session = database.client().start_session().await.unwrap();
    session.start_transaction().await.unwrap();
    guarded.guard(&mut session).await.unwrap();
    let opened = Instant::now();
    let mut shortest = LIFE;
    // Long enough for two heartbeats, and shorter than the life of an entry that missed both.
    while opened.elapsed() < LIFE * 2 / 3 {
        for number in 0..OTHERS {
            let ends = entry_ends(&database, &format!("other:{number}")).await;
            let left = ends.timestamp_millis() - DateTime::now().timestamp_millis();
            shortest = shortest.min(Duration::from_millis(u64::try_from(left).unwrap_or(0)));
        }
    }
    // The hand-off waits for the end of the transaction.
    let releasing = tokio::spawn(guarded.release());
    let blocked = LIFE * 3 / 4;
    until("some more time", async || (opened.elapsed() > blocked).then_some(())).await;
    assert!(!next.is_finished() && !releasing.is_finished());
    let ends = entry_ends(&database, "guarded").await;
    assert!(ends > DateTime::now(), "the entry has died under the transaction");
    session.commit_transaction().await.unwrap();
    let committed = Instant::now();
    let next = soon("the next grant", next).await.unwrap().unwrap();
    let took = committed.elapsed();
    eprintln!("others' entries had {shortest:?} left at least; granted {took:?} after the commit");
    assert!(shortest > LIFE / 3, "{shortest:?}");
    assert!(took < BUSY_MACHINE, "{took:?}");
    assert!(next.token().unwrap() > token);
    releasing.await.unwrap().unwrap();
}

/// Its entries expire meanwhile, and the waiters join again.
#[tokio::test]
async fn all_waiters_are_served_after_a_transaction_outlives_entries() {
    const LIFE: Duration = Duration::from_secs(1);
    let (_server, database) = lent_database().await;
    let holder: LeaseManager = builder(&database).build().await.unwrap();
    let lease = holder.acquire("a").await.unwrap();
    let before = lease.token().unwrap();
    let mut crowd = Crowd::new("a", PATIENCE);
    join_all_of(&database, &mut crowd, LIFE).await;
    let mut session = database.client().start_session().await.unwrap();
    session.start_transaction().await.unwrap();
    lease.guard(&mut session).await.unwrap();
    let dead = async || {
        let found = document(&database, "a").await.unwrap();
        let lives = |entry: &Document| *entry.get_datetime("expiresAt").unwrap() > DateTime::now();
        let queue = found.get_array("queue").unwrap();
        let anybody = queue.iter().filter_map(|entry| entry.as_document()).any(lives);
        (!anybody).then_some(())
    };
    until("all entries are dead", dead).await;
    session.commit_transaction().await.unwrap();
    let started = Instant::now();
    lease.release().await.unwrap();
    let turns = crowd.all_served().await;
    eprintln!("all were served {:?} after the release", started.elapsed());
    assert_tokens_rise(before, &turns);
    until_nothing_is_left(&database).await;
}
