//! Requests without a key.

use mongo_lease_tower::http::header::HeaderName;
use mongo_lease_tower::http::request::Parts;
use mongo_lease_tower::http::{Request, StatusCode};
use mongo_lease_tower::key::{self, KeyExtractor};
use mongo_lease_tower::{InvalidKey, LeaseLayer, Refusal};

use super::{answer_to, get, guarded, read, send};
use crate::both::check;

const HEADER: HeaderName = HeaderName::from_static("x-key");

#[tokio::test]
async fn no_request_without_a_key_passes() {
    check(async |backend| {
        let leases = backend.manager().await;
        let layer = LeaseLayer::new(&leases, key::header(HEADER)).limit(3);
        let (service, mut calls) = guarded(&layer);
        let requests: Vec<_> = (0..8).map(|_| send(&service, get("/"))).collect();
        for request in requests {
            tokio::select! {
                response = request => {
                    assert_eq!(response.unwrap().status(), StatusCode::BAD_REQUEST);
                }
                _ = calls.next() => panic!("a request without a key is inside"),
            }
        }
    })
    .await;
}

/// An extractor of a user, which names what is missing.
struct Tenant;

impl KeyExtractor for Tenant {
    fn key(&self, _: &Parts) -> Result<String, InvalidKey> {
        Err(InvalidKey::Missing("50% of the société".to_owned()))
    }
}

#[tokio::test]
async fn the_refusal_without_a_key_names_what_is_missing() {
    check(async |backend| {
        let leases = backend.manager().await;
        for (layer, said) in [
            (LeaseLayer::new(&leases, |_: &Parts| None), "the key is missing"),
            (LeaseLayer::new(&leases, key::path_segment(2)), "segment 2 of the path is missing"),
            (LeaseLayer::new(&leases, Tenant), "50% of the société is missing"),
        ] {
            let (service, mut calls) = guarded(&layer);
            let (status, body) = read(answer_to(&service, get("/invoices/42")).await).await;
            assert_eq!(status, StatusCode::BAD_REQUEST, "{said}");
            let problem: serde_json::Value = serde_json::from_str(&body).unwrap();
            assert_eq!(problem["detail"], said);
            assert_eq!(problem["code"], "lease_key_invalid");
            assert!(calls.is_quiet(), "the handler was called");
        }
        let (service, _calls) = guarded(&LeaseLayer::new(&leases, Tenant));
        let grpc = Request::post("/a").header("content-type", "application/grpc").body(()).unwrap();
        let response = answer_to(&service, grpc).await;
        assert_eq!(response.headers()["grpc-status"], "3");
        let message = &response.headers()["grpc-message"];
        assert_eq!(message, "50%25 of the soci%C3%A9t%C3%A9 is missing");
    })
    .await;
}

/// `nest` of axum removes the prefix before the layer sees the path.
#[tokio::test]
async fn a_path_that_does_not_fit_the_route_is_refused() {
    check(async |backend| {
        let leases = backend.manager().await;
        let id = key::path_parameter("/api/invoices/{id}/pay", "id").unwrap();
        let layer = LeaseLayer::new(&leases, id);
        let (service, mut calls) = guarded(&layer);
        let request = send(&service, get("/invoices/42/pay"));
        let response = tokio::select! {
            response = request => response.unwrap(),
            _ = calls.next() => panic!("a request that does not fit the route is inside"),
        };
        let refusal = response.extensions().get::<Refusal>().unwrap();
        let error = refusal.error.as_ref().unwrap().to_string();
        assert!(error.contains("\"/invoices/42/pay\" does not fit \"/api/inv"), "{error}");
        let (status, body) = read(response).await;
        assert_eq!(status, StatusCode::INTERNAL_SERVER_ERROR);
        let problem: serde_json::Value = serde_json::from_str(&body).unwrap();
        assert_eq!(problem["code"], "lease_misconfigured");
        assert!(!body.contains("invoices"), "what the client sent: {body}");
    })
    .await;
}
