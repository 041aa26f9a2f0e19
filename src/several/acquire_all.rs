//! [`AcquireAll`]: acquires the leases of several names, all or none.
//!
//! A deadlock needs a call that holds one name and waits for another, and a second call that does the reverse. So a
//! call waits for a name only while it holds none that comes after it, in the order of names.

use std::collections::BTreeMap;
use std::fmt;
use std::future::IntoFuture;
use std::pin::Pin;
use std::time::Duration;

use futures_util::future::join_all;
use mongodb::bson::Document;

use super::lease_set::{LeaseSet, first_lost};
use crate::acquire::{Acquire, Attempt};
use crate::error::{Error, Result};
use crate::lease::Lease;
use crate::manager::LeaseManager;
use crate::rules::time::Instant;

/// The most names of one call.
const NAMES_MAX: usize = 1_000;

/// A call for the leases of several names that has not been sent yet: set its options, then `.await` it.
///
/// It gets all of them, or none. All names are tried at once. Where some are taken, the call waits for them one after
/// the other, in the order of the names' bytes, until its waiting time is over. Meanwhile it keeps the leases of the
/// names before the one that it waits for, and gives the others back. So calls for overlapping names, in whatever order
/// they are written, never wait for each other in a circle.
///
/// By default it waits for up to 30 seconds in all (the manager's [`wait`](crate::LeaseManagerBuilder::wait)).
///
/// # Errors
///
/// As [`Acquire`], for the first name that fails; and [`Error::InvalidOption`], before anything is sent: for no name,
/// for more than 1,000, or for a name that comes twice.
///
/// # Fairness
///
/// For the name that it waits for, a call has its place in the queue like any other. It can be overtaken at the names
/// after that one.
///
/// # Cancel safety
///
/// Dropping the future at any moment is safe: the leases that it has are released in the background.
///
/// # Examples
///
/// ```no_run
/// # async fn example(leases: mongo_lease::LeaseManager) -> mongo_lease::Result<()> {
/// let accounts = leases.acquire_all(["account:7", "account:3"]).await?;
/// let fence = accounts.get("account:3").expect("it is one of the names").token()?;
/// println!("both accounts are ours, one of them with token {fence}");
/// accounts.release().await?;
/// # Ok(())
/// # }
/// ```
#[must_use = "nothing is acquired until it is awaited"]
#[derive(Clone)]
pub struct AcquireAll {
    leases: LeaseManager,
    names: Vec<String>,
    ttl: Option<Duration>,
    wait: Option<Duration>,
    renew: bool,
    owner: Option<String>,
    metadata: Document,
}

impl LeaseManager {
    /// Acquires the leases of several names, all or none: set options, then `.await`. See [`AcquireAll`].
    pub fn acquire_all<S: Into<String>>(&self, names: impl IntoIterator<Item = S>) -> AcquireAll {
        AcquireAll {
            leases: self.clone(),
            names: names.into_iter().map(Into::into).collect(),
            ttl: None,
            wait: None,
            renew: true,
            owner: None,
            metadata: Document::new(),
        }
    }
}

impl AcquireAll {
    /// How long each lease lasts without a renewal, from 100 ms to 366 days. Defaults to the manager's.
    pub fn ttl(mut self, ttl: Duration) -> AcquireAll {
        self.ttl = Some(ttl);
        self
    }

    /// How long to wait for all leases together. Defaults to the manager's.
    ///
    /// Zero means one attempt, which gives [`Error::Busy`] when a lease is held.
    pub fn wait(mut self, wait: Duration) -> AcquireAll {
        self.wait = Some(wait);
        self
    }

    /// Waits without a time limit, also while the database cannot be reached.
    pub fn wait_forever(self) -> AcquireAll {
        self.wait(Duration::MAX)
    }

    /// Whether the leases renew themselves, after a third of the ttl. Defaults to true.
    pub fn renew(mut self, renew: bool) -> AcquireAll {
        self.renew = renew;
        self
    }

    /// The label of the holder, which is shown as `label@host:pid`. At most 512 bytes. Defaults to the manager's.
    pub fn owner(mut self, label: impl Into<String>) -> AcquireAll {
        self.owner = Some(label.into());
        self
    }

    /// Metadata stored in each lease's document, for those who inspect it. At most 4 KiB of BSON. Defaults to none.
    pub fn metadata(mut self, metadata: Document) -> AcquireAll {
        self.metadata = metadata;
        self
    }

    /// Acquires the leases, runs `work` with them, and releases them.
    ///
    /// The work is dropped if one of the leases is lost.
    ///
    /// # Errors
    ///
    /// As for waiting; and [`Error::Lost`] when one of the leases was lost before the work had ended. An unconfirmed
    /// release is not an error: the work is done, and the release is retried in the background.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops the work and releases the leases.
    pub async fn run<T, W>(self, work: W) -> Result<T>
    where
        W: AsyncFnOnce(&LeaseSet) -> T,
    {
        let set = self.await?;
        let output = set.run(work(&set)).await?;
        let _ = set.release().await;
        Ok(output)
    }

    /// The names in their order, if they are fit to be acquired together.
    fn sorted_names(&self) -> Result<Vec<String>> {
        let mut names = self.names.clone();
        names.sort_unstable();
        let refused = |reason: String| Err(Error::invalid_option("names", reason));
        if let Some(twice) = names.windows(2).find(|pair| pair[0] == pair[1]) {
            return refused(format!("{:?} is named twice", twice[0]));
        }
        match names.len() {
            0 => refused("there is none".to_owned()),
            1..=NAMES_MAX => Ok(names),
            many => refused(format!("{many}, and at most {NAMES_MAX} are allowed")),
        }
    }

    fn acquire(&self, name: &str) -> Acquire {
        let mut acquire = self.leases.acquire(name).renew(self.renew);
        acquire = acquire.metadata(self.metadata.clone());
        if let Some(ttl) = self.ttl {
            acquire = acquire.ttl(ttl);
        }
        match &self.owner {
            Some(owner) => acquire.owner(owner),
            None => acquire,
        }
    }

    async fn wait_for_all(self) -> Result<LeaseSet> {
        let names = self.sorted_names()?;
        let clock = self.leases.clock();
        let wait = self.wait.unwrap_or_else(|| self.leases.default_wait());
        let started = clock.now();
        let deadline = started.after(wait);
        let mut held: BTreeMap<String, Lease> = BTreeMap::new();
        loop {
            held.retain(|_, lease| lease.is_valid());
            let trying = self.try_missing(&names, &mut held);
            let tried = match wait.is_zero() {
                true => Some(trying.await),
                false => clock.before(deadline, trying).await,
            };
            let Some(busy) = tried.transpose()? else {
                let missing = names.iter().find(|name| !held.contains_key(*name));
                let (name, waited) = (missing.cloned().unwrap_or_default(), wait);
                return Err(Error::WaitTimeout { name, waited, held: None, source: None });
            };
            // A lease may have been lost while the others were tried.
            held.retain(|_, lease| lease.is_valid());
            let Some(missing) = names.iter().find(|name| !held.contains_key(*name)) else {
                return Ok(LeaseSet::new(held));
            };
            if let Some(busy) = busy
                && wait.is_zero()
            {
                return Err(busy);
            }
            // Given back: no call waits while it holds a later name.
            drop(held.split_off(missing));
            let waiting = self.wait_for(missing, started, deadline);
            tokio::select! {
                biased;
                lease = waiting => held.insert(missing.clone(), lease?),
                // The names from the lost one on are acquired anew.
                _lost = first_lost(held.values()) => None,
            };
        }
    }

    /// Tries all names that are missing at once. Returns the error of the first one, if it is taken or if the database
    /// did not answer.
    async fn try_missing(
        &self,
        names: &[String],
        held: &mut BTreeMap<String, Lease>,
    ) -> Result<Option<Error>> {
        let missing = names.iter().filter(|name| !held.contains_key(*name));
        let attempts = missing.map(|name| self.acquire(name).try_once());
        let mut first = None;
        let mut refused = None;
        for attempt in join_all(attempts).await {
            match attempt {
                Ok(Attempt::Granted(lease)) => {
                    held.insert(lease.name().to_owned(), lease);
                }
                Ok(Attempt::Busy(info)) => {
                    first.get_or_insert(Error::Busy(info));
                }
                // A call that waits goes on trying for as long as it may.
                Err(error) if error.is_transient() => {
                    first.get_or_insert(error);
                }
                Err(error) => {
                    refused.get_or_insert(error);
                }
            }
        }
        match refused {
            Some(error) => Err(error),
            None => Ok(first),
        }
    }

    /// Waits for one name until the deadline of all.
    async fn wait_for(&self, name: &str, started: Instant, deadline: Instant) -> Result<Lease> {
        let clock = self.leases.clock();
        // At least a moment: with no time at all, a lease that is held would be `Busy`.
        let left = deadline.since(clock.now()).max(Duration::from_nanos(1));
        let lease = self.acquire(name).wait(left).await;
        lease.map_err(|mut error| {
            if let Error::WaitTimeout { waited, .. } = &mut error {
                *waited = clock.now().since(started);
            }
            error
        })
    }
}

impl IntoFuture for AcquireAll {
    type Output = Result<LeaseSet>;
    type IntoFuture = Pin<Box<dyn Future<Output = Result<LeaseSet>> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.wait_for_all())
    }
}

impl fmt::Debug for AcquireAll {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("AcquireAll")
            .field("names", &self.names)
            .field("ttl", &self.ttl)
            .field("wait", &self.wait)
            .finish_non_exhaustive()
    }
}
