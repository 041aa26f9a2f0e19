//! The builder of a manager, with its options.

use std::fmt;
use std::future::IntoFuture;
use std::pin::Pin;
use std::time::Duration;

use mongodb::Database;

use crate::engine::Engine;
#[cfg(doc)]
use crate::error::Error;
use crate::error::Result;
use crate::indexes;
use crate::manager::LeaseManager;
#[cfg(feature = "memory")]
use crate::memory::MemoryStore;
use crate::options::ManagerOptions;
use crate::runner::Backend;

/// The options of a [`LeaseManager`].
#[derive(Clone)]
pub struct LeaseManagerBuilder {
    backend: Backend,
    options: ManagerOptions,
}

impl LeaseManager {
    /// Starts with the default options, for leases in this database.
    #[must_use = "nothing is built until `build` is called"]
    pub fn builder(database: &Database) -> LeaseManagerBuilder {
        LeaseManagerBuilder::new(Backend::Server(database.clone()))
    }

    /// Starts with the default options, for leases in this store instead of a database: for tests.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> mongo_lease::Result<()> {
    /// use mongo_lease::{LeaseManager, MemoryStore};
    ///
    /// let store = MemoryStore::new();
    /// let alice = LeaseManager::in_memory(&store).owner("alice").build().await?;
    /// let bob = LeaseManager::in_memory(&store).owner("bob").build().await?;
    /// let lease = alice.acquire("invoice:42").await?;
    /// assert!(!bob.try_acquire("invoice:42").await?.is_granted());
    /// lease.release().await?;
    /// assert!(bob.try_acquire("invoice:42").await?.is_granted());
    /// # Ok(())
    /// # }
    /// ```
    #[cfg(feature = "memory")]
    #[cfg_attr(docsrs, doc(cfg(feature = "memory")))]
    #[must_use = "nothing is built until `build` is called"]
    pub fn in_memory(store: &MemoryStore) -> LeaseManagerBuilder {
        LeaseManagerBuilder::new(Backend::Memory(store.clone()))
    }
}

impl LeaseManagerBuilder {
    fn new(backend: Backend) -> LeaseManagerBuilder {
        LeaseManagerBuilder { backend, options: ManagerOptions::default() }
    }

    /// The collection's name, 1 to 512 bytes. Defaults to `locks`.
    pub fn collection(mut self, name: impl Into<String>) -> Self {
        self.options.collection = name.into();
        self
    }

    /// The label under which holders are shown, as `label@host:pid`. At most 512 bytes. Defaults to `mongo-lease`.
    pub fn owner(mut self, label: impl Into<String>) -> Self {
        self.options.owner = label.into();
        self
    }

    /// How long a lease lasts without a renewal, from 100 ms to 366 days. Defaults to 30 s. A failed primary stops all
    /// writes for about 13 s by default: with a ttl well below 30 s, healthy holders then lose their leases.
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.options.ttl = ttl;
        self
    }

    /// By how much the clocks of the replica set's members may differ: the server keeps a lease for this much longer
    /// than its holder relies on it. At most an hour. Defaults to 1 s.
    pub fn max_clock_skew(mut self, max_clock_skew: Duration) -> Self {
        self.options.max_clock_skew = max_clock_skew;
        self
    }

    /// How long one attempt may take before the next one goes out beside it. From 10 ms to half the ttl.
    /// Defaults to 5 s, or half the ttl where that is less.
    pub fn attempt_deadline(mut self, deadline: Duration) -> Self {
        self.options.attempt_deadline = Some(deadline);
        self
    }

    /// How long an [`acquire`](LeaseManager::acquire) waits unless the call sets its own time. Defaults to 30 s.
    pub fn wait(mut self, wait: Duration) -> Self {
        self.options.wait = wait;
        self
    }

    /// How long [`build`](LeaseManagerBuilder::build) may take. Defaults to 35 s.
    ///
    /// It has to be longer than the `serverSelectionTimeoutMS` of the driver's client, 30 s by default, after which
    /// `build` fails with an error that names the addresses and why each of them failed.
    pub fn build_deadline(mut self, deadline: Duration) -> Self {
        self.options.build_deadline = deadline;
        self
    }

    /// How long a call waits for its release to be confirmed. Defaults to 10 s.
    pub fn release_deadline(mut self, deadline: Duration) -> Self {
        self.options.release_deadline = deadline;
        self
    }

    /// How long a shutdown may take. Defaults to 10 s.
    pub fn shutdown_deadline(mut self, deadline: Duration) -> Self {
        self.options.shutdown_deadline = deadline;
        self
    }

    /// How many commands may be under way at once, from 1 to 10,000. Defaults to 10.
    ///
    /// A quarter of them, at least one, is kept free for renewals and releases (unless there is only one). The driver's
    /// connection pool has 10 by default, too.
    pub fn max_in_flight(mut self, commands: usize) -> Self {
        self.options.max_in_flight = commands;
        self
    }

    /// How long the queue entry of a process that has died stays. From 500 ms to 10 minutes. Defaults to 10 s.
    ///
    /// A waiting process sends a heartbeat after a third of this time. A lease that is handed off to a process that has
    /// died is blocked for this time, or for the ttl where that is shorter, plus the maximum clock skew.
    pub fn waiter_ttl(mut self, waiter_ttl: Duration) -> Self {
        self.options.waiter_ttl = waiter_ttl;
        self
    }

    /// The longest time between two queries of a waiting call. At most a day. Defaults to 15 s.
    ///
    /// It bounds the cost of a change stream that has fallen silent; up to a quarter is subtracted at random. Where
    /// several calls of this manager wait for permits of one name, it applies to the first of them, which checks for
    /// all. Each further one checks more rarely.
    pub fn poll_floor(mut self, floor: Duration) -> Self {
        self.options.poll_floor = floor;
        self
    }

    /// Whether a change stream wakes waiting calls. Defaults to true.
    ///
    /// Each manager has one stream, which is open while a call waits and uses one of the client's connections. Without
    /// it, waiting calls poll: the first in the queue at least every quarter of a second, others less often.
    pub fn change_stream(mut self, watch: bool) -> Self {
        self.options.change_stream = watch;
        self
    }

    /// Whether a release leaves a tombstone instead of deleting the lease document. Defaults to false.
    ///
    /// A tombstone is a document that expired in 1970: every call can acquire it at once, and the server's TTL monitor
    /// removes it within a minute. It keeps leases cheap where very many come and go under ever new names: these are
    /// inserted without a look-up. The operators' page shows when it pays, and `mongo-lease doctor` measures it.
    ///
    /// Do not use it in a collection shared with a program that acquires a lock by a plain insert and ignores
    /// `expiresAt`: that program would wait for the TTL monitor. Where another program's index or validator refuses a
    /// tombstone, the release deletes the document.
    pub fn tombstones(mut self, tombstones: bool) -> Self {
        self.options.tombstones = tombstones;
        self
    }

    /// How many entries one lease's queue may have. From 1 to 1,024, which is the default. The waiting calls of one
    /// manager share an entry; those for [permits](crate::Acquire::limit) have up to 16. The next call gets
    /// [`Error::QueueFull`].
    pub fn max_waiting(mut self, entries: u32) -> Self {
        self.options.max_waiting = entries;
        self
    }

    /// States that the collection has both indexes. Defaults to false.
    ///
    /// For users without the privilege to list indexes. If the unique index is missing, one lease can be granted twice.
    /// The hint of each acquire still detects that no index on `name` exists at all.
    pub fn assume_indexes(mut self, assume: bool) -> Self {
        self.options.assume_indexes = assume;
        self
    }

    /// Makes a manager that only reads, for users without write privileges. Defaults to false.
    ///
    /// It offers [`get`](LeaseManager::get), [`list`](LeaseManager::list) and [`ping`](LeaseManager::ping), for which
    /// the privilege `find` is enough. The indexes are checked where the user may list them. Every operation that would
    /// write fails with [`Error::InvalidOption`], and nothing is sent.
    pub fn read_only(mut self, read_only: bool) -> Self {
        self.options.read_only = read_only;
        self
    }

    /// Creates the collection and its two indexes where they are missing.
    ///
    /// For tests, and for services that may create indexes; the usual way is the binary `mongo-lease-migrate`. An
    /// existing index is not changed.
    ///
    /// # Errors
    /// [`Error::NotMigrated`] when there is an obstacle that a person has to decide about, such as documents with the
    /// same name, or an index that would have to be changed; [`Error::MissingPrivilege`] or [`Error::MongoDb`] when the
    /// database refuses.
    ///
    /// # Cancel safety
    /// Dropping the future leaves it open which indexes were created. It can be called again.
    pub async fn ensure_indexes(self) -> Result<Self> {
        self.options.check()?;
        indexes::ensure(&self.backend, &self.options.collection).await?;
        Ok(self)
    }

    /// Checks the options, the server and the indexes, and builds the manager.
    ///
    /// Call it within a tokio runtime that lasts as long as the manager: the manager's tasks run there.
    ///
    /// # Errors
    /// - [`Error::InvalidOption`], before anything is sent, when an option is out of range or two contradict each
    ///   other.
    /// - [`Error::NotMigrated`] when the unique index on `name` or the TTL index on `expiresAt` is missing or has the
    ///   wrong options: without the unique index one lease can be granted twice.
    /// - [`Error::Unsupported`] when the server lacks a required feature.
    /// - [`Error::MissingPrivilege`] when the user may not list the indexes: see
    ///   [`assume_indexes`](LeaseManagerBuilder::assume_indexes).
    /// - [`Error::MongoDb`] when the database refuses, or when the driver found no server.
    /// - [`Error::Unknown`] when the [`build_deadline`](LeaseManagerBuilder::build_deadline) passes first.
    ///
    /// # Cancel safety
    /// Dropping the future leaves nothing behind.
    pub async fn build(self) -> Result<LeaseManager> {
        Engine::start(self.backend, self.options).await.map(LeaseManager::new)
    }
}

impl IntoFuture for LeaseManagerBuilder {
    type Output = Result<LeaseManager>;
    type IntoFuture = Pin<Box<dyn Future<Output = Result<LeaseManager>> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.build())
    }
}

/// Leaves out the database's client, which knows its password.
impl fmt::Debug for LeaseManagerBuilder {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = formatter.debug_struct("LeaseManagerBuilder");
        shown.field("database", &self.backend.name()).field("options", &self.options);
        shown.finish_non_exhaustive()
    }
}
