//! One document that a transaction blocks delays no call that does not need it.
//!
//! Each test keeps the transaction open until everything that must happen has happened: nothing here waits for its end.

mod acquires;
mod releases;
mod shared;

use std::time::Duration;

use mongo_lease::mongodb::bson::{Bson, Document, doc};
use mongo_lease::mongodb::error::TRANSIENT_TRANSACTION_ERROR;
use mongo_lease::mongodb::{ClientSession, Database};
use mongo_lease::{Lease, LeaseManager, Released, Result, Tuning};
use mongo_lease_testbed::TestDatabase;
use tokio::task::JoinHandle;

use crate::lent::{LentServer, lent_database};
use crate::line::Waiting;
use crate::patience::{MUCH_PATIENCE, locks, until};

/// Longer than any test here.
const LONG: Duration = Duration::from_secs(300);

/// How a document is blocked.
#[derive(Clone, Copy)]
enum By {
    /// Its holder guards a transaction with it, and knows that.
    Guard,
    /// A transaction that the manager does not know of.
    Stranger,
}

/// A server on which no transaction ends by itself during a test.
struct Setup {
    server: LentServer,
    database: TestDatabase,
    /// By the manager's own client: the sessions of its guards come from it.
    own: Database,
    leases: LeaseManager,
}

async fn setup() -> Setup {
    let (server, database) = lent_database().await;
    let own = database.through(&server.client().await);
    let leases = manager(&own).await;
    Setup { server, database, own, leases }
}

async fn manager(own: &Database) -> LeaseManager {
    let ttl = Duration::from_secs(60);
    let patient = Tuning::default().attempt_timeout(ttl / 2);
    let leases = LeaseManager::builder(own).ttl(ttl).tuning(patient).release_timeout(MUCH_PATIENCE);
    leases.build().await.unwrap()
}

impl Setup {
    /// A manager with a client of its own, as in another process.
    async fn another_manager(&self) -> LeaseManager {
        manager(&self.database.through(&self.server.client().await)).await
    }

    /// These leases, acquired one after the other.
    async fn hold(&self, names: &[String]) -> Vec<Lease> {
        let mut held = Vec::new();
        for name in names {
            held.push(self.leases.acquire(&**name).await.unwrap());
        }
        held
    }

    /// Begins a transaction that holds this lease's document up.
    async fn hold_up(&self, lease: &Lease, by: By) -> ClientSession {
        match by {
            By::Guard => {
                let mut session = transaction(&self.own).await;
                lease.guard(&mut session).await.unwrap();
                session
            }
            By::Stranger => transaction_on(&self.database, doc! { "name": lease.name() }).await,
        }
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

fn names(what: &str, how_many: usize) -> Vec<String> {
    (0..how_many).map(|number| format!("{what}:{number:02}")).collect()
}

/// Calls, each in a task of its own, that wait this long for the leases of these names.
fn waiting<T: AsRef<str>>(
    leases: &LeaseManager,
    names: impl IntoIterator<Item = T>,
    wait: Duration,
) -> Vec<Waiting> {
    let call = |name: T| tokio::spawn(leases.acquire(name.as_ref()).wait(wait).into_future());
    names.into_iter().map(call).collect()
}

fn none_has_ended(calls: &[Waiting]) -> bool {
    calls.iter().all(|call| !call.is_finished())
}
