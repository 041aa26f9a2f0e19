//! Setup that the tests share.

use std::fmt::Display;
use std::time::Duration;

use mongo_lease::mongodb::Database;
use mongo_lease::mongodb::bson::{Document, doc};
use mongo_lease::{
    Acquire, Attempt, Error, Lease, LeaseInfo, LeaseManager, LeaseManagerBuilder, Released, Tuning,
};
use mongo_lease_testbed::{Server, TestDatabase};

use crate::patience::{Listener, PATIENCE, soon, until};

/// A ttl that ends within a test.
pub(crate) const SHORT_TTL: Duration = Duration::from_millis(400);

/// A database of its own on the shared server, with the indexes, and a manager for it.
pub(crate) async fn setup() -> (TestDatabase, LeaseManager) {
    let database = migrated(Server::shared()).await;
    let leases = builder(&database).build().await.expect("a manager");
    (database, leases)
}

/// A database of its own on this server, with the indexes.
pub(crate) async fn migrated(server: &Server) -> TestDatabase {
    let database = server.database().await;
    builder(&database).ensure_indexes(true).build().await.expect("the indexes are made");
    database
}

/// One attempt of a call with options, with the result in the terms of `try_acquire`.
pub(crate) trait TryOnce {
    fn try_once(self) -> impl Future<Output = mongo_lease::Result<Attempt>> + Send;
}

impl TryOnce for Acquire {
    async fn try_once(self) -> mongo_lease::Result<Attempt> {
        match self.wait(Duration::ZERO).await {
            Ok(lease) => Ok(Attempt::Granted(lease)),
            Err(Error::Busy(held)) => Ok(Attempt::Busy(held)),
            Err(error) => Err(error),
        }
    }
}

/// The usual options. An attempt has the longest time that a default ttl allows: a machine that takes seconds for an
/// answer has none repeated.
pub(crate) fn builder(database: &TestDatabase) -> LeaseManagerBuilder {
    prompt(database).tuning(lenient_tuning())
}

/// The tuning of [`builder`], for a manager on a client of its own.
pub(crate) fn lenient_tuning() -> Tuning {
    Tuning::default().attempt_timeout(Duration::from_secs(15))
}

/// The same for a short ttl: with the default time for an attempt, which is at most half of that.
pub(crate) fn prompt(database: &TestDatabase) -> LeaseManagerBuilder {
    LeaseManager::builder(database).owner("test")
}

/// The second one with `MONGO_LEASE_LONG=1`, and otherwise the first: a test that goes on for as long as it is told.
pub(crate) fn short_or_long<T>(short: T, long: T) -> T {
    let is_long = std::env::var_os("MONGO_LEASE_LONG").is_some_and(|value| value == "1");
    if is_long { long } else { short }
}

/// The database through a client whose pool has so many connections.
pub(crate) async fn pooled(server: &Server, database: &TestDatabase, size: u32) -> Database {
    let client = server.client_with(|options| options.max_pool_size = Some(size)).await;
    database.through(&client)
}

/// Asserts that the release was carried out. It may be unconfirmed: a machine that is too busy to answer an attempt in
/// its time makes the next one find nothing.
pub(crate) fn assert_done(released: Released, what: impl Display) {
    assert_ne!(released, Released::NotHeld, "{what}");
}

/// The result of a release by name and value, which nobody knows where the server cut its command off: a busy machine's
/// does now and then. So the release is repeated until it is known. One that has ended a lease is [`assert_done`]'s.
pub(crate) async fn known_release(leases: &LeaseManager, name: &str, value: &str) -> Released {
    let known = async || {
        let released = leases.release(name, value).await.expect("an answer");
        (released != Released::Unknown).then_some(released)
    };
    until("the result of a release is known", known).await
}

/// Asserts that the release of a lease that was lost has ended nothing. It may be unconfirmed, as in [`known_release`].
pub(crate) fn assert_not_done(released: Released) {
    assert_ne!(released, Released::Released);
}

/// These options for a test that counts commands: a machine that takes seconds for an answer has none repeated.
pub(crate) fn patient(builder: LeaseManagerBuilder) -> LeaseManagerBuilder {
    builder.ttl(3 * PATIENCE).tuning(Tuning::default().attempt_timeout(PATIENCE))
}

pub(crate) async fn document(database: &TestDatabase, name: &str) -> Option<Document> {
    let locks = database.collection::<Document>("locks");
    locks.find_one(doc! { "name": name }).await.expect("a look at the document")
}

/// The lease, which is free, of one attempt.
pub(crate) async fn granted(leases: &LeaseManager, name: &str) -> Lease {
    let answer = leases.try_acquire(name).await.unwrap_or_else(|error| panic!("{name:?}: {error}"));
    answer.granted().unwrap_or_else(|| panic!("{name:?} is not free"))
}

/// The lease as the refusal of one attempt shows it.
pub(crate) async fn refused(leases: &LeaseManager, name: &str) -> LeaseInfo {
    match leases.try_acquire(name).await {
        Ok(Attempt::Busy(info)) => *info,
        answer => panic!("{name:?} is to be refused: {answer:?}"),
    }
}

/// Hands the lease on to a call of this manager, which the change stream wakes.
pub(crate) async fn handed_on(lease: Lease, to: &LeaseManager) -> Lease {
    let mut events = Listener::of(to);
    let waiting = tokio::spawn(to.acquire(lease.name()).wait_forever().into_future());
    events.watching().await;
    assert_eq!(lease.release().await.expect("a hand-on"), Released::Released);
    soon("the lease is handed on", waiting).await.unwrap().expect("a lease")
}

/// A number of the server's statistics.
pub(crate) async fn statistic(server: &Server, group: &[&str], name: &str) -> i64 {
    let status = server.admin(doc! { "serverStatus": 1 }).await;
    let mut at = &status;
    for part in group {
        at = at.get_document(part).unwrap();
    }
    let value = at.get(name).expect("the server counts it");
    value.as_i64().or(value.as_i32().map(i64::from)).unwrap()
}
