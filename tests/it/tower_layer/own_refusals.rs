//! A user's own answer to a refused request.

use mongo_lease_tower::http::header::{CONTENT_TYPE, RETRY_AFTER};
use mongo_lease_tower::http::{HeaderValue, Response, StatusCode};
use mongo_lease_tower::{Refusal, RefusalKind};

use super::{answer_to, by_path, get, guarded, read};
use crate::both::check;

#[tokio::test]
async fn status_headers_and_body_of_a_refusal_are_the_users() {
    check(async |backend| {
        let leases = backend.manager().await;
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
        let (service, _calls) = guarded(&layer);
        let response = answer_to(&service, get("/a")).await;
        assert_eq!(response.headers().len(), 1, "{:?}", response.headers());
        assert_eq!(response.headers()[CONTENT_TYPE], "text/plain");
        // Still available to code that writes logs.
        let refusal = response.extensions().get::<Refusal>().unwrap();
        assert_eq!(
            (refusal.kind.clone(), refusal.name.as_deref()),
            (RefusalKind::Held, Some("test:/a"))
        );
        assert_eq!(
            read(response).await,
            (StatusCode::TOO_MANY_REQUESTS, "we are at it".to_owned())
        );
        let response = answer_to(&service, get("/%00")).await;
        assert_eq!(
            (response.status(), &response.headers()["x-own"]),
            (StatusCode::BAD_REQUEST, &HeaderValue::from_static("yes"))
        );
    })
    .await;
}

/// As on the page about web services: an own status and body, with the headers as they are.
#[tokio::test]
async fn an_own_body_keeps_the_time_to_try_again() {
    check(async |backend| {
        let leases = backend.manager().await;
        let _held = leases.acquire("test:/a").await.unwrap();
        let layer = by_path(&leases).refuse_with(|refusal: &Refusal| {
            let mut response = refusal.response();
            *response.status_mut() = StatusCode::LOCKED;
            *response.body_mut() = "we are at it".into();
            response
        });
        let (service, _calls) = guarded(&layer);
        let response = answer_to(&service, get("/a")).await;
        assert_eq!(response.headers()[RETRY_AFTER], "1");
        assert_eq!(read(response).await, (StatusCode::LOCKED, "we are at it".to_owned()));
    })
    .await;
}
