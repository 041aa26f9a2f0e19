//! Many leases and many waiters of one process, and its memory.

use futures_util::StreamExt;
use mongo_lease::{Lease, LeaseManager};
use mongo_lease_measure::{Outcome, host};

/// So many leases, a few at a time. Into a list that is as long as it has to be: what a longer one takes is nobody's.
pub(crate) async fn hold_many(leases: &LeaseManager, count: usize) -> Outcome<Vec<Lease>> {
    let mut held = Vec::with_capacity(count);
    let mut asked = futures_util::stream::iter(0..count)
        .map(|number| leases.acquire(format!("lease:{number}")).into_future())
        .buffer_unordered(16);
    while let Some(lease) = asked.next().await {
        held.push(lease?);
    }
    Ok(held)
}

/// The bytes by which this process grows with so many leases.
pub(crate) async fn growth_by_leases(leases: &LeaseManager, count: usize) -> Outcome<u64> {
    // The connections and the first allocations are nobody's lease.
    for lease in hold_many(leases, 100).await? {
        lease.release().await?;
    }
    let before = host::memory_bytes();
    let held = hold_many(leases, count).await?;
    let grown = host::memory_bytes().saturating_sub(before);
    drop(held);
    Ok(grown)
}

/// The bytes by which this process grows with so many calls that wait for this lease.
pub(crate) async fn growth_by_waiters(
    leases: &LeaseManager,
    name: &str,
    count: usize,
) -> Outcome<u64> {
    let wait = || tokio::spawn(leases.acquire(name).wait_forever().into_future());
    let first = wait();
    while leases.get(name).await?.is_none_or(|info| info.waiting == 0) {
        tokio::task::yield_now().await;
    }
    let before = host::memory_bytes();
    let waiting: Vec<_> = (0..count).map(|_| wait()).collect();
    // A command that is answered behind them: until then they have all been begun.
    leases.get(name).await?;
    let grown = host::memory_bytes().saturating_sub(before);
    for task in waiting.into_iter().chain([first]) {
        task.abort();
    }
    Ok(grown)
}
