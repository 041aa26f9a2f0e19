//! Documents that a transaction blocks, and calls that need them.

use std::time::Duration;

use mongo_lease::mongodb::bson::{Bson, Document, doc};
use mongo_lease::mongodb::error::TRANSIENT_TRANSACTION_ERROR;
use mongo_lease::mongodb::{ClientSession, Database};
use mongo_lease::{Lease, LeaseManager, Released, Result, Tuning};
use mongo_lease_testbed::TestDatabase;
use tokio::task::JoinHandle;

use crate::lent::{LentServer, lent_database};

use crate::patience::{MUCH_PATIENCE, PATIENCE, locks, until};
use crate::waiters::Waiting;

/// Longer than any test here.
pub(crate) const LONG: Duration = Duration::from_secs(300);

/// A server on which no transaction ends by itself during a test.
pub(crate) struct Setup {
    pub(crate) server: LentServer,
    pub(crate) database: TestDatabase,
    pub(crate) leases: LeaseManager,
}

pub(crate) async fn setup() -> Setup {
    let (server, database) = lent_database().await;
    let own = database.through(&server.client().await);
    let leases = manager(&own).await;
    Setup { server, database, leases }
}

pub(crate) async fn manager(own: &Database) -> LeaseManager {
    // A command that is not cut off when a call ends goes on for longer than a test waits.
    let ttl = 4 * PATIENCE;
    let patient = Tuning::default().attempt_timeout(ttl / 2);
    let leases = LeaseManager::builder(own).ttl(ttl).tuning(patient).release_timeout(MUCH_PATIENCE);
    // A shutdown beside a blocked document takes half of this.
    leases.shutdown_timeout(Duration::from_secs(6)).build().await.unwrap()
}

impl Setup {
    /// A manager with a client of its own, as in another process.
    pub(crate) async fn another_manager(&self) -> LeaseManager {
        manager(&self.database.through(&self.server.client().await)).await
    }

    /// These leases, acquired one after the other.
    pub(crate) async fn hold(&self, names: &[String]) -> Vec<Lease> {
        let mut held = Vec::new();
        for name in names {
            held.push(self.leases.acquire(&**name).await.unwrap());
        }
        held
    }

    /// Begins a transaction that holds this lease's document up.
    pub(crate) async fn hold_up(&self, lease: &Lease) -> ClientSession {
        transaction_on(&self.database, doc! { "name": lease.name() }).await
    }
}

/// A transaction of this database's client.
pub(crate) async fn transaction(database: &Database) -> ClientSession {
    let mut session = database.client().start_session().await.unwrap();
    session.start_transaction().await.unwrap();
    session
}

/// A transaction that keeps all others from the documents that the filter finds. Its abort changes nothing.
pub(crate) async fn transaction_on(database: &Database, filter: Document) -> ClientSession {
    until("a transaction has the documents", async || {
        let mut session = transaction(database).await;
        let touch = doc! { "$set": { "touched": true } };
        let locks = locks(database);
        match locks.update_many(filter.clone(), touch).session(&mut session).await {
            Ok(touched) => {
                assert!(touched.modified_count > 0, "it keeps nobody from anything");
                Some(session)
            }
            // Another write, as a heartbeat, was under way.
            Err(error) if error.contains_label(TRANSIENT_TRANSACTION_ERROR) => None,
            Err(error) => panic!("{error}"),
        }
    })
    .await
}

/// Leases that are free, and that nobody can acquire before the transaction ends.
pub(crate) async fn free_and_blocked(
    database: &Database,
    names: &[impl AsRef<str>],
) -> ClientSession {
    let names: Vec<&str> = names.iter().map(AsRef::as_ref).collect();
    let free =
        names.iter().map(|&name| doc! { "name": name, "value": "gone", "expiresAt": Bson::Null });
    locks(database).insert_many(free).await.unwrap();
    transaction_on(database, doc! { "name": { "$in": names } }).await
}

/// The releases of these leases, each in a task of its own.
pub(crate) fn start_releases(
    held: impl IntoIterator<Item = Lease>,
) -> Vec<JoinHandle<Result<Released>>> {
    held.into_iter().map(|lease| tokio::spawn(lease.release())).collect()
}

pub(crate) fn names(what: &str, how_many: usize) -> Vec<String> {
    (0..how_many).map(|number| format!("{what}:{number:02}")).collect()
}

/// Calls, each in a task of its own, that wait this long for the leases of these names.
pub(crate) fn waiting<T: AsRef<str>>(
    leases: &LeaseManager,
    names: impl IntoIterator<Item = T>,
    wait: Duration,
) -> Vec<Waiting> {
    let call = |name: T| tokio::spawn(leases.acquire(name.as_ref()).wait(wait).into_future());
    names.into_iter().map(call).collect()
}

pub(crate) fn none_has_ended(calls: &[Waiting]) -> bool {
    calls.iter().all(|call| !call.is_finished())
}
