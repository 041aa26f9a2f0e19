//! LeaseManager: the handle.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures_core::Stream;

use crate::acquire::{Acquire, Attempt};
use crate::clock;
use crate::commands::probe::Hello;
use crate::commands::release::{GrantMatch, ReleaseTarget};
use crate::commands::renew::{GrantKey, Resume};
use crate::engine::{Engine, ShutdownReport};
use crate::error::{Error, LostReason, Result};
use crate::events::Event;
use crate::hold::Grant;
use crate::hold::unmatched::{Unmatched, why_unmatched};
use crate::info::LeaseInfo;
use crate::lease::{Lease, LeaseKey};
use crate::list::{self, List};
use crate::options::{check_name, check_value};
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

impl LeaseManager {
    pub(crate) fn new(engine: Arc<Engine>) -> LeaseManager {
        LeaseManager { engine }
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
            let unmatched = async |key| why_unmatched(&self.engine.runner, key, policy).await;
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
        match self.engine.renewer.hold(grant) {
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
        let policy = self.engine.release_policy();
        Ok(self.engine.releaser.end(ending, policy).await?)
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

    /// Ends everything: takes no more calls, tells the holders of its leases that they are released, releases them, and
    /// waits for its tasks. All of that within the bound (the manager's
    /// [`shutdown_deadline`](crate::LeaseManagerBuilder::shutdown_deadline), 10 s by default), also when the database
    /// does not answer.
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
