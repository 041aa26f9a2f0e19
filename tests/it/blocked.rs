//! One document that a transaction blocks delays no call that does not need it.
//!
//! Each test keeps the transaction open until everything that must happen has happened: nothing here waits for its end.
//! The times are printed, for the commit messages of changes here.

mod acquires;
mod releases;
mod several;
mod shared;

use std::time::Duration;

use mongo_lease::mongodb::bson::{Bson, doc};
use mongo_lease::mongodb::{Client, ClientSession};
use mongo_lease::{Error, Lease, LeaseManager};
use mongo_lease_testbed::TestDatabase;
use tokio::task::JoinHandle;

use crate::lent::{LentServer, lent_database};
use crate::patience::locks;

/// How a document is blocked.
#[derive(Clone, Copy, Debug)]
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
    /// The manager's own client: the sessions of its guards come from it.
    client: Client,
    leases: LeaseManager,
}

async fn setup() -> Setup {
    let (server, database) = lent_database().await;
    let client = server.client().await;
    let leases = manager(&database, &client).await;
    Setup { server, database, client, leases }
}

async fn manager(database: &TestDatabase, client: &Client) -> LeaseManager {
    let own = database.through(client);
    LeaseManager::builder(&own).ttl(Duration::from_secs(60)).build().await.unwrap()
}

impl Setup {
    /// A manager with a client of its own, as in another process.
    async fn another_manager(&self) -> LeaseManager {
        manager(&self.database, &self.server.client().await).await
    }

    /// These leases, acquired one after the other.
    async fn hold(&self, names: &[String]) -> Vec<Lease> {
        let mut held = Vec::new();
        for name in names {
            held.push(self.leases.acquire(&**name).await.unwrap());
        }
        held
    }

    /// An expired lease whose document a transaction blocks.
    async fn expired_and_blocked(&self, name: &str) -> ClientSession {
        let expired = doc! { "name": name, "value": "gone", "expiresAt": Bson::Null };
        locks(&self.database).insert_one(expired).await.unwrap();
        self.hold_up_named(name).await
    }

    /// Begins a transaction that holds this lease's document up.
    async fn hold_up(&self, lease: &Lease, by: By) -> ClientSession {
        match by {
            By::Guard => {
                let mut session = self.client.start_session().await.unwrap();
                session.start_transaction().await.unwrap();
                lease.guard(&mut session).await.unwrap();
                session
            }
            By::Stranger => self.hold_up_named(lease.name()).await,
        }
    }

    /// A transaction unknown to the manager, on the document of this name.
    async fn hold_up_named(&self, name: &str) -> ClientSession {
        let mut session = self.database.client().start_session().await.unwrap();
        session.start_transaction().await.unwrap();
        let touch = doc! { "$set": { "touched": true } };
        let touched = locks(&self.database)
            .update_one(doc! { "name": name }, touch)
            .session(&mut session)
            .await;
        assert_eq!(touched.unwrap().modified_count, 1);
        session
    }
}

fn names(what: &str, how_many: usize) -> Vec<String> {
    (0..how_many).map(|number| format!("{what}:{number:02}")).collect()
}

/// A call in a task of its own that waits this long for a lease.
fn waiting(leases: &LeaseManager, name: &str, wait: Duration) -> JoinHandle<Result<Lease, Error>> {
    let acquire = leases.acquire(name).wait(wait);
    tokio::spawn(async move { acquire.await })
}
