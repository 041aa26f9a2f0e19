//! The builder: the options of a manager.

use std::fmt;
use std::future::IntoFuture;
use std::pin::Pin;
use std::time::Duration;

use mongodb::Database;

use crate::engine::Engine;
use crate::error::Result;
use crate::indexes;
use crate::manager::LeaseManager;
use crate::options::ManagerOptions;

/// The options of a [`LeaseManager`].
#[derive(Clone)]
pub struct LeaseManagerBuilder {
    database: Database,
    options: ManagerOptions,
}

impl LeaseManager {
    /// The options of a manager of the leases in this database.
    #[must_use = "nothing is built until `build` is called"]
    pub fn builder(database: &Database) -> LeaseManagerBuilder {
        LeaseManagerBuilder { database: database.clone(), options: ManagerOptions::default() }
    }
}

impl LeaseManagerBuilder {
    /// The collection, 1 to 512 bytes. Defaults to `locks`.
    pub fn collection(mut self, name: impl Into<String>) -> Self {
        self.options.collection = name.into();
        self
    }

    /// The label under which holders are shown, as `label@host:pid`. At most 512 bytes. Defaults to `mongo-lease`.
    pub fn owner(mut self, label: impl Into<String>) -> Self {
        self.options.owner = label.into();
        self
    }

    /// How long a lease lasts without a renewal, from 100 ms to 366 days. Defaults to 30 s.
    ///
    /// With a replica set's default settings a failed primary takes writes away for about 13 s. A ttl well below 30 s
    /// then loses leases whose holders are well.
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.options.ttl = ttl;
        self
    }

    /// By how much the clocks of the replica set's members may differ. A lease stands on the server for so much
    /// longer than its holder believes in it. At most an hour. Defaults to 1 s.
    pub fn max_clock_skew(mut self, max_clock_skew: Duration) -> Self {
        self.options.max_clock_skew = max_clock_skew;
        self
    }

    /// How long one attempt at a command may take before another goes out beside it. From 10 ms to half the ttl.
    /// Defaults to 5 s, or half the ttl where that is less.
    pub fn attempt_deadline(mut self, deadline: Duration) -> Self {
        self.options.attempt_deadline = Some(deadline);
        self
    }

    /// How long an [`acquire`](LeaseManager::acquire) waits unless it says otherwise. Defaults to 30 s.
    pub fn wait(mut self, wait: Duration) -> Self {
        self.options.wait = wait;
        self
    }

    /// How long [`build`](LeaseManagerBuilder::build) may take. It ends sooner when the driver has found no server
    /// within its client's `serverSelectionTimeoutMS`, and then its error names the addresses and why each of them
    /// failed. So this has to be longer than that. Defaults to 35 s, for the driver's default is 30 s.
    pub fn build_deadline(mut self, deadline: Duration) -> Self {
        self.options.build_deadline = deadline;
        self
    }

    /// How long a release is waited for. Defaults to 10 s.
    pub fn release_deadline(mut self, deadline: Duration) -> Self {
        self.options.release_deadline = deadline;
        self
    }

    /// How long a shutdown may take. Defaults to 10 s.
    pub fn shutdown_deadline(mut self, deadline: Duration) -> Self {
        self.options.shutdown_deadline = deadline;
        self
    }

    /// How many commands are under way at once, from 1 to 10,000. A quarter of them, at least one, is kept free for
    /// renewals and releases (unless there is only one). Defaults to 10, which is the size of the driver's connection
    /// pool by default.
    pub fn max_in_flight(mut self, commands: usize) -> Self {
        self.options.max_in_flight = commands;
        self
    }

    /// How long a process that waits in line, and has died, keeps its place: it gives a sign of life after a third of
    /// that. From 500 ms to 10 minutes. Defaults to 10 s.
    ///
    /// A lease that is handed on to a process which has died is lost to everybody for so long, or for the ttl where
    /// that is shorter, and the maximum clock skew.
    pub fn waiter_ttl(mut self, life: Duration) -> Self {
        self.options.waiter_ttl = life;
        self
    }

    /// After how long a waiting call asks the database whatever it has heard, less up to a quarter by chance. Events
    /// and timers come before it; it bounds what a change stream that has fallen silent can cost. At most a day.
    /// Defaults to 15 s.
    pub fn poll_floor(mut self, floor: Duration) -> Self {
        self.options.poll_floor = floor;
        self
    }

    /// Whether waiting calls are woken by a change stream, one a manager, which is open while somebody waits and takes
    /// one of the client's connections. Without it, or where the database does not let us have one, they look again and
    /// again: the first in line after at most a quarter of a second, others more seldom. Defaults to true.
    pub fn change_stream(mut self, watch: bool) -> Self {
        self.options.change_stream = watch;
        self
    }

    /// Whether a release leaves a tombstone: instead of deleting the lease's document it puts one in its place that
    /// expired in 1970, which is free for everybody at once, and which the server's TTL monitor removes within a
    /// minute. It acts on every release of this manager. Names that are new are inserted without a look-up then.
    ///
    /// It keeps a lease cheap where very many come and go under ever new names; the operators' page shows when it
    /// pays, and `mongo-lease doctor` measures it. Not for a collection that is shared with a program that takes a lock
    /// by a plain insert and does not look at `expiresAt`: it would wait for the TTL monitor. Where another program's
    /// index or validator refuses a tombstone, the release deletes. Defaults to false: a release deletes.
    pub fn tombstones(mut self, tombstones: bool) -> Self {
        self.options.tombstones = tombstones;
        self
    }

    /// How many processes may wait in line for one lease. The next one is told
    /// [`Error::QueueFull`](crate::Error::QueueFull). From 1 to 1,024, which is the default.
    pub fn max_waiting(mut self, processes: u32) -> Self {
        self.options.queue_max = processes;
        self
    }

    /// States that the collection has both indexes, for users without the privilege to list them. Nothing is checked
    /// then, and if the unique index is not there, one lease can be granted twice. The hint of each acquire still
    /// finds an index on `name` that is missing altogether. Defaults to false.
    pub fn assume_indexes(mut self, assume: bool) -> Self {
        self.options.assume_indexes = assume;
        self
    }

    /// A manager that only looks, for users who may read and not write: [`get`](LeaseManager::get),
    /// [`list`](LeaseManager::list) and [`ping`](LeaseManager::ping). The privilege `find` is enough for it. The
    /// indexes are checked where the user may list them. Everything that would write is refused with
    /// [`Error::InvalidOption`](crate::Error::InvalidOption), and nothing is sent. Defaults to false.
    pub fn read_only(mut self, read_only: bool) -> Self {
        self.options.read_only = read_only;
        self
    }

    /// Makes the collection and its two indexes where they are missing. For tests, and for those whose services may
    /// create indexes; the usual way is the binary `mongo-lease-migrate`. An index that is there is not changed.
    ///
    /// # Errors
    ///
    /// [`Error::NotMigrated`](crate::Error::NotMigrated) when something stands in the way that only a person can decide
    /// about, such as documents with the same name, or an index that would have to be changed;
    /// [`Error::MissingPrivilege`](crate::Error::MissingPrivilege) or [`Error::MongoDb`](crate::Error::MongoDb) when
    /// the database refuses.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves it open which indexes were made. It can be called again.
    pub async fn ensure_indexes(self) -> Result<Self> {
        self.options.check()?;
        indexes::ensure(&self.database, &self.options.collection).await?;
        Ok(self)
    }

    /// Checks the options, the server and the indexes, and builds the manager. It has to be called within a tokio
    /// runtime, which has to last as long as the manager: its tasks live there.
    ///
    /// # Errors
    ///
    /// - [`Error::InvalidOption`](crate::Error::InvalidOption), before anything is sent, when an option is out of
    ///   range or two contradict each other.
    /// - [`Error::NotMigrated`](crate::Error::NotMigrated) when the unique index on `name` or the TTL index on
    ///   `expiresAt` is missing or is not what it has to be. Nothing is granted then: without the unique index one
    ///   lease can be granted twice.
    /// - [`Error::Unsupported`](crate::Error::Unsupported) when the server cannot do what is needed.
    /// - [`Error::MissingPrivilege`](crate::Error::MissingPrivilege) when the user may not list the indexes: see
    ///   [`assume_indexes`](LeaseManagerBuilder::assume_indexes).
    /// - [`Error::MongoDb`](crate::Error::MongoDb) when the database refuses, or no server was found in the time that
    ///   the client gives the driver for that (`serverSelectionTimeoutMS`, 30 s by default): it names the addresses,
    ///   and why each failed.
    /// - [`Error::Unknown`](crate::Error::Unknown) when the [`build_deadline`](LeaseManagerBuilder::build_deadline)
    ///   is over before that.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves nothing behind.
    pub async fn build(self) -> Result<LeaseManager> {
        Engine::start(self.database, self.options).await.map(LeaseManager::new)
    }
}

impl IntoFuture for LeaseManagerBuilder {
    type Output = Result<LeaseManager>;
    type IntoFuture = Pin<Box<dyn Future<Output = Result<LeaseManager>> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.build())
    }
}

/// Without the database's client, which knows its password.
impl fmt::Debug for LeaseManagerBuilder {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("LeaseManagerBuilder")
            .field("database", &self.database.name())
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}
