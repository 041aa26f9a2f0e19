//! `etcd-client`: the server's own lock service, under one lease of the process.

use std::sync::Arc;

use async_trait::async_trait;
use etcd_client::{Client, LockOptions};
use mongo_lease_measure::Outcome;
use tokio::task::JoinHandle;

use super::{Attempt, Held, PERIOD, Peer, Renewal, TTL};

pub(crate) struct Etcd {
    /// Shared: a copy of it takes 4 kB, which are not the lock's.
    client: Arc<Client>,
    lease: i64,
    keeper: JoinHandle<()>,
}

impl Etcd {
    pub(crate) async fn open(address: &str) -> Outcome<Etcd> {
        let mut client = Client::connect([address], None).await?;
        let lease = client.lease_grant(i64::try_from(TTL.as_secs())?, None).await?.id();
        let keeper = tokio::spawn(keep_alive(client.clone(), lease));
        Ok(Etcd { client: Arc::new(client), lease, keeper })
    }
}

/// Keeps the lease alive, as a session of etcd's own client does. The library leaves it to its callers.
async fn keep_alive(mut client: Client, lease: i64) {
    let Ok((mut keeper, mut replies)) = client.lease_keep_alive(lease).await else { return };
    loop {
        tokio::time::sleep(PERIOD).await;
        let is_alive = keeper.keep_alive().await.is_ok()
            && matches!(replies.message().await, Ok(Some(reply)) if reply.ttl() > 0);
        if !is_alive {
            return;
        }
    }
}

impl Drop for Etcd {
    fn drop(&mut self) {
        self.keeper.abort();
    }
}

#[async_trait]
impl Peer for Etcd {
    async fn acquire(&self, name: &str) -> Outcome<Box<dyn Held>> {
        let options = LockOptions::new().with_lease(self.lease);
        let reply = self.client.lock_client().lock(name, Some(options)).await?;
        Ok(Box::new(Key { client: Arc::clone(&self.client), key: reply.key().to_vec() }))
    }

    async fn attempt(&self, _name: &str) -> Outcome<Attempt> {
        Ok(Attempt::Unsupported)
    }

    fn renewal(&self) -> Renewal {
        Renewal::ByItself
    }
}

/// The key of a held lock.
struct Key {
    client: Arc<Client>,
    key: Vec<u8>,
}

#[async_trait]
impl Held for Key {
    async fn release(self: Box<Self>) -> Outcome<()> {
        self.client.lock_client().unlock(self.key).await?;
        Ok(())
    }
}
