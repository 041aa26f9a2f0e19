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
use crate::manager::LeaseManager;
#[cfg(feature = "memory")]
use crate::memory::MemoryStore;
use crate::options::{ManagerOptions, Tuning};
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

    /// How long an [`acquire`](LeaseManager::acquire) waits unless the call sets its own time. Defaults to 30 s.
    pub fn wait(mut self, wait: Duration) -> Self {
        self.options.wait = wait;
        self
    }

    /// How long [`build`](LeaseManagerBuilder::build) may take. Defaults to 35 s.
    ///
    /// It has to be longer than the `serverSelectionTimeoutMS` of the driver's client, 30 s by default, after which
    /// `build` fails with an error that names the addresses and why each of them failed.
    pub fn build_timeout(mut self, timeout: Duration) -> Self {
        self.options.build_timeout = timeout;
        self
    }

    /// How long a call waits for its release to be confirmed. Defaults to 10 s.
    pub fn release_timeout(mut self, timeout: Duration) -> Self {
        self.options.release_timeout = timeout;
        self
    }

    /// How long a shutdown may take. Defaults to 10 s.
    pub fn shutdown_timeout(mut self, timeout: Duration) -> Self {
        self.options.shutdown_timeout = timeout;
        self
    }

    /// The times and bounds of commands and queues, which few services have to change. See [`Tuning`].
    pub fn tuning(mut self, tuning: Tuning) -> Self {
        self.options.tuning = tuning;
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

    /// Whether [`build`](LeaseManagerBuilder::build) creates the collection and its two indexes where they are missing.
    /// Defaults to false.
    ///
    /// For tests, and for services that may create indexes; the usual way is the binary `mongo-lease-migrate`. An
    /// existing index is not changed. The build of an index is not bounded by
    /// [`build_timeout`](LeaseManagerBuilder::build_timeout). Excludes
    /// [`read_only`](LeaseManagerBuilder::read_only).
    pub fn ensure_indexes(mut self, ensure: bool) -> Self {
        self.options.ensure_indexes = ensure;
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

    /// Checks the options, the server and the indexes, and builds the manager.
    ///
    /// Call it within a tokio runtime that lasts as long as the manager: the manager's tasks run there.
    ///
    /// # Errors
    /// - [`Error::InvalidOption`], before anything is sent, when an option is out of range or two contradict each
    ///   other.
    /// - [`Error::NotMigrated`] when the unique index on `name` or the TTL index on `expiresAt` is missing or has the
    ///   wrong options: without the unique index one lease can be granted twice. With
    ///   [`ensure_indexes`](LeaseManagerBuilder::ensure_indexes), when a person has to decide about an obstacle, such
    ///   as documents with the same name, or an index that would have to be changed.
    /// - [`Error::Unsupported`] when the server lacks a required feature.
    /// - [`Error::MissingPrivilege`] when the user may not list the indexes: see
    ///   [`assume_indexes`](LeaseManagerBuilder::assume_indexes).
    /// - [`Error::MongoDb`] when the database refuses, or when the driver found no server.
    /// - [`Error::Unknown`] when the [`build_timeout`](LeaseManagerBuilder::build_timeout) passes first.
    ///
    /// # Cancel safety
    /// Dropping the future leaves no manager behind. With [`ensure_indexes`](LeaseManagerBuilder::ensure_indexes) it is
    /// open which indexes were created; another `build` creates the others.
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
