//! Waiting for what has to come, with a deadline and never blindly.

use std::time::{Duration, Instant};

use mongo_lease::LeaseManager;

/// Nothing here takes that long, however busy the machine is.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// The result of the future, which has to come.
pub(crate) async fn soon<T>(what: &str, future: impl Future<Output = T>) -> T {
    match tokio::time::timeout(PATIENCE, future).await {
        Ok(output) => output,
        Err(_) => panic!("after {PATIENCE:?} this has not happened: {what}"),
    }
}

/// Looks again and again, until there is something to be seen of which nobody sends an event.
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

/// Returns when somebody stands in line for the lease.
pub(crate) async fn until_in_line(leases: &LeaseManager, name: &str, processes: u32) {
    let look = async || {
        let found = leases.get(name).await.unwrap();
        found.filter(|lease| lease.waiting == processes)
    };
    until("they stand in line", look).await;
}
