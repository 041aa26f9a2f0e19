//! Leases that several hold at the same time: the options of a call, and [`Semaphore`].

use super::{Acquire, Attempt};
use crate::error::Result;

impl Acquire {
    /// How many permits the lease takes, from 1 to the limit of its [`Semaphore`]. Defaults to 1. Waiting is strictly
    /// in order: a call for many permits lets later calls wait until it has its own.
    pub fn permits(mut self, permits: u32) -> Acquire {
        self.permits = Some(permits);
        self
    }

    /// Shares the lease with all others that share it: the reader of a reader-writer lock. An ordinary acquire of the
    /// same name is the writer.
    ///
    /// It is one permit under the limit 1,000, so what [`Semaphore`] says of a limit above 1 holds here. It excludes
    /// [`permits`](Acquire::permits) and the limit of a semaphore. A reader that comes after a waiting writer
    /// waits behind it. Readers in the queue between two writers are admitted together.
    ///
    /// # Examples
    /// ```no_run
    /// # async fn example(leases: mongo_lease::LeaseManager) -> mongo_lease::Result<()> {
    /// let reader = leases.acquire("doc").shared().await?;
    /// reader.release().await?;
    /// let writer = leases.acquire("doc").await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn shared(mut self) -> Acquire {
        self.is_shared = true;
        self
    }
}

/// A semaphore over all processes of a collection: a name, and how many permits of it may be in use.
///
/// It holds nothing. A permit is a [`Lease`](crate::Lease) like any other. The name is the same as that of exclusive
/// leases: [`acquire`](crate::LeaseManager::acquire) of it waits until no permit is in use.
///
/// A call is granted its permits when, with them, the permits in use are at most the smallest limit of all who then
/// hold the name, and no live waiter is before it. So a smaller limit is in force from the first grant under it, and a
/// larger one when the last holder with the smaller one has ended. Plan with at most 250 holders of one name: each of
/// them writes to one document, and a longer [`ttl`](Acquire::ttl) means fewer writes.
///
/// A limit of 1 is an exclusive lease. With a limit above 1, the token says who came later only between leases that
/// exclude each other; [`metadata`](Acquire::metadata) has at most 256 bytes;
/// [`Lease::transaction`](crate::Lease::transaction) and [`Lease::detach`](crate::Lease::detach) fail with
/// [`Error::Unsupported`](crate::Error::Unsupported), and so does the call itself on a standalone server; and
/// [`hold_at_least`](Acquire::hold_at_least) is refused.
///
/// # Examples
/// ```no_run
/// # async fn example(leases: mongo_lease::LeaseManager) -> mongo_lease::Result<()> {
/// use std::time::Duration;
///
/// // At most five calls of this tenant at a time, over all machines.
/// let calls = leases.semaphore("tenant:7", 5);
/// let permit = calls.acquire().wait(Duration::from_secs(10)).await?;
/// // … the call …
/// permit.release().await?;
/// // Two of the five permits, as one lease.
/// let lease = calls.acquire().permits(2).await?;
/// assert_eq!(lease.permits(), 2);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Semaphore {
    acquire: Acquire,
    limit: u32,
}

impl Semaphore {
    pub(crate) fn new(acquire: Acquire, limit: u32) -> Semaphore {
        Semaphore { acquire: Acquire { limit: Some(limit), ..acquire }, limit }
    }

    /// The name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.acquire.name
    }

    /// How many permits may be in use.
    #[must_use]
    pub fn limit(&self) -> u32 {
        self.limit
    }

    /// Acquires one permit, and waits for it: set options, then `.await`. See [`Acquire`] and [`Acquire::permits`]. The
    /// limit is the semaphore's: it cannot be set in the call.
    ///
    /// ```compile_fail
    /// # fn example(calls: mongo_lease::Semaphore) {
    /// let call = calls.acquire().limit(9);
    /// # }
    /// ```
    pub fn acquire(&self) -> Acquire {
        self.acquire.clone()
    }

    /// Tries once to acquire one permit, without waiting.
    ///
    /// # Errors
    /// As [`LeaseManager::try_acquire`](crate::LeaseManager::try_acquire). A limit that is not between 1 and 1,000 is
    /// an [`Error::InvalidOption`](crate::Error::InvalidOption).
    ///
    /// # Cancel safety
    /// Dropping the future is safe: a grant is then released.
    pub async fn try_acquire(&self) -> Result<Attempt> {
        self.acquire().try_once().await
    }
}
