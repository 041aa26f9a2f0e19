//! `ScheduledJob`: starts on every machine, runs on one of them.

use std::time::Duration;

use mongo_lease_core::info::LeaseInfo;
use serde::Serialize;

use crate::acquire::{Acquire, Attempt};
#[cfg(doc)]
use crate::error::Error;
use crate::error::Result;
use crate::lease::Lease;
use crate::manager::LeaseManager;
use crate::options::check_job;

/// A job that every machine's scheduler starts, and that only one machine runs.
///
/// The first machine to start it runs it. On every other machine the call returns at once with [`Run::Skipped`]. There
/// is no scheduler in this crate: call [`run`](ScheduledJob::run) from yours.
///
/// # Guarantees
/// - The job runs at most once at a time, under the same assumptions as every [`Lease`].
/// - Within [`at_least`](ScheduledJob::at_least) after a start, the job runs at most once, even if it is done sooner.
///   So choose a time that is longer than the difference of the machines' clocks, and shorter than the time from one
///   start to the next.
/// - [`at_most`](ScheduledJob::at_most) ends a job that hangs.
///
/// It does not guarantee that the job runs to its end. If a machine crashes during the job, the name becomes free after
/// the lease's ttl, however long `at_least` is. If another machine's scheduler fires later than that, the job runs
/// again. So make sure that the job can be run twice, or fence its writes.
///
/// # Examples
/// ```no_run
/// # async fn example(leases: mongo_lease::LeaseManager) -> mongo_lease::Result<()> {
/// use std::time::Duration;
/// use mongo_lease::{Run, ScheduledJob};
///
/// let report = ScheduledJob::new(&leases, "job:report")
///     .at_least(Duration::from_secs(60))
///     .at_most(Duration::from_secs(600));
///
/// // In whatever the scheduler calls at two o'clock:
/// match report.run(async |lease| println!("working under {}", lease.name())).await? {
///     Run::Done(()) => println!("done"),
///     Run::Skipped(held) => println!("skipped: {held}"),
/// }
/// # Ok(())
/// # }
/// ```
///
/// For a scheduler that needs boxed futures, see the example `cron_jobs` in the repository.
#[must_use = "nothing runs until `run` is called"]
#[derive(Clone, Debug)]
pub struct ScheduledJob {
    acquire: Acquire,
    at_most: Option<Duration>,
    at_least: Option<Duration>,
}

/// The result of a job's start.
#[derive(Debug)]
#[must_use]
pub enum Run<T> {
    /// The job ran here and returned this.
    Done(T),
    /// The job runs elsewhere, or has just run there. Nothing was done here.
    Skipped(Box<LeaseInfo>),
}

impl<T> Run<T> {
    /// The job's result, if it ran here.
    #[must_use]
    pub fn done(self) -> Option<T> {
        if let Run::Done(output) = self { Some(output) } else { None }
    }
}

impl ScheduledJob {
    /// Creates a job under a lease of this name. All machines must use the same name.
    pub fn new(leases: &LeaseManager, name: impl Into<String>) -> ScheduledJob {
        ScheduledJob { acquire: leases.acquire(name), at_most: None, at_least: None }
    }

    /// How long the name stays taken at least, counted from the start, also if the job ends earlier or fails. At most
    /// 366 days, and not longer than [`at_most`](ScheduledJob::at_most). Defaults to none: then a machine whose clock
    /// is late by more than the job takes runs it a second time.
    pub fn at_least(mut self, shortest: Duration) -> ScheduledJob {
        self.at_least = Some(shortest);
        self.acquire = self.acquire.hold_at_least(shortest);
        self
    }

    /// How long the job may run. Then it is dropped, and the result is [`Error::Lost`]. At least 100 ms. Defaults to no
    /// limit: the lease renews itself while the job runs.
    pub fn at_most(mut self, longest: Duration) -> ScheduledJob {
        self.at_most = Some(longest);
        self.acquire = self.acquire.max_hold(longest);
        self
    }

    /// How long a crash during the job keeps the name taken. From 100 ms to 366 days. Defaults to the manager's ttl.
    pub fn ttl(mut self, ttl: Duration) -> ScheduledJob {
        self.acquire = self.acquire.ttl(ttl);
        self
    }

    /// The owner label of the machine that runs the job, shown as `label@host:pid`. At most 512 bytes. Defaults to the
    /// manager's.
    pub fn owner(mut self, label: impl Into<String>) -> ScheduledJob {
        self.acquire = self.acquire.owner(label);
        self
    }

    /// [Metadata](Acquire::metadata) of the lease, shown by [`get`](LeaseManager::get) and lists. At most 4 KiB
    /// of BSON. Defaults to none.
    pub fn metadata(mut self, metadata: impl Serialize) -> ScheduledJob {
        self.acquire = self.acquire.metadata(metadata);
        self
    }

    /// Runs the job, unless it runs elsewhere or has just run there.
    ///
    /// While the database does not answer, it retries for the time of two attempts (10 s by default). The work is
    /// dropped if the lease is lost. The future is `Send` if the work's is.
    ///
    /// # Errors
    /// - [`Error::Lost`] if the lease was lost before the work had ended, or the work took longer than
    ///   [`at_most`](ScheduledJob::at_most).
    /// - [`Error::InvalidName`] and [`Error::InvalidOption`], before anything is sent.
    /// - [`Error::MongoDb`] or [`Error::Unknown`] if the database did not answer: nothing ran.
    /// - As [`Acquire`] otherwise, except [`Error::Busy`] and [`Error::WaitTimeout`].
    ///
    /// # Cancel safety
    /// Dropping the future drops the work. The lease is released, or its name stays taken for the rest of
    /// [`at_least`](ScheduledJob::at_least).
    pub async fn run<T, W>(&self, work: W) -> Result<Run<T>>
    where
        W: AsyncFnOnce(&Lease) -> T,
    {
        check_job(self.at_least, self.at_most)?;
        let lease = match self.acquire.clone().try_once().await? {
            Attempt::Granted(lease) => lease,
            Attempt::Busy(held) => return Ok(Run::Skipped(held)),
        };
        let output = lease.run(work(&lease)).await?;
        // The work is done; an unconfirmed release is retried in the background.
        let _ = lease.release().await;
        Ok(Run::Done(output))
    }
}
