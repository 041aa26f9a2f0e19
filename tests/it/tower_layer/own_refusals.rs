//! A user's own answer to a refused request.

use mongo_lease_tower::http::header::CONTENT_TYPE;
use mongo_lease_tower::http::{HeaderValue, Response, StatusCode};
use mongo_lease_tower::{Refusal, RefusalKind};

use super::{by_path, get, guarded, on_both};

#[tokio::test]
async fn status_headers_and_body_of_a_refusal_are_the_users() {
    on_both(async |leases, _| {
        let _held = leases.acquire("test:/a").owner("billing").await.unwrap();
        let layer = by_path(&leases).refuse_with(|refusal: &Refusal| match refusal.kind {
            RefusalKind::Held => {
                let owner = refusal.holder().and_then(|held| held.owner.clone()).unwrap();
                assert!(owner.starts_with("billing@"), "{owner}");
                let mut response = Response::new("we are at it".into());
                *response.status_mut() = StatusCode::TOO_MANY_REQUESTS;
                response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain"));
                response
            }
            _ => {
                let mut response = refusal.response();
                response.headers_mut().insert("x-own", HeaderValue::from_static("yes"));
                response
            }
        });
        let mut service = guarded(&layer);
        let held = service.refused(get("/a")).await;
        assert_eq!(held.headers(), ["content-type"]);
        assert_eq!(held.header("content-type"), Some("text/plain"));
        assert_eq!((held.status.as_u16(), &*held.body), (429, "we are at it"));
        // Still available to code that writes logs.
        assert_eq!(held.refusal.kind, RefusalKind::Held);
        assert_eq!(held.refusal.name.as_deref(), Some("test:/a"));
        let invalid = service.refused(get("/%00")).await;
        assert_eq!((invalid.status.as_u16(), invalid.header("x-own")), (400, Some("yes")));
    })
    .await;
}
