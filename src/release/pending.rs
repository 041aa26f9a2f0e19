//! The names whose dropped leases are being released in the background.
//!
//! A new acquire of such a name waits for that release, so that what one task of this process does is seen in its own
//! order: `drop(lease)`, then an acquire of the same name. Other names wait for nothing.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio_util::sync::CancellationToken;

/// The names whose leases are being released. Cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct PendingReleases {
    names: Arc<Mutex<HashMap<Box<str>, Vec<Ended>>>>,
}

/// Cancelled when one release has ended.
type Ended = Arc<CancellationToken>;

/// One release that is under way. It has ended when this is dropped: confirmed, or given up.
pub(crate) struct PendingRelease {
    all: PendingReleases,
    name: Box<str>,
    ended: Ended,
}

impl PendingReleases {
    /// A release of this name begins.
    pub(crate) fn begin(&self, name: &str) -> PendingRelease {
        let ended = Ended::default();
        self.names().entry(name.into()).or_default().push(Arc::clone(&ended));
        PendingRelease { all: self.clone(), name: name.into(), ended }
    }

    /// Waits until the releases of this name that are under way now have ended.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    pub(crate) async fn ended(&self, name: &str) {
        // Only those of now: others that come meanwhile are not this caller's.
        let pending = self.names().get(name).cloned().unwrap_or_default();
        for release in pending {
            release.cancelled().await;
        }
    }

    fn names(&self) -> MutexGuard<'_, HashMap<Box<str>, Vec<Ended>>> {
        self.names.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for PendingRelease {
    fn drop(&mut self) {
        let mut names = self.all.names();
        if let Some(pending) = names.get_mut(&self.name) {
            pending.retain(|ended| !Arc::ptr_eq(ended, &self.ended));
            if pending.is_empty() {
                names.remove(&self.name);
            }
        }
        drop(names);
        self.ended.cancel();
    }
}

impl fmt::Debug for PendingRelease {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("PendingRelease").field("name", &self.name).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::PendingReleases;

    #[test]
    fn an_acquire_waits_for_the_releases_of_its_name_alone() {
        let releases = PendingReleases::default();
        let (first, second) = (releases.begin("a"), releases.begin("a"));
        let mut waits = Box::pin(releases.ended("a"));
        assert!(waits.as_mut().now_or_never().is_none());
        assert!(releases.ended("b").now_or_never().is_some());
        drop(first);
        assert!(waits.as_mut().now_or_never().is_none());
        // One that begins later is not waited for.
        let later = releases.begin("a");
        drop(second);
        assert!(waits.as_mut().now_or_never().is_some());
        assert!(releases.ended("a").now_or_never().is_none());
        drop(later);
        assert!(releases.ended("a").now_or_never().is_some());
        assert!(releases.names().is_empty());
    }
}
