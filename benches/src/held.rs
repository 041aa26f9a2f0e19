//! Many leases and many waiters of one process, and its memory.

use std::time::Duration;

use futures_util::{StreamExt, TryStreamExt, stream};
use mongo_lease::{Lease, LeaseManager};
use mongo_lease_measure::{Outcome, host};

use crate::side::random_name;

/// How many leases are acquired or released at once, for each thousand of all.
const AT_ONCE: std::ops::RangeInclusive<usize> = 16..=64;

/// The names of leases that are held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Names {
    /// `lease:0`, `lease:1` and so on, which are neighbours in the index.
    InOrder,
    /// As the floors have them.
    Random,
}

impl Names {
    /// The names of this word in an order to a worker.
    pub(crate) fn of_word(word: &str) -> Outcome<Names> {
        match word {
            "in-order" => Ok(Names::InOrder),
            "random" => Ok(Names::Random),
            _ => Err(format!("not an order of names: {word}").into()),
        }
    }

    fn name(self, number: usize) -> String {
        match self {
            Names::InOrder => format!("lease:{number}"),
            Names::Random => random_name(),
        }
    }
}

/// So many leases, a few at a time. The list has its whole length from the start, so that it does not grow with them.
pub(crate) async fn hold_many(
    leases: &LeaseManager,
    count: usize,
    ttl: Duration,
    names: Names,
) -> Outcome<Vec<Lease>> {
    let mut held = Vec::with_capacity(count);
    let mut asked = stream::iter(0..count)
        .map(|number| leases.acquire(names.name(number)).ttl(ttl).into_future())
        .buffer_unordered(at_once(count));
    while let Some(lease) = asked.next().await {
        held.push(lease?);
    }
    Ok(held)
}

/// Releases all of them.
pub(crate) async fn free(held: Vec<Lease>) -> Outcome<()> {
    let at_once = at_once(held.len());
    let released = stream::iter(held).map(Lease::release).buffer_unordered(at_once);
    Ok(released.try_for_each(|_| async { Ok(()) }).await?)
}

/// So many leases, and the bytes by which this process grows with them.
pub(crate) async fn growth_by_leases(
    leases: &LeaseManager,
    count: usize,
    ttl: Duration,
    names: Names,
) -> Outcome<(Vec<Lease>, u64)> {
    // A hundred leases open the connections and make the first allocations, which no lease has to answer for.
    free(hold_many(leases, 100, ttl, names).await?).await?;
    let before = host::memory_bytes();
    let held = hold_many(leases, count, ttl, names).await?;
    Ok((held, host::memory_bytes().saturating_sub(before)))
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

fn at_once(count: usize) -> usize {
    (count / 1_000).clamp(*AT_ONCE.start(), *AT_ONCE.end())
}
