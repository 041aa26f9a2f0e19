//! Waiting for events and states, always with a deadline and never for a fixed time.

use std::time::{Duration, Instant};

use mongo_lease::LeaseManager;

/// Longer than anything here takes, on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Polls a state without events, until `look` returns something.
pub(crate) async fn until<T>(what: &str, look: impl AsyncFn() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(seen) = look().await {
            return seen;
        }
        assert!(Instant::now() < deadline, "after {PATIENCE:?} this has not happened: {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Returns when that many processes wait in the lease's queue.
pub(crate) async fn until_in_line(leases: &LeaseManager, name: &str, processes: u32) {
    let look = async || {
        let found = leases.get(name).await.unwrap();
        found.filter(|lease| lease.waiting == processes)
    };
    until("they stand in line", look).await;
}
