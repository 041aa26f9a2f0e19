//! The options of a call whose lease others may hold at the same time.

use super::Acquire;

impl Acquire {
    /// How many permits of this name may be in use while this lease is held, from 1 to 1,000. Defaults to 1: an
    /// exclusive lease.
    ///
    /// The call is granted its permits when, with them, the permits in use are at most the smallest limit of all who
    /// then hold the name, and no live waiter is before it. So the strictest holder decides for as long as it holds. A
    /// smaller limit is in force from the first grant under it, and a larger one when the last holder with the smaller
    /// one has ended. Plan with at most 250 holders of one name: each of them writes to one document, and a longer
    /// [`ttl`](Acquire::ttl) means fewer writes.
    ///
    /// With a limit above 1, the token says who came later only between leases that exclude each other;
    /// [`metadata`](Acquire::metadata) has at most 256 bytes; [`Lease::guard`](crate::Lease::guard) and
    /// [`Lease::detach`](crate::Lease::detach) fail with [`Error::Unsupported`](crate::Error::Unsupported), and so
    /// does the call itself on a standalone server; and [`hold_at_least`](Acquire::hold_at_least) is refused.
    ///
    /// See also [`LeaseManager::semaphore`](crate::LeaseManager::semaphore).
    ///
    /// # Examples
    /// ```no_run
    /// # async fn example(leases: mongo_lease::LeaseManager) -> mongo_lease::Result<()> {
    /// // Two of the five permits that this tenant has, over all machines.
    /// let lease = leases.acquire("tenant:7").limit(5).permits(2).await?;
    /// assert_eq!(lease.permits(), 2);
    /// # Ok(())
    /// # }
    /// ```
    pub fn limit(mut self, limit: u32) -> Acquire {
        self.limit = Some(limit);
        self
    }

    /// How many permits the lease takes, from 1 to its [`limit`](Acquire::limit). Defaults to 1.
    ///
    /// Waiting is strictly in order: a call for many permits lets later calls wait until it has its own.
    pub fn permits(mut self, permits: u32) -> Acquire {
        self.permits = Some(permits);
        self
    }

    /// Shares the lease with all others that share it: the reader of a reader-writer lock. An ordinary acquire of the
    /// same name is the writer.
    ///
    /// It is one permit under the limit 1,000, and nothing else; so it excludes [`limit`](Acquire::limit) and
    /// [`permits`](Acquire::permits), and what is said there holds here. Writers are not starved: a reader that comes
    /// after a waiting writer waits behind it. Readers in the queue between two writers are admitted together.
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
