//! Acquire: the pending action.

mod call;
mod queued;

use std::fmt;
use std::future::IntoFuture;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use mongodb::bson::Document;
use tokio_util::sync::CancellationToken;

use crate::acquire::call::{AcquireCall, timeout};
use crate::acquire::queued::QueuedCall;
use crate::clock;
use crate::commands::acquire::{AcquireRequest, QueueOptions};
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::info::LeaseInfo;
use crate::lease::Lease;
use crate::options::{check_hold, check_metadata, check_name, check_owner, check_value};
use crate::rules::holder::HoldOptions;
use crate::rules::time::Instant;
use crate::telemetry::{self, Operation};

/// A call for a lease that has not been made yet: set its options, then `.await` it.
///
/// It waits until the lease is granted, or its time is over. Without an option it waits for up to 30 seconds (the
/// manager's [`wait`](crate::LeaseManagerBuilder::wait)).
///
/// # Errors
///
/// - [`Error::WaitTimeout`] when it was not granted in time, be it that it was held or that the database did not
///   answer; [`Error::Busy`] instead when it was not to wait at all (`wait(Duration::ZERO)`).
/// - [`Error::InvalidName`] and [`Error::InvalidOption`], before anything is sent.
/// - [`Error::NotMigrated`] when the indexes have gone; [`Error::Damaged`] when the lease's document is.
/// - [`Error::QueueFull`] when too many processes wait in line already.
/// - [`Error::ShutDown`] once the manager has been shut down.
/// - [`Error::MongoDb`] when the database refuses, for example for want of a privilege.
///
/// # Fairness
///
/// Calls that wait are granted the lease in the order in which they came, as long as the lease's document is not
/// deleted under them: by another program that follows the plain recipe when it lets go, or by the server's TTL monitor
/// when it comes between an expiry and the first in line. Then they line up anew. Nobody overtakes a process that
/// stands in line and lives.
///
/// All waiting calls of one manager for one lease stand in line together, as one entry, and first come first served
/// among themselves. When one of them is granted the lease and more wait, the manager joins the line again, at its end:
/// a process with a thousand waiting calls and a process with one take turns. A call that gives up leaves its place to
/// the next one of its manager.
///
/// A process that has died keeps its place for the manager's [`waiter_ttl`](crate::LeaseManagerBuilder::waiter_ttl),
/// 10 s by default. A lease that is handed on in line is valid for no longer than that at first, counted from the
/// newest sign of life of its waiter, and for the whole ttl once it is renewed, 100 ms later.
///
/// # Cancel safety
///
/// Dropping the future at any moment is safe. What was granted by then, or is granted later to a command that was
/// under way, is given back in the background, and so is the place in line.
///
/// # Examples
///
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
    metadata: Document,
    value: Option<String>,
}

#[derive(Clone, Copy, Debug)]
enum Wait {
    AsTheManager,
    For(Duration),
    Forever,
}

/// What came of asking once.
#[derive(Debug)]
#[must_use]
pub enum Attempt {
    /// The lease is yours.
    Granted(Lease),
    /// Somebody else has it, or it is free and others stand in line for it.
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
        match self {
            Attempt::Granted(lease) => Some(lease),
            Attempt::Busy(_) => None,
        }
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
            metadata: Document::new(),
            value: None,
        }
    }

    /// How long the lease lasts without a renewal, from 100 ms to 366 days. Defaults to the manager's.
    pub fn ttl(mut self, ttl: Duration) -> Acquire {
        self.ttl = Some(ttl);
        self
    }

    /// How long to wait for it. Zero asks once, and [`Error::Busy`] is the answer when it is held. Defaults to the
    /// manager's.
    pub fn wait(mut self, wait: Duration) -> Acquire {
        self.wait = Wait::For(wait);
        self
    }

    /// Waits for it as long as it takes, also while the database is out of reach.
    pub fn wait_forever(mut self) -> Acquire {
        self.wait = Wait::Forever;
        self
    }

    /// Whether the lease renews itself, after a third of its ttl. Defaults to true.
    pub fn renew(mut self, renew: bool) -> Acquire {
        self.hold_options.renews = renew;
        self
    }

    /// The longest time for which it is held, however often it is renewed; counted from when it was asked for, or
    /// from when it was handed on to one who waits. Then it is lost, as
    /// [`LostReason::Expired`](crate::LostReason::Expired). Defaults to no cap.
    pub fn max_hold(mut self, longest: Duration) -> Acquire {
        self.hold_options.max_hold = Some(longest);
        self
    }

    /// How long the name stays taken at least, counted from the grant: a release that comes earlier ends the lease,
    /// but nobody is granted it before. For jobs that run in less time than clocks differ by. A process that crashes
    /// leaves the name taken for the ttl only. At most 366 days. Defaults to nothing.
    pub fn hold_at_least(mut self, shortest: Duration) -> Acquire {
        self.hold_at_least = Some(shortest);
        self
    }

    /// The label of the holder, which is shown as `label@host:pid`. At most 512 bytes. Defaults to the manager's.
    pub fn owner(mut self, label: impl Into<String>) -> Acquire {
        self.owner = Some(label.into());
        self
    }

    /// What to attach to the lease, for those who look at it. At most 4 KiB of BSON. Defaults to nothing.
    pub fn metadata(mut self, metadata: Document) -> Acquire {
        self.metadata = metadata;
        self
    }

    /// The lease's value: who knows it and the name can release the lease. 1 to 512 bytes without NUL, which do not
    /// begin with `released:`. Defaults to 128 fresh random bits behind the manager's id.
    ///
    /// For services that grant leases to others under an id of theirs. Asking again with the same value while the
    /// lease is held is granted again. That nobody else uses the value, and nobody uses it twice, is the caller's
    /// duty.
    pub fn value(mut self, value: impl Into<String>) -> Acquire {
        self.value = Some(value.into());
        self
    }

    /// Asks once. See [`LeaseManager::try_acquire`](crate::LeaseManager::try_acquire), whose options these are.
    ///
    /// # Errors
    ///
    /// As for waiting, but for [`Error::Busy`] and [`Error::WaitTimeout`]: that somebody has the lease is an answer.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future is safe: what was granted is given back.
    pub async fn try_once(self) -> Result<Attempt> {
        let name = self.name.clone();
        telemetry::span(Operation::Acquire, &name, self.ask_once()).await
    }

    async fn ask_once(self) -> Result<Attempt> {
        let closing = self.engine.closing.clone();
        let once = async {
            let call = self.start(None).await?;
            let deadline = clock::now().after(call.attempt_deadline() * 2);
            match call.until_answered(deadline, None).await? {
                Ok(lease) => Ok(Attempt::Granted(lease)),
                Err(refused) => Ok(Attempt::Busy(Box::new(refused.info))),
            }
        };
        unless_closing(closing, once).await
    }

    /// Acquires the lease, runs `work` with it, and releases it. See
    /// [`LeaseManager::with_lease`](crate::LeaseManager::with_lease).
    ///
    /// # Errors
    ///
    /// As for waiting; and [`Error::Lost`] when the lease was lost before the work had ended.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops the work, and gives the lease back.
    pub async fn run<T, W>(self, work: W) -> Result<T>
    where
        W: AsyncFnOnce(&Lease) -> T,
    {
        let lease = self.await?;
        let output = lease.run(work(&lease)).await?;
        // The work is done; a release that was not confirmed is tried again in the background.
        let _ = lease.release().await;
        Ok(output)
    }

    async fn wait_for_it(self) -> Result<Lease> {
        let started = clock::now();
        let wait = match self.wait {
            Wait::AsTheManager => self.engine.options.wait,
            Wait::For(wait) => wait,
            Wait::Forever => Duration::MAX,
        };
        if wait.is_zero() {
            return match self.ask_once().await? {
                Attempt::Granted(lease) => Ok(lease),
                Attempt::Busy(info) => Err(Error::Busy(info)),
            };
        }
        let closing = self.engine.closing.clone();
        let deadline = started.after(wait);
        let waiting = async {
            let call = self.start_within(deadline).await?;
            QueuedCall::new(call, deadline).wait().await
        };
        unless_closing(closing, waiting).await
    }

    async fn start_within(self, deadline: Instant) -> Result<AcquireCall> {
        let name = self.name.clone();
        let started = clock::now();
        let options = &self.engine.options;
        let joins = QueueOptions { life: options.waiter_ttl, queue_max: options.queue_max };
        match clock::before(deadline, self.start(Some(joins))).await {
            Some(call) => call,
            None => Err(timeout(&name, started, None, None)),
        }
    }

    /// Checks everything that can be checked, before anything is sent.
    async fn start(self, joins: Option<QueueOptions>) -> Result<AcquireCall> {
        check_name(&self.name)?;
        check_metadata(&self.metadata)?;
        check_hold(self.hold_options.max_hold, self.hold_at_least)?;
        let owner = match &self.owner {
            Some(label) => {
                check_owner(label)?;
                clock::describe_process(label)
            }
            None => self.engine.owner.clone(),
        };
        if let Some(value) = &self.value {
            check_value(value)?;
        }
        let timing = match self.ttl {
            Some(ttl) => self.engine.timing_for(ttl)?,
            None => *self.engine.timing,
        };
        self.engine.check_may_write()?;
        self.engine.check_indexes().await?;
        // Also in the call's id: by that the server tells us of promotions to a value that the caller chose.
        let call_id = self.engine.id.call(&clock::random_hex::<16>()?);
        let value = self.value.unwrap_or_else(|| call_id.to_string());
        let request = Arc::new(AcquireRequest {
            name: self.name,
            value,
            call_id,
            owner,
            metadata: self.metadata,
            timing,
            has_oplog: self.engine.topology.has_oplog,
            joins,
        });
        Ok(AcquireCall::new(self.engine, request, self.hold_options, self.hold_at_least))
    }
}

/// Without a value of the caller's own, by which the lease could be released.
impl fmt::Debug for Acquire {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Acquire")
            .field("name", &self.name)
            .field("ttl", &self.ttl)
            .field("wait", &self.wait)
            .finish_non_exhaustive()
    }
}

impl IntoFuture for Acquire {
    type Output = Result<Lease>;
    type IntoFuture = Pin<Box<dyn Future<Output = Result<Lease>> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        let name = self.name.clone();
        Box::pin(telemetry::span(Operation::Acquire, &name, self.wait_for_it()))
    }
}

/// What the future gives, unless the manager is shut down before.
async fn unless_closing<T>(
    closing: CancellationToken,
    future: impl Future<Output = Result<T>>,
) -> Result<T> {
    tokio::select! {
        biased;
        result = future => result,
        () = closing.cancelled() => Err(Error::ShutDown),
    }
}
