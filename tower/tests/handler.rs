//! The handler that `docs/web-services.md` shows, and its answers.

// The page begins.
use std::time::Duration;

use axum::extract::Path;
use axum::http::StatusCode;
use axum::routing::post;
use axum::{Extension, Router};
use mongo_lease::LeaseManager;
use mongo_lease_tower::{HeldLease, KeyRules, LeaseLayer, OnLoss, RefusalKind, key};

/// Requests for one invoice exclude each other on all machines, under the lease `invoice:{id}`.
fn routes(leases: &LeaseManager) -> mongo_lease::Result<Router> {
    let layer = LeaseLayer::new(leases, key::path_parameter("/invoices/{id}/payment", "id")?)
        .key_rules(KeyRules::new("invoice")?)
        .acquire_with(|acquire| acquire.max_hold(Duration::from_secs(60)))
        .on_loss(OnLoss::Answer503)
        .refuse_with(|refusal| {
            // Status and headers stay as they are: 409, with `Retry-After`.
            let mut response = refusal.response();
            if refusal.kind == RefusalKind::Held && !refusal.is_grpc {
                *response.body_mut() = r#"{"code":"payment_under_way"}"#.into();
            }
            response
        });
    Ok(Router::new().route("/invoices/{id}/payment", post(pay)).route_layer(layer))
}

async fn pay(
    Path(invoice): Path<String>,
    Extension(lease): Extension<HeldLease>,
) -> Result<String, StatusCode> {
    let token = lease.token().map_err(unavailable)?;
    // The first error is a loss of the lease, which drops the work; the second one is the bank's.
    let charged = lease.run(charge(&invoice)).await.map_err(unavailable)?;
    let receipt = charged.map_err(|CardDeclined| StatusCode::PAYMENT_REQUIRED)?;
    // Here the token fences what the handler writes.
    Ok(format!("{receipt}, under token {token}"))
}

struct CardDeclined;

/// The work, which may fail.
async fn charge(invoice: &str) -> Result<String, CardDeclined> {
    if invoice == "13" { Err(CardDeclined) } else { Ok(format!("invoice {invoice} is paid")) }
}

/// The text is for the log, and not for the client.
fn unavailable(error: mongo_lease::Error) -> StatusCode {
    eprintln!("{error}");
    StatusCode::SERVICE_UNAVAILABLE
}
// The page ends.

use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, Request};
use http_body_util::BodyExt;
use mongo_lease::MemoryStore;
use tower::ServiceExt;

async fn manager() -> LeaseManager {
    LeaseManager::in_memory(&MemoryStore::new()).build().await.expect("a manager")
}

async fn pay_in(service: &Router, invoice: &str) -> (StatusCode, HeaderMap, Bytes) {
    let request = Request::post(format!("/invoices/{invoice}/payment")).body(Body::empty());
    let answer = service.clone().oneshot(request.expect("a request")).await;
    let (head, body) = answer.unwrap_or_else(|never| match never {}).into_parts();
    (head.status, head.headers, body.collect().await.expect("a body").to_bytes())
}

#[tokio::test]
async fn the_handler_of_the_page_pays_and_gives_the_lease_back() {
    let leases = manager().await;
    let service = routes(&leases).expect("a valid layer");
    let (status, _, body) = pay_in(&service, "42").await;
    assert_eq!(status, StatusCode::OK);
    assert!(body.starts_with(b"invoice 42 is paid, under token "), "{body:?}");
    let (status, ..) = pay_in(&service, "13").await;
    assert_eq!(status, StatusCode::PAYMENT_REQUIRED);
    for invoice in ["invoice:42", "invoice:13"] {
        assert!(leases.try_acquire(invoice).await.expect("an answer").is_granted(), "{invoice}");
    }
}

#[tokio::test]
async fn its_own_409_keeps_the_time_to_try_again() {
    let leases = manager().await;
    let service = routes(&leases).expect("a valid layer");
    let _job = leases.acquire("invoice:42").await.expect("the lease is free");
    let (status, headers, body) = pay_in(&service, "42").await;
    assert_eq!(status, StatusCode::CONFLICT);
    assert_eq!(headers["retry-after"], "1");
    assert_eq!(body, r#"{"code":"payment_under_way"}"#);
    // Other refusals have the layer's own body.
    let (status, _, body) = pay_in(&service, "%00").await;
    assert_eq!(status, StatusCode::BAD_REQUEST);
    assert!(String::from_utf8_lossy(&body).contains("lease_key_invalid"), "{body:?}");
}

#[test]
fn the_page_shows_this_handler() {
    let page = include_str!("../../docs/web-services.md");
    let source = include_str!("handler.rs");
    let shown = source.split("// The page begins.\n").nth(1).expect("a begin");
    let shown = shown.split("// The page ends.\n").next().expect("an end");
    assert!(page.contains(shown), "the code on the page is not that of this file");
}
