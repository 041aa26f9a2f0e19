//! [`AcquireAll`]: acquires the leases of several names, all or none.
//!
//! A deadlock needs a call that holds one name and waits for another, and a second call that does the reverse. So a
//! call waits for a name only while it holds none that comes after it, in the order of names.
//!
//! A name that is held during a wait is idle. So a call gives up what it holds when it has to wait; but once only,
//! because under load somebody else has those names when the wait is over.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::future::IntoFuture;
use std::pin::Pin;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use serde::Serialize;

use super::{LeaseSet, first_lost};
use crate::acquire::{Acquire, Attempt};
use crate::error::{Error, Result};
use crate::lease::Lease;
use crate::manager::LeaseManager;
use crate::options::sorted_names;

/// A call for the leases of several names: set its options, then `.await` it.
///
/// It gets all of them, or none. Its leases are exclusive. All names are tried at once. Where some are taken, the call
/// waits for them one after the other, in the order of the names' bytes, by default for up to 30 s in all (the
/// manager's [`wait`](crate::LeaseManagerBuilder::wait)). At first it holds nothing meanwhile. From the second wait on
/// it keeps the leases of the names before the one that it waits for, and gives those of later names back. So calls for
/// overlapping names never wait for each other in a circle, provided that their tasks hold no other lease.
///
/// # Errors
/// As [`Acquire`], for the first name that fails; and [`Error::InvalidOption`], before anything is sent: for no name,
/// for more than 1,000, or for a name that comes twice.
///
/// # Fairness
/// For the name that it waits for, a call has its place in the queue like any other. It can be overtaken at the names
/// after that one, and once at those before. It leaves its place if it loses a lease that it holds meanwhile. Where
/// most names are in use for most of the time, such calls form convoys: each holds names that it does not use yet, and
/// calls for those wait longer.
///
/// # Cancel safety
/// Dropping the future at any moment is safe: the leases that it has are released in the background.
///
/// # Examples
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
#[derive(Clone, Debug)]
pub struct AcquireAll {
    leases: LeaseManager,
    names: Vec<String>,
    wait: Option<Duration>,
    /// The call for each name, but for its name.
    each: Acquire,
}

impl LeaseManager {
    /// Acquires the leases of several names, all or none: set options, then `.await`. See [`AcquireAll`].
    pub fn acquire_all<S: Into<String>>(&self, names: impl IntoIterator<Item = S>) -> AcquireAll {
        AcquireAll {
            leases: self.clone(),
            names: names.into_iter().map(Into::into).collect(),
            wait: None,
            each: self.acquire(""),
        }
    }
}

impl AcquireAll {
    /// How long each lease lasts without a renewal, from 100 ms to 366 days. Defaults to the manager's.
    pub fn ttl(mut self, ttl: Duration) -> AcquireAll {
        self.each = self.each.ttl(ttl);
        self
    }

    /// How long to wait for all leases together. Defaults to the manager's.
    ///
    /// Zero means one attempt, which gives [`Error::Busy`] when a lease is held. Of two at a time, both can be refused.
    pub fn wait(mut self, wait: Duration) -> AcquireAll {
        self.wait = Some(wait);
        self
    }

    /// Waits without a time limit, also while the database cannot be reached.
    pub fn wait_forever(self) -> AcquireAll {
        self.wait(Duration::MAX)
    }

    /// The label of the holder, which is shown as `label@host:pid`. At most 512 bytes. Defaults to the manager's.
    pub fn owner(mut self, label: impl Into<String>) -> AcquireAll {
        self.each = self.each.owner(label);
        self
    }

    /// [Metadata](Acquire::metadata) stored in each lease's document, for those who inspect it. At most
    /// 4 KiB of BSON. Defaults to none.
    pub fn metadata(mut self, metadata: impl Serialize) -> AcquireAll {
        self.each = self.each.metadata(metadata);
        self
    }

    /// Acquires the leases, runs `work` with them, and releases them. Drops the work if one of the leases is lost.
    ///
    /// # Errors
    /// As for waiting; and [`Error::Lost`] when one of the leases was lost before the work had ended. An unconfirmed
    /// release is not an error: it is retried in the background.
    ///
    /// # Cancel safety
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

    fn acquire(&self, name: &str) -> Acquire {
        self.each.clone().of_name(name)
    }

    async fn wait_for_all(self) -> Result<LeaseSet> {
        let names = sorted_names(self.names.clone())?;
        let clock = self.leases.clock();
        let wait = self.wait.unwrap_or_else(|| self.leases.default_wait());
        let started = clock.now();
        let deadline = started.after(wait);
        let mut progress = Progress::default();
        loop {
            let trying = self.try_missing(&names, &mut progress);
            if wait.is_zero() {
                trying.await?;
            } else if clock.before(deadline, trying).await.transpose()?.is_none() {
                return Err(progress.timeout(&names, clock.now().since(started)));
            }
            let Some(missing) = progress.first_missing(&names).map(str::to_owned) else {
                return Ok(LeaseSet::new(progress.held));
            };
            match progress.seen.take() {
                Some((_, error)) if wait.is_zero() => return Err(error),
                // Lost between its grant and this moment.
                None if wait.is_zero() => continue,
                seen => progress.seen = seen,
            }
            progress.give_back(&missing);
            let left = deadline.since(clock.now());
            if left.is_zero() {
                return Err(progress.timeout(&names, clock.now().since(started)));
            }
            let waiting = self.acquire(&missing).wait(left);
            tokio::select! {
                biased;
                lease = waiting => {
                    let lease = lease.map_err(|error| since(error, clock.now().since(started)))?;
                    progress.held.insert(missing, lease);
                }
                // It is missing now, and comes first. The place in the queue is lost.
                _lost = first_lost(progress.held.values()) => {}
            }
        }
    }

    /// Tries at once what is missing, up to the first name that is known to be taken, until the first missing name is
    /// known.
    async fn try_missing<'a>(&self, names: &'a [String], progress: &mut Progress) -> Result<()> {
        progress.held.retain(|_, lease| lease.is_valid());
        let missing = names.iter().filter(|name| !progress.held.contains_key(*name));
        let free = missing.take_while(|name| !progress.taken.contains(*name));
        let mut unanswered: BTreeSet<&'a String> = free.collect();
        let attempt = |name: &&'a String| {
            let (name, attempt) = (*name, self.acquire(name).try_once());
            async move { (name, attempt.await) }
        };
        let mut attempts: FuturesUnordered<_> = unanswered.iter().map(attempt).collect();
        if !unanswered.is_empty() {
            progress.seen = None;
        }
        while let Some((name, attempt)) = attempts.next().await {
            unanswered.remove(name);
            match attempt {
                Ok(Attempt::Granted(lease)) => drop(progress.held.insert(name.clone(), lease)),
                Ok(Attempt::Busy(info)) => progress.is_taken(name, Error::Busy(info)),
                // A call that waits goes on trying for as long as it may.
                Err(error) if error.is_transient() => progress.is_taken(name, error),
                Err(error) => return Err(error),
            }
            let refused = progress.seen.as_ref().map(|(name, _)| name);
            if refused.is_some_and(|name| unanswered.first().is_none_or(|first| *first > name)) {
                // Whatever the later names bring, it would be given back.
                break;
            }
        }
        // A lease may have been lost while the others were tried.
        progress.held.retain(|_, lease| lease.is_valid());
        Ok(())
    }
}

/// The state of a call: its leases, and the names that it knows to be taken.
#[derive(Default)]
struct Progress {
    held: BTreeMap<String, Lease>,
    /// Names that were found taken, and not waited for since.
    taken: BTreeSet<String>,
    /// The first name that was found taken by the newest try, and why.
    seen: Option<(String, Error)>,
    /// Whether the names before one that it waited for were given back.
    has_given_back: bool,
}

impl Progress {
    /// Gives back what the call does not keep while it waits for this name.
    fn give_back(&mut self, missing: &str) {
        self.taken.remove(missing);
        // No call waits while it holds a later name.
        drop(self.held.split_off(missing));
        if !self.held.is_empty() && !self.has_given_back {
            self.has_given_back = true;
            self.held.clear();
        }
    }

    /// Notes that this name was not granted, and why.
    fn is_taken(&mut self, name: &str, error: Error) {
        self.taken.insert(name.to_owned());
        if self.seen.as_ref().is_none_or(|(seen, _)| name < seen.as_str()) {
            self.seen = Some((name.to_owned(), error));
        }
    }

    fn first_missing<'a>(&self, names: &'a [String]) -> Option<&'a str> {
        names.iter().map(String::as_str).find(|name| !self.held.contains_key(*name))
    }

    /// The error of a call whose time is over.
    fn timeout(&mut self, names: &[String], waited: Duration) -> Error {
        let name = self.first_missing(names).unwrap_or_default().to_owned();
        let seen = self.seen.take().filter(|(seen, _)| *seen == name).map(|(_, error)| error);
        let (held, source) = match seen {
            Some(Error::Busy(info)) => (Some(info), None),
            seen => (None, seen.map(Box::new)),
        };
        Error::WaitTimeout { name, waited, waited_for_turn: false, held, source }
    }
}

/// The same error, for a call that has waited for so long in all.
fn since(mut error: Error, whole: Duration) -> Error {
    if let Error::WaitTimeout { waited, .. } = &mut error {
        *waited = whole;
    }
    error
}

impl IntoFuture for AcquireAll {
    type Output = Result<LeaseSet>;
    type IntoFuture = Pin<Box<dyn Future<Output = Result<LeaseSet>> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.wait_for_all())
    }
}
