//! Requests without a key.

use mongo_lease_tower::http::StatusCode;
use mongo_lease_tower::{LeaseLayer, key};

use super::keys::HEADER;
use super::{get, guarded, on_both};

#[tokio::test]
async fn no_request_without_a_key_passes() {
    on_both(async |leases, _| {
        let layer = LeaseLayer::new(&leases, key::header(HEADER)).limit(3);
        let mut service = guarded(&layer);
        let requests: Vec<_> = (0..8).map(|_| service.send(get("/"))).collect();
        for request in requests {
            tokio::select! {
                response = request => {
                    assert_eq!(response.unwrap().status(), StatusCode::BAD_REQUEST);
                }
                _ = service.calls.recv() => panic!("a request without a key is inside"),
            }
        }
    })
    .await;
}

/// `nest` of axum removes the prefix before the layer sees the path.
#[tokio::test]
async fn a_path_that_does_not_fit_the_route_is_refused() {
    on_both(async |leases, _| {
        let id = key::path_parameter("/api/invoices/{id}/pay", "id").unwrap();
        let mut service = guarded(&LeaseLayer::new(&leases, id));
        let refused = service.refused(get("/invoices/42/pay")).await;
        assert_eq!(refused.in_short(), (500, "lease_misconfigured".to_owned(), None));
        assert!(!refused.body.contains("invoices"), "what the client sent: {}", refused.body);
        let error = refused.refusal.error.unwrap().to_string();
        assert!(error.contains("\"/invoices/42/pay\" does not fit \"/api/inv"), "{error}");
    })
    .await;
}
