//! A lease that is lost while its request is handled.

use std::time::Duration;

use mongo_lease::{LeaseManager, LostReason};
use mongo_lease_tower::http::StatusCode;
use mongo_lease_tower::{LeaseLayer, OnLoss, Refusal, RefusalKind};

use super::{Call, by_path, get, guarded, read, send};
use crate::both::check;
use crate::patience::soon;

/// An operator frees the lease, and its holder learns that by the next renewal.
async fn take_away(leases: &LeaseManager, call: &Call) -> LostReason {
    leases.release(call.lease().name(), call.lease().value()).await.unwrap();
    soon("the loss", call.lease().lost()).await
}

fn layer(leases: &LeaseManager) -> LeaseLayer {
    by_path(leases).acquire_with(|acquire| acquire.ttl(Duration::from_millis(600)))
}

#[tokio::test]
async fn the_handler_is_told_and_its_answer_is_the_clients() {
    check(async |backend| {
        let leases = backend.manager().await;
        let (service, mut calls) = guarded(&layer(&leases));
        let request = send(&service, get("/a"));
        let call = calls.next().await;
        let token = call.lease().cancellation_token();
        assert_eq!(take_away(&leases, &call).await, LostReason::Removed);
        assert!(token.is_cancelled());
        call.answer("I know");
        let answer = read(soon("the answer", request).await.unwrap()).await;
        assert_eq!(answer, (StatusCode::OK, "I know".to_owned()));
    })
    .await;
}

#[tokio::test]
async fn the_answer_is_held_back_where_that_is_asked_for() {
    check(async |backend| {
        let leases = backend.manager().await;
        let (service, mut calls) = guarded(&layer(&leases).on_loss(OnLoss::Answer503));
        let request = send(&service, get("/a"));
        let call = calls.next().await;
        take_away(&leases, &call).await;
        assert!(!call.answer.is_closed(), "the handler was dropped");
        call.answer("a secret");
        let response = soon("the answer", request).await.unwrap();
        let refusal = response.extensions().get::<Refusal>().expect("a refusal");
        assert_eq!(refusal.kind, RefusalKind::Lost);
        assert_eq!(refusal.name.as_deref(), Some("test:/a"));
        let (status, body) = read(response).await;
        assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
        assert!(body.contains("\"code\":\"lease_lost\"") && !body.contains("secret"), "{body}");
    })
    .await;
}

#[tokio::test]
async fn an_answer_that_came_before_the_loss_is_passed_on() {
    check(async |backend| {
        let leases = backend.manager().await;
        let (service, mut calls) = guarded(&layer(&leases).on_loss(OnLoss::Answer503));
        let request = send(&service, get("/a"));
        calls.next().await.answer("in time");
        let answer = read(soon("the answer", request).await.unwrap()).await;
        assert_eq!(answer, (StatusCode::OK, "in time".to_owned()));
    })
    .await;
}

#[tokio::test]
async fn the_handler_is_dropped_where_that_is_asked_for() {
    check(async |backend| {
        let leases = backend.manager().await;
        let (service, mut calls) = guarded(&layer(&leases).on_loss(OnLoss::Stop));
        let request = send(&service, get("/a"));
        let call = calls.next().await;
        take_away(&leases, &call).await;
        // The connection ends without a response.
        let response = soon("the answer", request).await.unwrap();
        assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE);
        assert!(call.answer.is_closed(), "the handler goes on");
    })
    .await;
}

#[tokio::test]
async fn a_manager_shutdown_tells_the_handler_that_its_lease_is_lost() {
    check(async |backend| {
        let leases = backend.manager().await;
        let (service, mut calls) = guarded(&layer(&leases).on_loss(OnLoss::Answer503));
        let request = send(&service, get("/a"));
        let call = calls.next().await;
        let report = leases.shutdown().await;
        assert_eq!(report.released, 1);
        assert_eq!(soon("the loss", call.lease().lost()).await, LostReason::Released);
        call.answer("late");
        let response = soon("the answer", request).await.unwrap();
        assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE);
    })
    .await;
}
