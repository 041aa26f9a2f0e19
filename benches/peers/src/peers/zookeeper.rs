//! `zookeeper-client`: the lock recipe, one ephemeral node a waiter, each of which watches the one before it.

use std::mem;

use async_trait::async_trait;
use mongo_lease_measure::Outcome;
use zookeeper_client::{Acls, Client, CreateMode, LockOptions, LockPrefix, OwnedLockClient};

use super::{Attempt, Held, Peer, Renewal, TTL};

pub(crate) struct ZooKeeper {
    client: Client,
}

impl ZooKeeper {
    pub(crate) async fn open(address: &str) -> Outcome<ZooKeeper> {
        let client = Client::connector().with_session_timeout(TTL).connect(address).await?;
        Ok(ZooKeeper { client })
    }
}

#[async_trait]
impl Peer for ZooKeeper {
    async fn acquire(&self, name: &str) -> Outcome<Box<dyn Held>> {
        // A folder for each lock, as the recipe has it.
        let prefix = format!("/locks/{name}/lock-");
        let folders = CreateMode::Persistent.with_acls(Acls::anyone_all());
        let options = LockOptions::new(Acls::anyone_all()).with_ancestor_options(folders)?;
        let lock = self.client.lock(LockPrefix::new_shared(&prefix)?, b"", options).await?;
        Ok(Box::new(lock.into_owned()))
    }

    async fn attempt(&self, _name: &str) -> Outcome<Attempt> {
        Ok(Attempt::Unsupported)
    }

    fn renewal(&self) -> Renewal {
        Renewal::ByItself
    }
}

#[async_trait]
impl Held for OwnedLockClient {
    async fn release(self: Box<Self>) -> Outcome<()> {
        // A drop would delete it in the background, without a notice. So it is deleted here and not dropped: a drop
        // would be a second request for a node that is gone.
        self.client().delete(self.lock_path(), None).await?;
        mem::forget(*self);
        Ok(())
    }
}
