//! LeaseManager: the handle.

use std::fmt;
use std::future::IntoFuture;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures_core::Stream;
use mongodb::Database;

use crate::acquire::{Acquire, Attempt};
use crate::clock;
use crate::commands::probe::Hello;
use crate::commands::release::{GrantMatch, ReleaseTarget};
use crate::commands::renew::{GrantKey, Resume};
use crate::engine::{Engine, ShutdownReport};
use crate::error::{Error, LostReason, Result};
use crate::events::Event;
use crate::hold::Grant;
use crate::hold::renewer::Unmatched;
use crate::indexes;
use crate::info::LeaseInfo;
use crate::lease::{Lease, LeaseKey};
use crate::list::{self, List};
use crate::options::{ManagerOptions, check_name, check_value};
use crate::release::{Ending, ReleaseHint, Released};
use crate::retry::{self, RetryPolicy};
use crate::rules::holder::HoldOptions;
use crate::rules::name::check_label;
use crate::rules::time::from_millis;

/// Grants leases. One for each collection and process is enough: it is cheap to clone, and its clones share
/// everything.
///
/// # Examples
///
/// ```no_run
/// # async fn example(client: mongo_lease::mongodb::Client) -> mongo_lease::Result<()> {
/// use mongo_lease::LeaseManager;
///
/// let leases = LeaseManager::builder(&client.database("billing")).owner("billing").build().await?;
/// let lease = leases.acquire("invoice:42").await?;
/// // … the work …
/// lease.release().await?;
/// # Ok(())
/// # }
/// ```
///
/// # Clean shutdown
///
/// When the last clone and the last lease have gone, the tasks end by themselves once everything is given back. A
/// process that ends right behind that leaves leases to expire: call [`shutdown`](LeaseManager::shutdown) first.
#[derive(Clone)]
pub struct LeaseManager {
    engine: Arc<Engine>,
}

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

    /// Asks for a lease, and waits for it: set its options, and `.await` it. See [`Acquire`].
    pub fn acquire(&self, name: impl Into<String>) -> Acquire {
        Acquire::new(Arc::clone(&self.engine), name.into())
    }

    /// Asks for a lease once, without waiting. That somebody else has it is an answer and no error.
    ///
    /// Takes one round trip. While the database does not answer, it goes on asking for two attempts' time: 10 s by
    /// default. [`Acquire::try_once`] is the same with options.
    ///
    /// # Errors
    ///
    /// As [`Acquire`], but for [`Error::Busy`] and [`Error::WaitTimeout`].
    ///
    /// # Cancel safety
    ///
    /// Dropping the future is safe: what was granted is given back.
    pub async fn try_acquire(&self, name: impl Into<String>) -> Result<Attempt> {
        self.acquire(name).try_once().await
    }

    /// Acquires a lease, runs `work` with it, and releases it.
    ///
    /// The work is dropped when the lease is lost. The future is `Send` when the work's is.
    ///
    /// # Errors
    ///
    /// As [`Acquire`]; and [`Error::Lost`] when the lease was lost before the work had ended. That the release was
    /// not confirmed is no error: the work is done, and the lease is given back in the background.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops the work, and gives the lease back.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn example(leases: mongo_lease::LeaseManager) -> mongo_lease::Result<()> {
    /// let sum = leases.with_lease("invoice:42", async |lease| lease.name().len()).await?;
    /// assert_eq!(sum, 10);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn with_lease<T, W>(&self, name: impl Into<String>, work: W) -> Result<T>
    where
        W: AsyncFnOnce(&Lease) -> T,
    {
        self.acquire(name).run(work).await
    }

    /// Takes up a lease that was [detached](Lease::detach), if it is still held: renews it, and holds it from here
    /// on. A key is good for one resume: of two that use the same one, one gets the lease.
    ///
    /// # Errors
    ///
    /// [`Error::Lost`] when it has run out, is somebody else's, or was resumed already ([`LostReason::Resumed`]);
    /// [`Error::MongoDb`] or [`Error::Unknown`] when the database did not answer. After `Unknown` the key may be used
    /// up, as after a dropped future.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future may use up the key: then the lease is held by nobody until its ttl is over. It can be
    /// released by its name and value.
    pub async fn resume(&self, key: LeaseKey) -> Result<Lease> {
        self.engine.check_may_write()?;
        let fresh_id = self.engine.id.call(&clock::random_hex::<16>()?).resumed_grant();
        let grant_key = GrantKey::new(key.name(), key.value(), &fresh_id);
        let resume = Resume { key: key.grant_key(), fresh_id };
        let policy = self.engine.policy();
        let answer = retry::run_alone(&self.engine.alone, key.name(), resume, policy).await?;
        let lost = |reason| Error::Lost { name: key.name().to_owned(), reason };
        let Some((sent, seen)) = answer.reply else {
            let unmatched = async |key| self.engine.renewer.why_unmatched(key, policy).await;
            return Err(match unmatched(&key.grant_key()).await? {
                // It may be we who have resumed it, by an attempt of which we were not told, and it has run out since.
                Unmatched::Lost(LostReason::Resumed)
                    if unmatched(&grant_key).await? == Unmatched::Present =>
                {
                    lost(LostReason::Expired)
                }
                Unmatched::Lost(reason) => lost(reason),
                Unmatched::Present => lost(LostReason::Expired),
                Unmatched::Damaged(found) => Error::damaged(key.name(), found),
            });
        };
        let ttl = seen.ttl_ms.map_or(self.engine.timing.ttl, from_millis);
        let grant = Grant {
            key: grant_key,
            token: key.token(),
            timing: self.engine.shared_timing(self.engine.timing_for(ttl)?),
            hold_options: HoldOptions { renews: true, max_hold: None },
            hold_at_least: None,
            sent,
            term: None,
            is_waited_for: seen.info.waiting > 0,
            expires_at: seen.info.expires_at.unwrap_or_default(),
            call: None,
        };
        match self.engine.hold(grant) {
            Some((number, holding)) => Ok(Lease::new(Arc::clone(&self.engine), holding, number)),
            None => {
                self.engine.check_open()?;
                Err(lost(LostReason::Expired))
            }
        }
    }

    /// Releases a lease by its name and value, whoever holds it: the plain form, for those who keep the value
    /// themselves. Where name and value do not match, nothing is touched.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidName`] and [`Error::InvalidOption`] before anything is sent; [`Error::MongoDb`] or
    /// [`Error::Unknown`] when the release was not confirmed.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves it open whether the lease was released.
    pub async fn release(
        &self,
        name: impl Into<String>,
        value: impl Into<String>,
    ) -> Result<Released> {
        let value = value.into();
        check_value(&value)?;
        self.release_any(name.into(), value).await
    }

    async fn release_any(&self, name: String, value: String) -> Result<Released> {
        check_name(&name)?;
        self.engine.check_may_write()?;
        let target = ReleaseTarget { name, value, grant: GrantMatch::Any };
        let ending = Ending { target, hint: ReleaseHint::NobodyWaits, was_valid: false };
        self.engine.release(ending, None).await
    }

    /// Releases a lease in place of its holder, if it is still held under this value: for operators. The holder is
    /// told by its next renewal at the latest; that it stops is only sure where the resource checks tokens.
    ///
    /// It also frees a name that [`hold_at_least`](Acquire::hold_at_least) keeps after the release: its value begins
    /// with `released:`.
    ///
    /// Take the value from [`get`](LeaseManager::get): between looking and releasing the lease may have changed
    /// hands, and then nothing is touched.
    ///
    /// # Errors
    ///
    /// As [`release`](LeaseManager::release).
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves it open whether the lease was released.
    pub async fn force_release(
        &self,
        name: impl Into<String>,
        expected_value: impl Into<String>,
    ) -> Result<Released> {
        let expected_value = expected_value.into();
        // Any value that may stand in a document: also that of a name which is kept after its release, and the empty
        // one, which another program may have written.
        check_label(&expected_value).map_err(|defect| Error::invalid_option("value", defect))?;
        self.release_any(name.into(), expected_value).await
    }

    /// Who holds a lease; nothing when nobody does.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidName`] before anything is sent; [`Error::MongoDb`] or [`Error::Unknown`] when the database did
    /// not answer.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    pub async fn get(&self, name: impl AsRef<str>) -> Result<Option<LeaseInfo>> {
        list::get(&self.engine, name.as_ref()).await
    }

    /// The leases that are held: all, or by prefix, pattern or owner. See [`List`].
    pub fn list(&self) -> List {
        List::new(Arc::clone(&self.engine))
    }

    /// What happens to this manager's leases from now on. A listener that falls more than 1,024 events behind is told
    /// how many it has missed, and delays nobody.
    pub fn events(&self) -> impl Stream<Item = Event> + Send + use<> {
        self.engine.events.listen()
    }

    /// Asks the database for a sign of life, and says how long that took: for health checks.
    ///
    /// # Errors
    ///
    /// [`Error::MongoDb`] or [`Error::Unknown`] when it gave none within one attempt's time (5 s by default);
    /// [`Error::ShutDown`].
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    pub async fn ping(&self) -> Result<Duration> {
        self.engine.check_open()?;
        let started = clock::now();
        let policy = RetryPolicy::one_attempt(self.engine.timing.attempt_deadline);
        retry::run(&self.engine.runner, Hello, policy).await?;
        Ok(clock::now().since(started))
    }

    /// Ends everything: takes no more calls, tells the holders of its leases that they are released, releases them,
    /// and waits for its tasks. All of that within the bound (the manager's
    /// [`shutdown_deadline`](LeaseManagerBuilder::shutdown_deadline), 10 s by default), also when the database does
    /// not answer.
    ///
    /// It shuts down all clones. The client and its connections stay as they are.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves the manager closed and what was under way going on. It can be called again, and
    /// goes on where the dropped one has stopped.
    pub async fn shutdown(&self) -> ShutdownReport {
        self.engine.shut_down().await
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

    /// How many processes may wait in line for one lease. The next one is told [`Error::QueueFull`]. From 1 to 1,024,
    /// which is the default.
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
    /// [`Error::InvalidOption`], and nothing is sent. Defaults to false.
    pub fn read_only(mut self, read_only: bool) -> Self {
        self.options.read_only = read_only;
        self
    }

    /// Makes the collection and its two indexes where they are missing. For tests, and for those whose services may
    /// create indexes; the usual way is the binary `mongo-lease-migrate`. An index that is there is not changed.
    ///
    /// # Errors
    ///
    /// [`Error::NotMigrated`] when something stands in the way that only a person can decide about, such as documents
    /// with the same name, or an index that would have to be changed; [`Error::MissingPrivilege`] or
    /// [`Error::MongoDb`] when the database refuses.
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
    /// - [`Error::InvalidOption`], before anything is sent, when an option is out of range or two contradict each
    ///   other.
    /// - [`Error::NotMigrated`] when the unique index on `name` or the TTL index on `expiresAt` is missing or is not
    ///   what it has to be. Nothing is granted then: without the unique index one lease can be granted twice.
    /// - [`Error::Unsupported`] when the server cannot do what is needed.
    /// - [`Error::MissingPrivilege`] when the user may not list the indexes: see
    ///   [`assume_indexes`](LeaseManagerBuilder::assume_indexes).
    /// - [`Error::MongoDb`] when the database refuses, or no server was found in the time that the client gives the
    ///   driver for that (`serverSelectionTimeoutMS`, 30 s by default): it names the addresses, and why each failed.
    /// - [`Error::Unknown`] when the [`build_deadline`](LeaseManagerBuilder::build_deadline) is over before that.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves nothing behind.
    pub async fn build(self) -> Result<LeaseManager> {
        Ok(LeaseManager { engine: Engine::start(self.database, self.options).await? })
    }
}

impl IntoFuture for LeaseManagerBuilder {
    type Output = Result<LeaseManager>;
    type IntoFuture = Pin<Box<dyn Future<Output = Result<LeaseManager>> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.build())
    }
}

/// Nothing of the client: its options have the password.
impl fmt::Debug for LeaseManager {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("LeaseManager")
            .field("database", &self.engine.runner.database().name())
            .field("collection", &self.engine.options.collection)
            .finish_non_exhaustive()
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
