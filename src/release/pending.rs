//! The names whose dropped leases are being released in the background.
//!
//! A new acquire of such a name waits for that release. So a process sees its own actions in order: `drop(lease)`, then
//! an acquire of the same name. Acquires of other names do not wait.

use std::collections::HashMap;
use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use crate::lock::Lock;
use crate::mistake::{Mistake, is_made};

/// The names whose leases are being released. Cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct PendingReleases {
    names: Arc<Lock<HashMap<Box<str>, Vec<ReportedSignal>>>>,
}

/// The signal of one release in progress, and whether a shutdown reports it.
type ReportedSignal = (EndSignal, bool);

/// Cancelled when the release is applied, or has ended.
pub(crate) type EndSignal = Arc<CancellationToken>;

/// One release in progress. It counts as ended, confirmed or given up, when this is dropped.
pub(crate) struct PendingRelease {
    all: PendingReleases,
    name: Box<str>,
    ended: EndSignal,
    /// Whether a shutdown reports it: not where the shutdown itself releases the same lease.
    pub(super) is_reported: bool,
}

impl PendingReleases {
    pub(crate) fn begin(&self, name: &str, is_reported: bool) -> PendingRelease {
        let ended = EndSignal::default();
        let signal = (Arc::clone(&ended), is_reported);
        self.names.lock().entry(name.into()).or_default().push(signal);
        PendingRelease { all: self.clone(), name: name.into(), ended, is_reported }
    }

    /// The names of the releases that have not ended, and that a shutdown reports.
    pub(crate) fn reported(&self) -> Vec<String> {
        let names = self.names.lock();
        let mut reported = Vec::new();
        for (name, signals) in names.iter() {
            let of_name = signals.iter().filter(|(_, is_reported)| *is_reported);
            reported.extend(of_name.map(|_| name.to_string()));
        }
        reported
    }

    /// Waits until the releases of this name that are in progress now are applied or have ended: the command of a new
    /// acquire finds the lease free. Dropping the future changes nothing.
    pub(crate) async fn ended(&self, name: &str) {
        if is_made(Mistake::DropNotAwaited) {
            return;
        }
        // Only the current ones: later releases are not this caller's.
        let pending = self.names.lock().get(name).cloned().unwrap_or_default();
        for (release, _) in pending {
            release.cancelled().await;
        }
    }
}

impl PendingRelease {
    /// The signal that the release is applied.
    pub(crate) fn signal(&self) -> EndSignal {
        Arc::clone(&self.ended)
    }
}

impl Drop for PendingRelease {
    fn drop(&mut self) {
        let mut names = self.all.names.lock();
        if let Some(pending) = names.get_mut(&self.name) {
            pending.retain(|(ended, _)| !Arc::ptr_eq(ended, &self.ended));
            if pending.is_empty() {
                names.remove(&self.name);
            }
        }
        drop(names);
        self.ended.cancel();
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::PendingReleases;

    #[test]
    fn an_acquire_waits_for_the_releases_of_its_name_alone() {
        let releases = PendingReleases::default();
        let (first, second) = (releases.begin("a", true), releases.begin("a", false));
        assert_eq!(releases.reported(), ["a"]);
        let mut waits = Box::pin(releases.ended("a"));
        assert!(waits.as_mut().now_or_never().is_none());
        assert!(releases.ended("b").now_or_never().is_some());
        drop(first);
        assert!(waits.as_mut().now_or_never().is_none());
        // A release that begins later is not waited for.
        let later = releases.begin("a", true);
        drop(second);
        assert!(waits.as_mut().now_or_never().is_some());
        assert!(releases.ended("a").now_or_never().is_none());
        drop(later);
        assert!(releases.ended("a").now_or_never().is_some());
        assert!(releases.names.lock().is_empty());
    }
}
