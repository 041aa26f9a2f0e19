//! The libraries, a file each, behind one trait for the cases.

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

/// The ttl of all locks: the default of mongo-lease and of distributed-lock-mongo.
pub(crate) const TTL: Duration = Duration::from_secs(30);

/// How often callers renew where that is their task: a third of the ttl, as mongo-lease does automatically.
pub(crate) const PERIOD: Duration = Duration::from_secs(10);

/// One library, connected.
#[async_trait]
pub(crate) trait Peer: Send + Sync {
    /// Acquires it, and waits in the library's own way for as long as it takes.
    async fn acquire(&self, name: &str) -> Outcome<Box<dyn Held>>;

    /// Makes one attempt without waiting.
    async fn attempt(&self, name: &str) -> Outcome<Attempt>;

    /// Waits for a lock that somebody else holds, and gives up. Returns whether it was granted after all.
    async fn wait(&self, name: &str, time: Duration) -> Outcome<bool> {
        Ok(tokio::time::timeout(time, self.acquire(name)).await.is_ok())
    }

    /// How held locks are renewed.
    fn renewal(&self) -> Renewal;

    /// Ends the library's background work, where it has any.
    async fn close(&self) {}
}

/// A lock that is held.
#[async_trait]
pub(crate) trait Held: Send + Sync {
    /// Releases it, and returns when the server has confirmed that.
    async fn release(self: Box<Self>) -> Outcome<()>;

    /// Renews it, where that is a call of the caller.
    async fn renew(&self) -> Outcome<()> {
        Err("it cannot be renewed".into())
    }
}

/// The result of one attempt.
pub(crate) enum Attempt {
    Granted(Box<dyn Held>),
    Lost,
    /// The library has no such call.
    Unsupported,
}

/// How held locks are renewed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Renewal {
    /// Automatically, or for a whole session at once.
    ByItself,
    /// By the caller, lock by lock.
    ByCall,
    /// Not at all.
    Never,
}
