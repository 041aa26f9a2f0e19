//! mongod, as the testbed starts it, and the driver's bare commands.

use async_trait::async_trait;
use mongo_lease::mongodb::bson::{DateTime, Document, doc};
use mongo_lease::mongodb::error::{ErrorKind, WriteFailure};
use mongo_lease::mongodb::{Client, Collection};
use mongo_lease_measure::{Outcome, bare_collection};
use mongo_lease_testbed::Server as Testbed;

use super::{Floor, Kind, Server};

const DUPLICATE_KEY: i32 = 11_000;

pub(super) struct Mongod {
    server: Testbed,
}

impl Mongod {
    pub(super) fn start() -> Outcome<Mongod> {
        Ok(Mongod { server: Testbed::try_start()? })
    }
}

#[async_trait]
impl Server for Mongod {
    fn kind(&self) -> Kind {
        Kind::Mongod
    }

    fn address(&self) -> &str {
        self.server.uri()
    }

    fn pid(&self) -> Option<u32> {
        self.server.mongod().pid()
    }

    async fn version(&self) -> Outcome<String> {
        let reply = self.server.admin(doc! { "buildInfo": 1 }).await;
        Ok(format!("mongod {}", reply.get_str("version")?))
    }

    async fn requests(&self) -> Outcome<u64> {
        let counts = self.server.command_counts().await;
        let writes = counts.find_and_modify + counts.insert + counts.update + counts.delete;
        Ok(writes + counts.find + counts.aggregate + counts.get_more)
    }

    async fn floor(&self) -> Outcome<Box<dyn Floor>> {
        let database = Client::with_uri_str(self.server.uri()).await?.database("bare");
        Ok(Box::new(Bare { locks: bare_collection(&database).await? }))
    }
}

struct Bare {
    locks: Collection<Document>,
}

#[async_trait]
impl Floor for Bare {
    async fn take(&self, name: &str) -> Outcome<()> {
        let expires_at = DateTime::from_millis(DateTime::now().timestamp_millis() + 30_000);
        let lock = doc! { "name": name, "value": "a random value", "expiresAt": expires_at };
        self.locks.insert_one(lock).await?;
        Ok(())
    }

    async fn give(&self, name: &str) -> Outcome<()> {
        self.locks.delete_one(doc! { "name": name, "value": "a random value" }).await?;
        Ok(())
    }

    async fn lose(&self, name: &str) -> Outcome<()> {
        let inserted = self.locks.insert_one(doc! { "name": name, "value": "another" }).await;
        let error = inserted.err().ok_or("inserted a name twice")?;
        if let ErrorKind::Write(WriteFailure::WriteError(error)) = &*error.kind
            && error.code == DUPLICATE_KEY
        {
            return Ok(());
        }
        Err(error.into())
    }
}
