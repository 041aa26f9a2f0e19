//! `rslock`: the Redlock recipe with one server.

use std::time::Duration;

use async_trait::async_trait;
use mongo_lease_measure::Outcome;
use rslock::{Lock, LockError, LockManager};

use super::{Attempt, Held, Peer, Renewal, TTL};

pub(crate) struct Rslock {
    locks: LockManager,
}

impl Rslock {
    pub(crate) fn open(address: &str, is_eager: bool) -> Rslock {
        let mut locks = LockManager::new(vec![format!("redis://{address}")]);
        if is_eager {
            // It waits for a random time below the delay, in whole milliseconds, and not at all after the last try. It
            // panics at a delay of zero.
            locks.set_retry(1, Duration::from_millis(1));
        }
        Rslock { locks }
    }
}

#[async_trait]
impl Peer for Rslock {
    async fn acquire(&self, name: &str) -> Outcome<Box<dyn Held>> {
        Ok(Box::new(self.locks.acquire_no_guard(name, TTL).await?))
    }

    async fn attempt(&self, name: &str) -> Outcome<Attempt> {
        match self.locks.lock(name, TTL).await {
            Ok(lock) => Ok(Attempt::Granted(Box::new(lock))),
            Err(LockError::Unavailable) => Ok(Attempt::Lost),
            Err(error) => Err(error.into()),
        }
    }

    fn renewal(&self) -> Renewal {
        Renewal::ByCall
    }
}

#[async_trait]
impl Held for Lock {
    async fn release(self: Box<Self>) -> Outcome<()> {
        Lock::release(*self).await;
        Ok(())
    }

    async fn renew(&self) -> Outcome<()> {
        self.lock_manager.extend(self, TTL).await?;
        Ok(())
    }
}
