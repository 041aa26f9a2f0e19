//! `LeaseManager`: the entry point of the crate.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};
use futures_core::Stream;
use mongo_lease_core::commands::{Form, GrantKey, GrantMatch, Hello, ReleaseTarget, Resume};
use mongo_lease_core::info::LeaseInfo;
use mongo_lease_core::rules::{GrantId, HoldOptions, Permits, check_label, from_millis};

use crate::acquire::semaphore::Semaphore;
use crate::acquire::{Acquire, Attempt};
use crate::clock::Clock;
use crate::engine::{Engine, ShutdownReport};
use crate::error::{Error, LostReason, Result};
use crate::hold::Grant;
use crate::hold::unmatched::{Unmatched, why_unmatched};
use crate::lease::{Lease, LeaseKey};
use crate::list::{self, List};
use crate::options::check_name;
use crate::release::{Ending, ReleaseHint, Released};
use crate::retry::{self, RetryPolicy};
use crate::telemetry::Event;

/// Grants leases. Cheap to clone; clones share everything. One for each collection and process is enough.
///
/// # Examples
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
/// After the last clone and the last lease are dropped, everything is released in the background. If the process ends
/// before that, its leases stay held until they expire: call [`shutdown`](LeaseManager::shutdown) first.
#[derive(Clone)]
pub struct LeaseManager {
    engine: Arc<Engine>,
}

impl LeaseManager {
    pub(crate) fn new(engine: Arc<Engine>) -> LeaseManager {
        LeaseManager { engine }
    }

    pub(crate) fn clock(&self) -> &Clock {
        self.engine.clock()
    }

    /// How long a call waits unless it sets its own time.
    pub(crate) fn default_wait(&self) -> Duration {
        self.engine.options.wait
    }

    /// Acquires a lease, and waits for it: set options, then `.await`. See [`Acquire`].
    pub fn acquire(&self, name: impl Into<String>) -> Acquire {
        Acquire::new(Arc::clone(&self.engine), name.into())
    }

    /// The permits of a name, of which at most `limit` are in use at a time, over all processes. See [`Semaphore`]. A
    /// limit that is not between 1 and 1,000 fails when a permit is acquired.
    pub fn semaphore(&self, name: impl Into<String>, limit: u32) -> Semaphore {
        Semaphore::new(self.acquire(name), limit)
    }

    /// Tries once to acquire a lease, without waiting. A held lease is not an error.
    ///
    /// Takes one round trip; two if the document has an expired queue, and on a standalone server. While the database
    /// does not answer, it retries for the time of two attempts: 10 s by default. With options, it is
    /// [`acquire(…).wait(Duration::ZERO)`](Acquire::wait), where a held lease is an [`Error::Busy`].
    ///
    /// # Errors
    /// As [`Acquire`], except [`Error::Busy`] and [`Error::WaitTimeout`].
    ///
    /// # Cancel safety
    /// Dropping the future is safe: a grant is then released.
    pub async fn try_acquire(&self, name: impl Into<String>) -> Result<Attempt> {
        self.acquire(name).try_once().await
    }

    /// Acquires a lease, runs `work` with it, and releases it. [`Acquire::run`] is the same with options.
    ///
    /// The work is dropped if the lease is lost. The future is `Send` if the work's is.
    ///
    /// # Errors
    /// As [`Acquire`]; and [`Error::Lost`] if the lease was lost before the work had ended. An unconfirmed release is
    /// not an error: it is retried in the background.
    ///
    /// # Cancel safety
    /// Dropping the future drops the work, and releases the lease.
    ///
    /// # Examples
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

    /// Resumes a [detached](Lease::detach) lease, if it is still held: renews it, and holds it from now on.
    ///
    /// A key works once: if two calls use the same key, one of them gets the lease.
    ///
    /// # Errors
    /// [`Error::Lost`] if the lease has expired, has another holder, or was already resumed ([`LostReason::Resumed`]);
    /// [`Error::InvalidName`] or [`Error::InvalidOption`] for a key that no lease gave; [`Error::MongoDb`] or
    /// [`Error::Unknown`] if the database did not answer. After `Unknown` the key may be used up.
    ///
    /// # Cancel safety
    /// Dropping the future may use up the key: then no process holds the lease, and its name stays reserved until the
    /// ttl is over. It can be released by its name and value.
    pub async fn resume(&self, key: LeaseKey) -> Result<Lease> {
        self.engine.check_may_write()?;
        let resumed_key = key.grant_key()?;
        let fresh_id =
            self.engine.id.call(&self.engine.clock().random_hex::<16>()?).resumed_grant();
        let grant_key = GrantKey::new(key.name(), key.value(), &fresh_id);
        let timing = Arc::clone(&self.engine.timing);
        let resume = Resume { key: resumed_key.clone(), fresh_id, ttl: None, timing };
        let policy = self.engine.policy();
        let answer = retry::run_alone(&self.engine.alone, key.name(), resume, policy).await?;
        let lost = |reason| Error::Lost { name: key.name().to_owned(), reason };
        let Some((sent, seen)) = answer.reply else {
            let unmatched =
                async |key| why_unmatched(&self.engine.runner, key, false, policy).await;
            return Err(match unmatched(&resumed_key).await? {
                // An earlier attempt of ours, whose answer was lost, may have resumed it, and it has expired since.
                Unmatched::Lost(LostReason::Resumed)
                    if unmatched(&grant_key).await? == Unmatched::Present =>
                {
                    lost(LostReason::NotRenewed { stood_still: None })
                }
                Unmatched::Lost(reason) => lost(reason),
                Unmatched::Present => lost(LostReason::NotRenewed { stood_still: None }),
                Unmatched::Damaged(found) => Error::damaged(key.name(), found),
            });
        };
        // The command has written it, in place of a damaged one.
        let ttl = seen.ttl_ms.map_or(self.engine.timing.ttl, from_millis);
        let permits = Permits::EXCLUSIVE;
        let grant = Grant {
            key: grant_key,
            token: key.token(),
            timing: self.engine.timing_for(ttl)?,
            hold_options: HoldOptions { renews: true, max_hold: None },
            hold_at_least: None,
            sent,
            term: None,
            permits,
            hint: ReleaseHint::of_grant(permits, &seen.info),
            expires_at: seen.info.expires_at.unwrap_or_default(),
            call: None,
        };
        match self.engine.renewer.hold(grant) {
            Some((number, holding)) => Ok(Lease::new(Arc::clone(&self.engine), holding, number)),
            None => {
                self.engine.check_open()?;
                Err(lost(LostReason::NotRenewed { stood_still: None }))
            }
        }
    }

    /// Renews a [detached](Lease::detach) lease, if it is still held, and leaves it detached. Returns the new expiry,
    /// by the server's clock.
    ///
    /// The key stays valid, so a failed call can be repeated. The lease lasts for its ttl from now on; with `ttl`,
    /// which is then its ttl, for that. The expiry never becomes earlier.
    ///
    /// # Errors
    /// [`Error::Lost`] if the lease has expired, has another holder, or was resumed; [`Error::Damaged`];
    /// [`Error::InvalidOption`] or [`Error::InvalidName`] before anything is sent, also for a key that no lease gave;
    /// [`Error::MongoDb`] or [`Error::Unknown`] if the database did not answer.
    ///
    /// # Cancel safety
    /// If the future is dropped, the server may or may not have renewed the lease.
    ///
    /// # Examples
    /// ```no_run
    /// # async fn example(leases: mongo_lease::LeaseManager) -> mongo_lease::Result<()> {
    /// let key = leases.acquire("invoice:42").await?.detach().await?;
    /// let expires_at = leases.renew_detached(&key, None).await?;
    /// println!("until {expires_at}");
    /// # Ok(())
    /// # }
    /// ```
    pub async fn renew_detached(
        &self,
        key: &LeaseKey,
        ttl: Option<Duration>,
    ) -> Result<DateTime<Utc>> {
        self.engine.check_may_write()?;
        if let Some(ttl) = ttl {
            self.engine.timing_for(ttl)?;
        }
        let key = key.grant_key()?;
        let timing = Arc::clone(&self.engine.timing);
        let renew = Resume { fresh_id: GrantId::from(key.grant_id()), key, ttl, timing };
        let (name, policy) = (renew.key.name().to_owned(), self.engine.policy());
        let answer = retry::run_alone(&self.engine.alone, &name, renew.clone(), policy).await?;
        if let Some((_sent, seen)) = answer.reply {
            return Ok(seen.info.expires_at.unwrap_or_default());
        }
        Err(match why_unmatched(&self.engine.runner, &renew.key, false, policy).await? {
            Unmatched::Lost(reason) => Error::Lost { name, reason },
            Unmatched::Present => {
                Error::Lost { name, reason: LostReason::NotRenewed { stood_still: None } }
            }
            Unmatched::Damaged(found) => Error::damaged(&name, found),
        })
    }

    /// Releases a lease by its name and value, in any process. If they do not match, nothing changes.
    ///
    /// For a service that gave the lease an [own value](Acquire::value), and for operators, who read the value with
    /// [`get`](LeaseManager::get). If the lease gets another holder between that and the release, nothing changes. Of a
    /// [lease that several hold](LeaseInfo::shared), the value of one of its [holders](LeaseInfo::holders) ends the
    /// permits of that one. A name that [`hold_at_least`](Acquire::hold_at_least) reserves after a release is freed
    /// too: its value begins with `released:`.
    ///
    /// The holder learns of it by its next renewal at the latest. Its work is certain to stop only where the resource
    /// checks tokens.
    ///
    /// # Errors
    /// [`Error::InvalidName`] and [`Error::InvalidOption`] before anything is sent; [`Error::Damaged`] if the document
    /// is damaged: then nothing was written; [`Error::MongoDb`] or [`Error::Unknown`] if the release was not confirmed.
    ///
    /// # Cancel safety
    /// If the future is dropped, the lease may or may not have been released.
    pub async fn release(
        &self,
        name: impl Into<String>,
        value: impl Into<String>,
    ) -> Result<Released> {
        let (name, value) = (name.into(), value.into());
        check_name(&name)?;
        // Any value that can be in a document is allowed: also that of a tombstone, and an empty one.
        check_label(&value).map_err(|reason| Error::invalid_option("value", reason))?;
        // But not the one that all holders of a shared lease have: its release would delete their document.
        if LeaseInfo::is_shared_value(&value) {
            let reason = "is that of a lease that several hold: name one of its holders";
            return Err(Error::invalid_option("value", reason));
        }
        let grant = GrantMatch::Any;
        self.release_target(ReleaseTarget { name, value, grant, form: Form::Either }).await
    }

    /// Releases a [detached](Lease::detach) lease, in any process.
    ///
    /// Unlike [`release`](LeaseManager::release), it leaves a lease alone that was [resumed](LeaseManager::resume) with
    /// this key: the result is [`Released::NotHeld`].
    ///
    /// # Errors
    /// [`Error::InvalidName`] or [`Error::InvalidOption`] for a key that no lease gave; [`Error::Damaged`] if the
    /// document is damaged: then nothing was written; [`Error::MongoDb`] or [`Error::Unknown`] if the release was not
    /// confirmed. The key stays good for another call.
    ///
    /// # Cancel safety
    /// If the future is dropped, the lease may or may not have been released.
    ///
    /// # Examples
    /// ```no_run
    /// # async fn example(leases: mongo_lease::LeaseManager) -> mongo_lease::Result<()> {
    /// let key = leases.acquire("invoice:42").await?.detach().await?;
    /// leases.release_detached(&key).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn release_detached(&self, key: &LeaseKey) -> Result<Released> {
        let key = key.grant_key()?;
        let grant = GrantMatch::Grant(GrantId::from(key.grant_id()));
        let (name, value) = (key.name().to_owned(), key.value().to_owned());
        self.release_target(ReleaseTarget { name, value, grant, form: Form::Plain }).await
    }

    async fn release_target(&self, target: ReleaseTarget) -> Result<Released> {
        self.engine.check_may_write()?;
        let (hint, target_again) = (ReleaseHint::Alone, target.clone());
        let (releaser, policy) = (&self.engine.releaser, self.engine.release_policy());
        let released =
            releaser.end(Ending { target, hint, was_valid: false, applied: None }, policy).await?;
        if released != Released::Released {
            releaser.check_sound(target_again, policy).await?;
        }
        Ok(released)
    }

    /// Reads the state of a lease; `None` if it is not held. Of one that [several hold](LeaseInfo::shared), it reads
    /// the [holders](LeaseInfo::holders) too.
    ///
    /// # Errors
    /// [`Error::InvalidName`] before anything is sent; [`Error::MongoDb`] or [`Error::Unknown`] if the database did not
    /// answer.
    ///
    /// # Cancel safety
    /// Dropping the future changes nothing.
    pub async fn get(&self, name: impl AsRef<str>) -> Result<Option<LeaseInfo>> {
        list::get(&self.engine, name.as_ref()).await
    }

    /// Lists the held leases: all, or by prefix, pattern or owner. See [`List`].
    pub fn list(&self) -> List {
        List::new(Arc::clone(&self.engine))
    }

    /// Streams the events of this manager's leases from now on. A listener that falls more than 1,024 events behind
    /// gets the number of missed events, and delays no other task.
    pub fn events(&self) -> impl Stream<Item = Event> + Send + use<> {
        self.engine.events.listen()
    }

    /// Sends a command to the database and returns its round-trip time. For health checks.
    ///
    /// # Errors
    /// [`Error::MongoDb`] or [`Error::Unknown`] if the database does not answer within the time of one attempt (5 s by
    /// default); [`Error::ShutDown`].
    ///
    /// # Cancel safety
    /// Dropping the future changes nothing.
    pub async fn ping(&self) -> Result<Duration> {
        self.engine.check_open()?;
        let started = self.engine.clock().now();
        let policy = RetryPolicy::one_attempt(started, self.engine.timing.attempt_timeout);
        retry::run(&self.engine.runner, Hello, policy).await?;
        Ok(self.engine.clock().now().since(started))
    }

    /// Shuts the manager down, with all its clones, and releases its leases. The client stays open.
    ///
    /// It accepts no more calls, tells the holders of its leases that these are released, releases them, and waits for
    /// its tasks: within the manager's [`shutdown_timeout`](crate::LeaseManagerBuilder::shutdown_timeout) (10 s by
    /// default), also if the database does not answer.
    ///
    /// # Cancel safety
    /// If the future is dropped, the manager stays closed, and commands in progress go on. A second call continues.
    pub async fn shutdown(&self) -> ShutdownReport {
        self.engine.shut_down().await
    }
}

/// Prints nothing of the client: its options contain the password.
impl fmt::Debug for LeaseManager {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let runner = &self.engine.runner;
        let mut shown = formatter.debug_struct("LeaseManager");
        shown.field("database", &runner.database_name()).field("collection", &runner.collection());
        shown.finish_non_exhaustive()
    }
}
