//! `distributed-lock-mongo`: polls every 10 ms by default.

use std::time::Duration;

use async_trait::async_trait;
use distributed_lock_core::error::{LockError, LockResult};
use distributed_lock_core::traits::{DistributedLock, LockHandle};
use distributed_lock_mongo::handle::MongoLockHandle;
use distributed_lock_mongo::{MongoDistributedLock, MongoDistributedLockOptions};
use mongo_lease::mongodb::error::Error;
use mongo_lease::mongodb::{Client, Database};
use mongo_lease_measure::Outcome;

use super::{Attempt, Held, Peer, Renewal, TTL};

const DATABASE: &str = "distributed_lock_mongo";
const DUPLICATE_KEY: &str = "E11000";

pub(crate) struct Locks {
    database: Database,
    options: MongoDistributedLockOptions,
}

impl Locks {
    pub(crate) async fn open(uri: &str, is_eager: bool) -> Outcome<Locks> {
        let database = Client::with_uri_str(uri).await?.database(DATABASE);
        let mut options = MongoDistributedLockOptions { expiry: TTL, ..Default::default() };
        if is_eager {
            options.min_busy_wait_sleep_time = Duration::ZERO;
        }
        Ok(Locks { database, options })
    }

    fn lock(&self, name: &str) -> MongoDistributedLock {
        let (database, options) = (self.database.clone(), self.options.clone());
        MongoDistributedLock::new(name.to_owned(), database, None, Some(options))
    }
}

/// Whether two inserts raced. The library reports the server's error as a failed connection, and its callers have to
/// try again.
fn is_race<T>(result: &LockResult<T>) -> bool {
    let Err(LockError::Connection(source)) = result else { return false };
    source.downcast_ref::<Error>().is_some_and(|error| error.to_string().contains(DUPLICATE_KEY))
}

#[async_trait]
impl Peer for Locks {
    async fn acquire(&self, name: &str) -> Outcome<Box<dyn Held>> {
        let lock = self.lock(name);
        loop {
            let result = lock.acquire(None).await;
            if !is_race(&result) {
                return Ok(Box::new(result?));
            }
        }
    }

    async fn attempt(&self, name: &str) -> Outcome<Attempt> {
        let handle = self.lock(name).try_acquire().await?;
        Ok(handle.map_or(Attempt::Lost, |handle| Attempt::Granted(Box::new(handle))))
    }

    fn renewal(&self) -> Renewal {
        Renewal::Never
    }
}

#[async_trait]
impl Held for MongoLockHandle {
    async fn release(self: Box<Self>) -> Outcome<()> {
        Ok(LockHandle::release(*self).await?)
    }
}
