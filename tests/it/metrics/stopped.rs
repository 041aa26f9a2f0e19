//! The reasons that a process counts for leases whose time ran out while it was stopped.

use std::time::Duration;

use mongo_lease::{LeaseManager, LostReason};

use super::Counts;
use crate::lent::lent_setup;
use crate::patience::soon;
use crate::worker::{Worker, as_worker, order, say};

/// Its renewal is due after a second: on a busy machine too, the process is blocked by then.
const TTL: Duration = Duration::from_secs(3);

/// The counters of losses that are not zero, by reason.
fn losses(counts: &Counts) -> Vec<(String, f64)> {
    let of_losses = counts.shown().into_iter().filter_map(|(key, count)| {
        let reason = key.strip_prefix("mongo_lease_lost_total{reason=")?.strip_suffix('}')?;
        Some((reason.to_owned(), count))
    });
    of_losses.filter(|(_, count)| *count > 0.0).collect()
}

#[tokio::test]
async fn a_stopped_holder_counts_a_loss_that_nobody_asked_for() {
    const NAME: &str = "metrics::stopped::a_stopped_holder_counts_a_loss_that_nobody_asked_for";
    if let Some(database) = as_worker().await {
        // One thread: nothing of the library runs between the grant and the end of the stop.
        let counts = Counts::default();
        let _recorder = metrics::set_default_local_recorder(&counts);
        let leases = LeaseManager::builder(&database).await.unwrap();
        // The negative control ends at the same time, as it was asked to.
        let capped = leases.acquire("capped").ttl(TTL).max_hold(TTL / 2).await.unwrap();
        let lease = leases.acquire("a").ttl(TTL).await.unwrap();
        say("holds both");
        let _woken = order();
        let reasons = [lease.lost().await, capped.lost().await];
        let is_it = matches!(reasons, [LostReason::NotRenewed { .. }, LostReason::EndedAsAsked]);
        say(if is_it { "as they ended".to_owned() } else { format!("{reasons:?}") });
        say(format!("{:?}", losses(&counts)));
        say(lease.check().unwrap_err());
        let _end = order();
        return;
    }
    let (server, database, leases) = lent_setup().await;
    let mut worker = Worker::start(NAME, server.uri(), &database);
    assert_eq!(worker.says().await, "holds both");

    worker.pause();
    let next = soon("the next grant", leases.acquire("a").into_future()).await.unwrap();
    worker.tell("you were stopped").await;
    worker.resume();
    assert_eq!(worker.says().await, "as they ended", "Lease::lost()");
    assert_eq!(worker.says().await, r#"[("ended_as_asked", 1.0), ("not_renewed", 1.0)]"#);
    let text = worker.says().await;
    let begin = "lease \"a\" is lost: it was not renewed in time: this process stood still for ";
    assert!(text.starts_with(begin), "{text}");
    assert!(next.is_valid());
}
