//! [`Acquire`]: the options of an acquire call, and the future that makes it.

mod call;
mod queued;
pub(crate) mod semaphore;
#[cfg(all(test, feature = "memory"))]
mod tests;

use std::fmt;
use std::future::IntoFuture;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use mongo_lease_core::commands::{AcquireRequest, QueueOptions};
use mongo_lease_core::info::{LeaseInfo, to_document};
use mongo_lease_core::rules::{HoldOptions, Instant, Permits, Timing, millis_up};
use mongodb::bson::Document;
use serde::Serialize;

use crate::acquire::call::AcquireCall;
use crate::acquire::queued::QueuedCall;
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::lease::Lease;
use crate::options::{
    check_hold, check_metadata, check_name, check_owner, check_permits, check_share, check_value,
};
use crate::telemetry::Operation;

/// An acquire call that has not been sent yet: set its options, then `.await` it.
///
/// It waits until the lease is granted, by default for up to 30 s (the manager's
/// [`wait`](crate::LeaseManagerBuilder::wait)).
///
/// # Errors
/// - [`Error::WaitTimeout`] when the lease was not granted in time: because it was held, because earlier calls of this
///   manager for the same name went before, or because the database did not answer. With `wait(Duration::ZERO)`, a
///   lease that is held gives [`Error::Busy`] instead.
/// - [`Error::InvalidName`] and [`Error::InvalidOption`], before anything is sent.
/// - [`Error::NotMigrated`] when the indexes are missing; [`Error::Damaged`] when the lease document is corrupt.
/// - [`Error::QueueFull`] when the queue has as many entries as it may have.
/// - [`Error::ShutDown`] once the manager has been shut down; [`Error::Unsupported`] when the runtime in which it was
///   built has ended.
/// - [`Error::MongoDb`] when the database refuses, for example because a privilege is missing.
///
/// # Fairness
/// Waiting calls are granted the lease in the order in which they came, and no live process in the queue is overtaken;
/// unless the lease document is deleted while they wait, by another program that releases with the plain recipe, or by
/// the server's TTL monitor between an expiry and the next grant. Then all waiters join the queue anew.
///
/// All waiting calls of one manager for one lease share one queue entry, and are served in their order. When one of
/// them is granted the lease, the manager joins the queue again at its end: a process with a thousand waiting calls and
/// a process with one alternate. A call that gives up leaves the entry to the next one. One that is woken and not
/// polled for a second or two, while another waits behind it, starts over at the end. Of the calls for
/// [permits](Acquire::permits), up to 16 of one manager have entries of their own.
///
/// The entry of a process that has died stays in the queue for the manager's
/// [`waiter_ttl`](crate::Tuning::waiter_ttl), 10 s by default. A lease that is handed off to a waiter is
/// at first valid for no longer than that, counted from the waiter's newest heartbeat; 100 ms later it is renewed and
/// valid for the whole ttl.
///
/// The manager renews a lease once the call has returned it. A call that is not polled after its grant can return a
/// lease that has little time left: [`Lease::remaining`] tells how much.
///
/// # Cancel safety
/// Dropping the future at any moment is safe. The manager removes the queue entry in the background, and releases every
/// grant of the call, also one that a command under way brings later.
///
/// # Examples
/// ```no_run
/// # async fn example(leases: mongo_lease::LeaseManager) -> mongo_lease::Result<()> {
/// use std::time::Duration;
///
/// let lease = leases
///     .acquire("invoice:42")
///     .ttl(Duration::from_secs(20))
///     .wait(Duration::from_secs(5))
///     .await?;
/// lease.release().await?;
/// # Ok(())
/// # }
/// ```
#[must_use = "nothing is acquired until it is awaited"]
#[derive(Clone)]
pub struct Acquire {
    engine: Arc<Engine>,
    name: String,
    ttl: Option<Duration>,
    wait: Wait,
    hold_options: HoldOptions,
    hold_at_least: Option<Duration>,
    owner: Option<String>,
    /// The document, or why the caller's value is none.
    metadata: Result<Document, String>,
    value: Option<String>,
    limit: Option<u32>,
    permits: Option<u32>,
    is_shared: bool,
}

#[derive(Clone, Copy, Debug)]
enum Wait {
    AsTheManager,
    For(Duration),
    Forever,
}

/// The outcome of one attempt to acquire a lease without waiting.
#[derive(Debug)]
#[must_use]
pub enum Attempt {
    /// The lease was granted.
    Granted(Lease),
    /// Another holder has the lease, or it is free and others wait for it.
    Busy(Box<LeaseInfo>),
}

impl Attempt {
    /// Whether the lease was granted.
    #[must_use]
    pub fn is_granted(&self) -> bool {
        matches!(self, Attempt::Granted(_))
    }

    /// The lease, if it was granted.
    #[must_use]
    pub fn granted(self) -> Option<Lease> {
        if let Attempt::Granted(lease) = self { Some(lease) } else { None }
    }
}

impl Acquire {
    pub(crate) fn new(engine: Arc<Engine>, name: String) -> Acquire {
        Acquire {
            engine,
            name,
            ttl: None,
            wait: Wait::AsTheManager,
            hold_options: HoldOptions { renews: true, max_hold: None },
            hold_at_least: None,
            owner: None,
            metadata: Ok(Document::new()),
            value: None,
            limit: None,
            permits: None,
            is_shared: false,
        }
    }

    pub(crate) fn of_name(mut self, name: &str) -> Acquire {
        name.clone_into(&mut self.name);
        self
    }

    /// How long the lease lasts without a renewal, from 100 ms to 366 days. Defaults to the manager's.
    pub fn ttl(mut self, ttl: Duration) -> Acquire {
        self.ttl = Some(ttl);
        self
    }

    /// How long to wait for the lease. Defaults to the manager's.
    ///
    /// Zero means one attempt: [`LeaseManager::try_acquire`](crate::LeaseManager::try_acquire) with options, where a
    /// lease that is held is an [`Error::Busy`].
    pub fn wait(mut self, wait: Duration) -> Acquire {
        self.wait = Wait::For(wait);
        self
    }

    /// Waits without a time limit, also while the database cannot be reached.
    pub fn wait_forever(mut self) -> Acquire {
        self.wait = Wait::Forever;
        self
    }

    /// Whether the lease renews itself, after a third of its ttl. Defaults to true.
    pub fn renew(mut self, renew: bool) -> Acquire {
        self.hold_options.renews = renew;
        self
    }

    /// The longest time for which the lease is held, however often it is renewed: from the start of the acquire call,
    /// or from the hand-off to a waiter. Then it is lost, as
    /// [`LostReason::EndedAsAsked`](crate::LostReason::EndedAsAsked). Defaults to no limit.
    pub fn max_hold(mut self, longest: Duration) -> Acquire {
        self.hold_options.max_hold = Some(longest);
        self
    }

    /// How long the name stays taken at least, counted from the grant, also after an earlier release: for jobs that run
    /// in less time than the clocks of their machines differ by. At most 366 days. Defaults to nothing.
    ///
    /// A process that crashes leaves the name taken for the ttl only. Refused for a lease that
    /// [others may hold too](Lease::is_shared).
    pub fn hold_at_least(mut self, shortest: Duration) -> Acquire {
        self.hold_at_least = Some(shortest);
        self
    }

    /// The label of the holder, which is shown as `label@host:pid`. At most 512 bytes. Defaults to the manager's.
    pub fn owner(mut self, label: impl Into<String>) -> Acquire {
        self.owner = Some(label.into());
        self
    }

    /// Metadata stored in the lease document, for those who inspect it: a struct, a map or a `Document`. At most 4 KiB
    /// of BSON; 256 bytes for a lease that [others may hold too](Lease::is_shared). Defaults to none.
    ///
    /// A value that is no document fails with [`Error::InvalidOption`] before anything is sent.
    /// [`LeaseInfo::metadata`] reads them again.
    ///
    /// # Examples
    /// ```no_run
    /// # async fn example(leases: mongo_lease::LeaseManager) -> Result<(), Box<dyn std::error::Error>> {
    /// #[derive(serde::Serialize, serde::Deserialize)]
    /// struct Job {
    ///     started_by: String,
    /// }
    ///
    /// let job = Job { started_by: "ann".to_owned() };
    /// let _lease = leases.acquire("job:report").metadata(&job).await?;
    /// if let Some(held) = leases.get("job:report").await? {
    ///     println!("started by {}", held.metadata::<Job>()?.started_by);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn metadata(mut self, metadata: impl Serialize) -> Acquire {
        self.metadata = to_document(&metadata);
        self
    }

    /// The lease's value: with it and the name, a program can release the lease. For a service that grants leases to
    /// others under an id of its own. Defaults to the manager's id followed by 128 fresh random bits.
    ///
    /// 1 to 512 bytes without NUL. A value that begins with `released:`, or is `mongo-lease/shared`, is refused. The
    /// caller must make sure that nobody else uses the value, and that no value is used twice.
    ///
    /// Another call with the same value, made while the lease is held, is granted it again. If that lease has
    /// [permits](Acquire::permits), it keeps their number and its limit, whatever the other call for permits asks for.
    /// An exclusive lease and permits exclude each other also with one value.
    pub fn value(mut self, value: impl Into<String>) -> Acquire {
        self.value = Some(value.into());
        self
    }

    /// Makes one attempt, whatever the wait.
    pub(crate) async fn try_once(self) -> Result<Attempt> {
        let span = self.engine.span(Operation::Acquire, &self.name, None);
        let ended = |attempt: &Attempt| match attempt {
            Attempt::Granted(lease) => ("granted", Some(lease.granted_token())),
            Attempt::Busy(_) => ("busy", None),
        };
        span.around(Box::new(self).ask_once(), ended).await
    }

    async fn ask_once(self: Box<Acquire>) -> Result<Attempt> {
        let engine = Arc::clone(&self.engine);
        let once = pin!(async {
            let checked = self.check().await?;
            let call = self.start(checked, None)?;
            let deadline = call.engine.clock().now().after(call.request.timing.attempt_timeout * 2);
            match call.until_answered(deadline, None).await? {
                Ok(lease) => Ok(Attempt::Granted(lease)),
                Err(refused) => Ok(Attempt::Busy(Box::new(refused.info))),
            }
        });
        unless_ended(&engine, once).await
    }

    /// Acquires the lease, runs `work` with it, and releases it. See
    /// [`LeaseManager::with_lease`](crate::LeaseManager::with_lease).
    ///
    /// # Errors
    /// As for waiting; and [`Error::Lost`] when the lease was lost before the work had ended.
    ///
    /// # Cancel safety
    /// Dropping the future drops the work and releases the lease.
    pub async fn run<T, W>(self, work: W) -> Result<T>
    where
        W: AsyncFnOnce(&Lease) -> T,
    {
        let lease = self.await?;
        let output = lease.run(work(&lease)).await?;
        // The work is done; a release that was not confirmed is retried in the background.
        let _ = lease.release().await;
        Ok(output)
    }

    /// Takes a box, because each future that takes the options by value has its own copy of them.
    async fn wait_for_it(self: Box<Acquire>) -> Result<Lease> {
        let started = self.engine.clock().now();
        let wait = match self.wait {
            Wait::AsTheManager => self.engine.options.wait,
            Wait::For(wait) => wait,
            Wait::Forever => Duration::MAX,
        };
        if wait.is_zero() {
            // Boxed, so that the future of a call that waits is not as large as this one.
            return match Box::pin(self.ask_once()).await? {
                Attempt::Granted(lease) => Ok(lease),
                Attempt::Busy(info) => Err(Error::Busy(info)),
            };
        }
        let engine = Arc::clone(&self.engine);
        let deadline = started.after(wait);
        let waiting = pin!(async {
            let call = self.start_within(deadline).await?;
            QueuedCall::new(call, deadline).wait().await
        });
        unless_ended(&engine, waiting).await
    }

    async fn start_within(self: Box<Acquire>, deadline: Instant) -> Result<AcquireCall> {
        let clock = self.engine.clock();
        let started = clock.now();
        let Some(checked) = clock.before(deadline, self.check()).await else {
            let (name, waited) = (self.name, clock.now().since(started));
            let (held, source) = (None, None);
            return Err(Error::WaitTimeout { name, waited, waited_for_turn: false, held, source });
        };
        let options = &self.engine.options;
        let waiter_ttl = millis_up(options.tuning.waiter_ttl);
        let joins = QueueOptions { waiter_ttl, max_waiting: options.tuning.max_waiting };
        self.start(checked?, Some(joins))
    }

    /// Checks all options before anything is sent, and returns the timings and the permits.
    async fn check(&self) -> Result<(Arc<Timing>, Permits)> {
        check_name(&self.name)?;
        let metadata = check_metadata(&self.metadata)?;
        check_hold(self.hold_options.max_hold, self.hold_at_least)?;
        if let Some(label) = &self.owner {
            check_owner(label)?;
        }
        if let Some(value) = &self.value {
            check_value(value)?;
        }
        let permits = check_permits(self.limit, self.permits, self.is_shared)?;
        if !permits.is_exclusive() {
            check_share(metadata, self.hold_at_least)?;
            self.engine.check_shares()?;
        }
        let timing = match self.ttl {
            Some(ttl) => self.engine.timing_for(ttl)?,
            None => Arc::clone(&self.engine.timing),
        };
        self.engine.check_may_write()?;
        self.engine.check_indexes().await?;
        Ok((timing, permits))
    }

    /// Makes the call. It has sent nothing yet.
    fn start(
        self,
        (timing, permits): (Arc<Timing>, Permits),
        joins: Option<QueueOptions>,
    ) -> Result<AcquireCall> {
        let owner = match &self.owner {
            Some(label) => self.engine.clock().describe_process(label).into(),
            None => Arc::clone(&self.engine.owner),
        };
        // The call's id has random bits too: the change stream reports promotions by it, even for a value that the
        // caller chose.
        let call_id = self.engine.id.call(&self.engine.clock().random_hex::<16>()?);
        let value = self.value.unwrap_or_else(|| call_id.to_string());
        let request = Arc::new(AcquireRequest {
            name: self.name,
            value,
            call_id,
            owner,
            metadata: self.metadata.unwrap_or_default(),
            permits,
            timing,
            has_oplog: self.engine.topology.has_oplog,
            joins,
        });
        let hold_at_least = self.hold_at_least;
        Ok(AcquireCall::new(self.engine, request, self.hold_options, hold_at_least))
    }
}

/// Leaves out a caller's own value, with which the lease could be released.
impl fmt::Debug for Acquire {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = formatter.debug_struct("Acquire");
        shown.field("name", &self.name).field("ttl", &self.ttl).field("wait", &self.wait);
        shown.finish_non_exhaustive()
    }
}

impl IntoFuture for Acquire {
    type Output = Result<Lease>;
    type IntoFuture = Pin<Box<dyn Future<Output = Result<Lease>> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        let span = self.engine.span(Operation::Acquire, &self.name, None);
        let ended = |lease: &Lease| ("granted", Some(lease.granted_token()));
        Box::pin(span.around(Box::new(self).wait_for_it(), ended))
    }
}

/// The result of the future, or an error when the manager is shut down first, or its runtime ends.
///
/// The future stays where it is pinned: one that is moved into another one takes its bytes twice.
async fn unless_ended<T>(
    engine: &Engine,
    future: Pin<&mut impl Future<Output = Result<T>>>,
) -> Result<T> {
    tokio::select! {
        biased;
        result = future => result,
        () = engine.ended.cancelled() => Err(engine.why_ended()),
    }
}
