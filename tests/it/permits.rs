//! Leases that several hold at once, up to a limit.

mod at_random;
mod commands;
mod cost;
mod holding;
mod outcomes;
mod refused;
mod releases;
mod traps;
mod waiting;

use std::time::Duration;

use mongo_lease::mongodb::bson::Document;
use mongo_lease::{Acquire, Lease, LeaseManager, Tuning};

use crate::both::Backend;
use crate::line::{Waiting, in_line, in_line_watching};
pub(crate) use crate::line::{dropped, granted};

/// How a call asks for the lease `a`.
pub(crate) type Ask = fn(&LeaseManager) -> Acquire;

pub(crate) fn writer(leases: &LeaseManager) -> Acquire {
    leases.acquire("a")
}

pub(crate) fn reader(leases: &LeaseManager) -> Acquire {
    leases.acquire("a").shared()
}

/// A call for so many permits under this limit.
pub(crate) fn permits(count: u32, limit: u32) -> impl Fn(&LeaseManager) -> Acquire {
    move |leases| leases.semaphore("a", limit).acquire().permits(count)
}

/// A manager whose calls do not find out by themselves within a test that they could be granted: somebody has to tell
/// them.
pub(crate) async fn patient(backend: &Backend) -> LeaseManager {
    let minute = Duration::from_secs(60);
    let tuning = Tuning::default().waiter_ttl(minute).recheck_every(minute);
    backend.builder().tuning(tuning).build().await.expect("a manager")
}

/// A call of a patient manager that waits in the queue when this returns, and the manager.
pub(crate) async fn queued(
    backend: &Backend,
    options: impl FnOnce(&LeaseManager) -> Acquire,
) -> (LeaseManager, Waiting) {
    let leases = patient(backend).await;
    // Its first attempts were without the stream.
    let call = in_line_watching(&leases, options(&leases)).await;
    (leases, call)
}

/// The same with this manager, of which no other call may be about to wait.
pub(crate) async fn queued_by(
    leases: &LeaseManager,
    options: impl FnOnce(&LeaseManager) -> Acquire,
) -> Waiting {
    in_line(leases, options(leases)).await
}

/// The leases of calls that are all granted now.
pub(crate) async fn all_granted(calls: impl IntoIterator<Item = Waiting>) -> Vec<Lease> {
    let mut leases = Vec::new();
    for call in calls {
        let lease = granted(call).await;
        assert!(lease.is_valid(), "{}", lease.name());
        leases.push(lease);
    }
    leases
}

/// The holders in a document.
fn holders(document: &Document) -> Vec<&Document> {
    let holders = document.get_array("holders").into_iter().flatten();
    holders.map(|holder| holder.as_document().expect("a holder")).collect()
}
