//! [`Semaphore`]: the handle to the permits of one name.

use std::fmt;

use super::{Acquire, Attempt};
use crate::error::Result;

/// A semaphore over all processes of a collection: a name, and how many permits of it may be in use.
///
/// It holds nothing. A permit is a [`Lease`](crate::Lease): it expires with its holder, renews itself, and is lost like
/// any other. The name is the same as that of exclusive leases: [`acquire`](crate::LeaseManager::acquire) of it waits
/// until no permit is in use.
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
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Semaphore {
    acquire: Acquire,
    name: String,
    limit: u32,
}

impl Semaphore {
    pub(crate) fn new(acquire: Acquire, name: String, limit: u32) -> Semaphore {
        Semaphore { acquire: acquire.limit(limit), name, limit }
    }

    /// The name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// How many permits may be in use.
    #[must_use]
    pub fn limit(&self) -> u32 {
        self.limit
    }

    /// Acquires one permit, and waits for it: set options, then `.await`. See [`Acquire`] and [`Acquire::permits`].
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

impl fmt::Debug for Semaphore {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Semaphore")
            .field("name", &self.name)
            .field("limit", &self.limit)
            .finish_non_exhaustive()
    }
}
