//! `mongo-lock-async`: polls at an interval that the caller must set.

use std::time::Duration;

use async_trait::async_trait;
use mongo_lease::mongodb::Client;
use mongo_lease_measure::Outcome;
use mongo_lock_async::Lock;

use super::{Attempt, Held, Peer, Renewal, TTL};

/// Longer than any wait here.
const FOR_EVER: Duration = Duration::from_secs(600);

pub(crate) struct MongoLockAsync {
    client: Client,
    poll_interval: Duration,
}

/// Creates its TTL index.
pub(crate) async fn prepare(uri: &str) -> Outcome<()> {
    mongo_lock_async::prepare_database(&Client::with_uri_str(uri).await?).await?;
    Ok(())
}

impl MongoLockAsync {
    pub(crate) async fn open(uri: &str, poll_interval: Duration) -> Outcome<MongoLockAsync> {
        Ok(MongoLockAsync { client: Client::with_uri_str(uri).await?, poll_interval })
    }
}

#[async_trait]
impl Peer for MongoLockAsync {
    async fn acquire(&self, name: &str) -> Outcome<Box<dyn Held>> {
        let interval = self.poll_interval;
        let lock =
            Lock::try_acquire_with_timeout(&self.client, name, TTL, FOR_EVER, interval).await?;
        Ok(Box::new(lock.ok_or("nobody waits as long")?))
    }

    async fn attempt(&self, name: &str) -> Outcome<Attempt> {
        let lock = Lock::try_acquire(&self.client, name, TTL).await?;
        Ok(lock.map_or(Attempt::Lost, |lock| Attempt::Granted(Box::new(lock))))
    }

    fn renewal(&self) -> Renewal {
        Renewal::Never
    }
}

#[async_trait]
impl Held for Lock {
    async fn release(self: Box<Self>) -> Outcome<()> {
        if Lock::release(&self).await? { Ok(()) } else { Err("it was not there".into()) }
    }
}
