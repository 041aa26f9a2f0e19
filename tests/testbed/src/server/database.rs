use std::ops::Deref;
use std::sync::atomic::{AtomicU64, Ordering};

use mongodb::{Client, Database};

use crate::random;

/// A database that no other test uses. Its name starts with `mongo_lease_test_`.
///
/// By `Deref` it is the driver's [`Database`]: `database.collection("orders")`, `database.client()`, `database.name()`.
///
/// A drop of this value does not drop the database, because clones of it may be in use, and a command at the end of
/// each test takes time. A server of our own removes its databases when it ends. A server that ran already
/// ([`crate::Server::at`]) keeps this one until [`TestDatabase::drop_database`] is called.
#[derive(Clone, Debug)]
pub struct TestDatabase {
    database: Database,
}

impl TestDatabase {
    /// A new database, reached through this client.
    #[must_use]
    pub fn of(client: &Client) -> Self {
        static COUNTER: AtomicU64 = AtomicU64::new(0);
        let process = std::process::id();
        let count = COUNTER.fetch_add(1, Ordering::Relaxed);
        // Processes in containers share identifiers, hence the random part. The whole stays
        // well below the 63 bytes which a server allows.
        let random = random::number();
        let name = format!("mongo_lease_test_{process}_{count}_{random:016x}");
        Self { database: client.database(&name) }
    }

    /// The same database through another client, as another process would see it.
    #[must_use]
    pub fn through(&self, client: &Client) -> Database {
        client.database(self.database.name())
    }

    /// Drops the database on the server.
    ///
    /// # Errors
    ///
    /// When the server does not do it.
    pub async fn drop_database(self) -> mongodb::error::Result<()> {
        self.database.drop().await
    }
}

impl Deref for TestDatabase {
    type Target = Database;

    fn deref(&self) -> &Database {
        &self.database
    }
}
