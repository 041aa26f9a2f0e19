//! ScheduledJob: what a scheduler starts on every machine, and runs on one.

use std::time::Duration;

use mongodb::bson::Document;

use crate::acquire::{Acquire, Attempt};
use crate::error::{Error, Result};
use crate::info::LeaseInfo;
use crate::info::human;
use crate::lease::Lease;
use crate::manager::LeaseManager;

/// A job that a scheduler starts on every machine at about the same time, and that is to run on one of them.
///
/// Who comes first runs it. Everybody else is told at once that it is skipped, and waits for nothing. It brings no
/// scheduler along: call [`run`](ScheduledJob::run) from the one that you have.
///
/// # Guarantees
///
/// - It runs at most once at a time, under the same assumptions as every [`Lease`].
/// - Within [`at_least`](ScheduledJob::at_least) of its start it runs at most once, also when it is done in no time:
///   so let that be longer than the machines' clocks differ by, and shorter than the time from one start to the next.
/// - [`at_most`](ScheduledJob::at_most) ends it when it hangs.
///
/// It does not guarantee that the job runs to its end. A machine that crashes in the middle frees the name after the
/// lease's ttl, however long `at_least` is, and what comes next is up to the schedule. A scheduler that fires later
/// than that on another machine runs the job again; so the job should be one that can be run twice, or fence its
/// writes.
///
/// # Examples
///
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
/// A scheduler that wants boxed futures, such as `tokio-cron-scheduler`, is given a clone each time:
///
/// ```no_run
/// # use std::pin::Pin;
/// # type Task = Box<dyn FnMut() -> Pin<Box<dyn Future<Output = ()> + Send>> + Send>;
/// # fn example(report: mongo_lease::ScheduledJob) -> Task {
/// Box::new(move || {
///     let report = report.clone();
///     Box::pin(async move {
///         if let Err(error) = report.run(async |_lease| { /* the work */ }).await {
///             eprintln!("the report was not made: {error}");
///         }
///     })
/// })
/// # }
/// ```
#[must_use = "nothing runs until `run` is called"]
#[derive(Clone, Debug)]
pub struct ScheduledJob {
    leases: LeaseManager,
    name: String,
    ttl: Option<Duration>,
    at_most: Option<Duration>,
    at_least: Option<Duration>,
    owner: Option<String>,
    metadata: Document,
}

/// What became of a job's start.
#[derive(Debug)]
#[must_use]
pub enum Run<T> {
    /// It ran here, and gave this.
    Done(T),
    /// It runs elsewhere, or has run there just now. Nothing was done here.
    Skipped(Box<LeaseInfo>),
}

impl<T> Run<T> {
    /// What the job gave, if it ran here.
    #[must_use]
    pub fn done(self) -> Option<T> {
        match self {
            Run::Done(output) => Some(output),
            Run::Skipped(_) => None,
        }
    }
}

impl ScheduledJob {
    /// A job under a lease of this name, which must be the same on every machine.
    pub fn new(leases: &LeaseManager, name: impl Into<String>) -> ScheduledJob {
        ScheduledJob {
            leases: leases.clone(),
            name: name.into(),
            ttl: None,
            at_most: None,
            at_least: None,
            owner: None,
            metadata: Document::new(),
        }
    }

    /// How long the name stays taken at least, counted from the start, also when the job ends earlier or fails. At
    /// most 366 days, and not longer than [`at_most`](ScheduledJob::at_most). Defaults to nothing: then a machine
    /// whose clock is late by more than the job takes runs it a second time.
    pub fn at_least(mut self, shortest: Duration) -> ScheduledJob {
        self.at_least = Some(shortest);
        self
    }

    /// How long the job may run. Then it is dropped, and [`Error::Lost`] is the answer. At least 100 ms. Defaults to
    /// no limit: the lease renews itself for as long as the job runs.
    pub fn at_most(mut self, longest: Duration) -> ScheduledJob {
        self.at_most = Some(longest);
        self
    }

    /// For how long a crash in the middle keeps the name taken, from 100 ms to 366 days. Defaults to the manager's
    /// ttl.
    pub fn ttl(mut self, ttl: Duration) -> ScheduledJob {
        self.ttl = Some(ttl);
        self
    }

    /// The label under which the machine that runs it is shown, as `label@host:pid`. At most 512 bytes. Defaults to
    /// the manager's.
    pub fn owner(mut self, label: impl Into<String>) -> ScheduledJob {
        self.owner = Some(label.into());
        self
    }

    /// What to attach to the lease, for those who look at it. At most 4 KiB of BSON. Defaults to nothing.
    pub fn metadata(mut self, metadata: Document) -> ScheduledJob {
        self.metadata = metadata;
        self
    }

    /// Runs the job, unless it runs elsewhere or has run there just now.
    ///
    /// It asks once, which takes one round trip; while the database does not answer, it goes on asking for two
    /// attempts' time (10 s by default). The work is dropped when the lease is lost. The future is `Send` when the
    /// work's is.
    ///
    /// # Errors
    ///
    /// - [`Error::Lost`] when the lease was lost before the work had ended, or the work took longer than
    ///   [`at_most`](ScheduledJob::at_most).
    /// - [`Error::InvalidName`] and [`Error::InvalidOption`], before anything is sent.
    /// - [`Error::MongoDb`] or [`Error::Unknown`] when the database did not answer: nothing ran.
    /// - As [`Acquire`] otherwise, but for [`Error::Busy`] and [`Error::WaitTimeout`].
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops the work. The lease is given back, or stays taken for the rest of
    /// [`at_least`](ScheduledJob::at_least).
    pub async fn run<T, W>(&self, work: W) -> Result<Run<T>>
    where
        W: AsyncFnOnce(&Lease) -> T,
    {
        let lease = match self.request()?.try_once().await? {
            Attempt::Granted(lease) => lease,
            Attempt::Busy(held) => return Ok(Run::Skipped(held)),
        };
        let output = lease.run(work(&lease)).await?;
        // The work is done; a release that was not confirmed is tried again in the background.
        let _ = lease.release().await;
        Ok(Run::Done(output))
    }

    fn request(&self) -> Result<Acquire> {
        if let (Some(shortest), Some(longest)) = (self.at_least, self.at_most)
            && shortest > longest
        {
            let (shortest, longest) = (human(shortest), human(longest));
            let reason = format!("{shortest} is longer than `at_most`, which is {longest}");
            return Err(Error::invalid_option("at_least", reason));
        }
        let mut ask = self.leases.acquire(&self.name).metadata(self.metadata.clone());
        if let Some(ttl) = self.ttl {
            ask = ask.ttl(ttl);
        }
        if let Some(longest) = self.at_most {
            ask = ask.max_hold(longest);
        }
        if let Some(shortest) = self.at_least {
            ask = ask.hold_at_least(shortest);
        }
        if let Some(owner) = &self.owner {
            ask = ask.owner(owner);
        }
        Ok(ask)
    }
}
