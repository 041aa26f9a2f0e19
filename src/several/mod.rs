//! Leases of several names at once: all or none. Built on the public interface.

mod acquire_all;

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use futures_util::future::{join_all, select_all};

use crate::error::{Error, LostReason, Result};
use crate::lease::Lease;
use crate::release::Released;
pub use acquire_all::AcquireAll;

/// Leases that [`acquire_all`](crate::LeaseManager::acquire_all) has acquired together, in the order of their names.
///
/// Each is a [`Lease`] with a token of its own. The set is valid while all of them are. A loss of one does not end the
/// others: drop the set, which releases its leases in the background, or release it.
#[must_use = "leases that are dropped are given back at once"]
#[clippy::has_significant_drop]
pub struct LeaseSet {
    leases: BTreeMap<String, Lease>,
}

impl LeaseSet {
    fn new(leases: BTreeMap<String, Lease>) -> LeaseSet {
        LeaseSet { leases }
    }

    /// The lease of this name, if it is one of the set's.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Lease> {
        self.leases.get(name)
    }

    /// The leases in the order of their names.
    pub fn iter(&self) -> impl Iterator<Item = &Lease> {
        self.leases.values()
    }

    /// The leases in the order of their names, each for itself from now on.
    #[must_use = "leases that are dropped are given back at once"]
    pub fn into_leases(self) -> Vec<Lease> {
        self.leases.into_values().collect()
    }

    /// Whether all leases are held. Once this is false, it stays false.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        self.iter().all(Lease::is_valid)
    }

    /// How long all leases are valid unless they are renewed; zero if one of them is not valid.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        self.iter().map(Lease::remaining).min().unwrap_or_default()
    }

    /// Returns an error with the reason if one of the leases was lost.
    ///
    /// # Errors
    /// [`Error::Lost`] with the name of the first lease, in the order of names, that is no longer valid.
    pub fn check(&self) -> Result<()> {
        self.iter().try_for_each(Lease::check)
    }

    /// Waits until one of the leases is lost, and returns its name and the reason. See [`Lease::lost`].
    ///
    /// # Cancel safety
    /// Dropping the future changes nothing.
    pub async fn lost(&self) -> (&str, LostReason) {
        first_lost(self.iter()).await
    }

    /// Runs `work`, and drops it if one of the leases is lost. See [`Lease::run`].
    ///
    /// # Errors
    /// [`Error::Lost`] if one of the leases was lost before the work had ended.
    ///
    /// # Cancel safety
    /// Dropping the future drops the work. The leases stay held.
    pub async fn run<T>(&self, work: impl Future<Output = T>) -> Result<T> {
        self.check()?;
        tokio::select! {
            biased;
            (name, reason) = self.lost() => Err(Error::Lost { name: name.to_owned(), reason }),
            output = work => {
                // A validity may have ended during the last poll.
                self.check()?;
                Ok(output)
            }
        }
    }

    /// Releases all leases. Those for which no process waits share commands.
    ///
    /// The result is [`Released::Released`] if all of them were held and are released. Otherwise it is
    /// [`Released::NotHeld`] if one of them was not held any more, and [`Released::Unknown`] if that is not known of
    /// one. For the result of each, release those of [`into_leases`](LeaseSet::into_leases).
    ///
    /// # Errors
    /// The first error of a release that was not confirmed: it is retried in the background until its lease expires.
    /// The others are done all the same.
    ///
    /// # Cancel safety
    /// If the future is dropped, the releases go on in the background.
    pub async fn release(self) -> Result<Released> {
        let released = join_all(self.leases.into_values().map(Lease::release)).await;
        let mut whole = Released::Released;
        for released in released {
            whole = match (whole, released?) {
                (Released::NotHeld, _) | (_, Released::NotHeld) => Released::NotHeld,
                (Released::Unknown, _) | (_, Released::Unknown) => Released::Unknown,
                (Released::Released, Released::Released) => Released::Released,
            };
        }
        Ok(whole)
    }
}

/// The name of the first of these leases that is lost, and the reason. Without leases it never returns.
async fn first_lost<'a>(leases: impl Iterator<Item = &'a Lease>) -> (&'a str, LostReason) {
    let losses: Vec<_> =
        leases.map(|lease| Box::pin(async move { (lease.name(), lease.lost().await) })).collect();
    if losses.is_empty() {
        return std::future::pending().await;
    }
    select_all(losses).await.0
}

impl fmt::Debug for LeaseSet {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_set().entries(self.leases.values()).finish()
    }
}
