//! Leases that several hold at once, up to a limit.

mod at_random;
mod entries;
mod holding;
mod outcomes;
mod refused;
mod traps;
mod waiting;

use std::time::Duration;

use mongo_lease::mongodb::bson::Document;
use mongo_lease::{Acquire, LeaseManager, Tuning};

use crate::both::Backend;
pub(crate) use crate::waiters::{
    Ask, all_granted, dropped, granted, permits, queued_by, reader, writer,
};
use crate::waiters::{Waiting, in_line_watching};

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

/// The holders in a document.
fn holders(document: &Document) -> Vec<&Document> {
    let holders = document.get_array("holders").into_iter().flatten();
    holders.map(|holder| holder.as_document().expect("a holder")).collect()
}
