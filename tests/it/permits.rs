//! Leases that several hold at once, up to a limit.

mod at_random;
mod commands;
mod cost;
mod holding;
mod outcomes;
mod refused;
mod releases;
mod repeated_releases;
mod traps;
mod waiting;

use std::time::Duration;

use mongo_lease::mongodb::bson::Document;
use mongo_lease::{Acquire, Event, Lease, LeaseManager, Result, Tuning};
use tokio::task::JoinHandle;

use crate::both::Backend;
use crate::patience::{Listener, soon};

/// A call that waits in the queue when this returns, and its manager.
pub(crate) async fn queued(
    backend: &Backend,
    options: impl FnOnce(&LeaseManager) -> Acquire,
) -> (LeaseManager, JoinHandle<Result<Lease>>) {
    // It does not find out by itself within a test that it could be granted: somebody has to tell it.
    let minute = Duration::from_secs(60);
    let patient =
        backend.builder().tuning(Tuning::default().waiter_ttl(minute).recheck_every(minute));
    let leases = patient.build().await.expect("a manager");
    let mut events = Listener::of(&leases);
    let call = queued_by(&leases, options).await;
    // Its first attempts were without the stream.
    events.watching().await;
    (leases, call)
}

/// The same with this manager, of which no other call may be about to wait.
pub(crate) async fn queued_by(
    leases: &LeaseManager,
    options: impl FnOnce(&LeaseManager) -> Acquire,
) -> JoinHandle<Result<Lease>> {
    let mut events = Listener::of(leases);
    let call = tokio::spawn(options(leases).into_future());
    events.find(|event| matches!(event, Event::Queued { .. }).then_some(())).await;
    call
}

/// The lease of a call that is granted now.
pub(crate) async fn granted(call: JoinHandle<Result<Lease>>) -> Lease {
    soon("the call is granted", call).await.expect("no panic").expect("a lease")
}

/// The holders in a document.
fn holders(document: &Document) -> Vec<&Document> {
    let holders = document.get_array("holders").into_iter().flatten();
    holders.map(|holder| holder.as_document().expect("a holder")).collect()
}
