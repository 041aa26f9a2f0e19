//! The libraries, a file each: what a case asks of all of them.

pub(crate) mod distributed_lock_mongo;
#[cfg(feature = "etcd")]
pub(crate) mod etcd;
pub(crate) mod mongo_lease;
pub(crate) mod mongo_lock_async;
pub(crate) mod rslock;
pub(crate) mod zookeeper;

use std::time::Duration;

use async_trait::async_trait;
use mongo_lease_measure::Outcome;

/// What everybody's locks live, unless renewed: the default of mongo-lease and of distributed-lock-mongo.
pub(crate) const TTL: Duration = Duration::from_secs(30);

/// How often those who have to ask for it renew: a third of it, as mongo-lease does by itself.
pub(crate) const PERIOD: Duration = Duration::from_secs(10);

/// One library, connected.
#[async_trait]
pub(crate) trait Peer: Send + Sync {
    /// Takes it, and waits in the library's own way for as long as it takes.
    async fn acquire(&self, name: &str) -> Outcome<Box<dyn Held>>;

    /// Asks once.
    async fn attempt(&self, name: &str) -> Outcome<Attempt>;

    /// Waits for what somebody else holds, and gives up. Says whether it was granted after all.
    async fn wait(&self, name: &str, time: Duration) -> Outcome<bool> {
        Ok(tokio::time::timeout(time, self.acquire(name)).await.is_ok())
    }

    /// Who renews.
    fn renewal(&self) -> Renewal;

    /// Ends what it does in the background, where it has such a thing.
    async fn close(&self) {}
}

/// A lock that is held.
#[async_trait]
pub(crate) trait Held: Send + Sync {
    /// Gives it back, and returns when the server has said so.
    async fn release(self: Box<Self>) -> Outcome<()>;

    /// Renews it, where that is a call of the caller.
    async fn renew(&self) -> Outcome<()> {
        Err("it cannot be renewed".into())
    }
}

/// What came of asking once.
pub(crate) enum Attempt {
    Granted(Box<dyn Held>),
    Lost,
    /// The library has no such call.
    Unsupported,
}

/// Who renews what is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Renewal {
    /// It happens by itself, or for a whole session at once.
    ByItself,
    /// The caller, lock by lock.
    ByCall,
    /// Nobody can.
    Never,
}
