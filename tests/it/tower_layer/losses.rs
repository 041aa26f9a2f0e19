//! A lease that is lost while its request is handled.

use std::time::Duration;

use mongo_lease::{LeaseManager, LostReason};
use mongo_lease_tower::http::StatusCode;
use mongo_lease_tower::{LeaseLayer, OnLoss, RefusalKind};

use super::{Refused, Working, by_path, guarded, on_both, read};
use crate::patience::soon;

/// An operator frees the lease, and its holder learns that by the next renewal.
async fn take_away(leases: &LeaseManager, working: &Working) {
    let lease = &working.lease;
    leases.release(lease.name(), lease.value()).await.unwrap();
    assert_eq!(soon("the loss", lease.lost()).await, LostReason::Removed);
}

fn layer(leases: &LeaseManager) -> LeaseLayer {
    by_path(leases).acquire_with(|acquire| acquire.ttl(Duration::from_millis(600)))
}

#[tokio::test]
async fn the_handler_is_told_and_its_answer_is_the_clients() {
    on_both(async |leases, _| {
        let working = guarded(&layer(&leases)).at_work("/a").await;
        let token = working.lease.cancellation_token();
        take_away(&leases, &working).await;
        assert!(token.is_cancelled());
        let answer = read(working.answer("I know").await).await;
        assert_eq!(answer, (StatusCode::OK, "I know".to_owned()));
    })
    .await;
}

#[tokio::test]
async fn the_answer_is_held_back_where_that_is_asked_for() {
    on_both(async |leases, _| {
        let mut service = guarded(&layer(&leases).on_loss(OnLoss::Answer503));
        // The control: an answer that comes before a loss is passed on.
        service.at_work("/a").await.end().await;

        let working = service.at_work("/a").await;
        take_away(&leases, &working).await;
        assert!(!working.answer.is_closed(), "the handler was dropped");
        let lost = Refused::of(working.answer("a secret").await).await;
        assert_eq!(lost.refusal.kind, RefusalKind::Lost);
        assert_eq!(lost.refusal.name.as_deref(), Some("test:/a"));
        assert_eq!(lost.in_short(), (503, "lease_lost".to_owned(), None));
        assert!(!lost.body.contains("secret"), "{}", lost.body);
    })
    .await;
}

#[tokio::test]
async fn the_handler_is_dropped_where_that_is_asked_for() {
    on_both(async |leases, _| {
        let working = guarded(&layer(&leases).on_loss(OnLoss::Stop)).at_work("/a").await;
        take_away(&leases, &working).await;
        let answer = soon("the answer", working.response).await.unwrap();
        assert_eq!(answer.status(), StatusCode::SERVICE_UNAVAILABLE);
        assert!(working.answer.is_closed(), "the handler goes on");
    })
    .await;
}
