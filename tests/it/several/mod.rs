//! Leases of several names: all or none.

mod convoy;
mod outcomes;
mod together;
mod trouble;

use mongo_lease::{Event, LeaseManager};

use crate::patience::Listener;

/// Returns when a call of this manager waits in a queue.
async fn queued(events: &mut Listener) {
    events.find(|event| matches!(event, Event::Queued { .. }).then_some(())).await;
}

/// Whether the lease can be acquired now. It is released again.
async fn is_free(leases: &LeaseManager, name: &str) -> bool {
    match leases.try_acquire(name).await.unwrap().granted() {
        Some(lease) => {
            lease.release().await.unwrap();
            true
        }
        None => false,
    }
}
