//! `mongo-lease`, at its defaults.

use std::time::Duration;

use async_trait::async_trait;
use mongo_lease::mongodb::{Client, Database};
use mongo_lease::{Error, Lease, LeaseManager};
use mongo_lease_measure::Outcome;

use super::{Attempt, Held, Peer, Renewal, TTL};

const DATABASE: &str = "mongo_lease";
/// Longer than any wait here.
const FOR_EVER: Duration = Duration::from_secs(600);

pub(crate) struct MongoLease {
    leases: LeaseManager,
}

/// Creates the indexes, which is the work of a migration.
pub(crate) async fn prepare(uri: &str) -> Outcome<()> {
    LeaseManager::builder(&database(uri).await?).ensure_indexes(true).build().await?;
    Ok(())
}

async fn database(uri: &str) -> Outcome<Database> {
    Ok(Client::with_uri_str(uri).await?.database(DATABASE))
}

impl MongoLease {
    pub(crate) async fn open(uri: &str) -> Outcome<MongoLease> {
        let leases = LeaseManager::builder(&database(uri).await?).wait(FOR_EVER).ttl(TTL);
        Ok(MongoLease { leases: leases.build().await? })
    }
}

#[async_trait]
impl Peer for MongoLease {
    async fn acquire(&self, name: &str) -> Outcome<Box<dyn Held>> {
        Ok(Box::new(self.leases.acquire(name).await?))
    }

    async fn attempt(&self, name: &str) -> Outcome<Attempt> {
        Ok(match self.leases.try_acquire(name).await? {
            mongo_lease::Attempt::Granted(lease) => Attempt::Granted(Box::new(lease)),
            mongo_lease::Attempt::Busy(_) => Attempt::Lost,
        })
    }

    async fn wait(&self, name: &str, time: Duration) -> Outcome<bool> {
        match self.leases.acquire(name).wait(time).await {
            Ok(_) => Ok(true),
            Err(Error::WaitTimeout { .. }) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    fn renewal(&self) -> Renewal {
        Renewal::ByItself
    }

    async fn close(&self) {
        self.leases.shutdown().await;
    }
}

#[async_trait]
impl Held for Lease {
    async fn release(self: Box<Self>) -> Outcome<()> {
        Lease::release(*self).await?;
        Ok(())
    }
}
