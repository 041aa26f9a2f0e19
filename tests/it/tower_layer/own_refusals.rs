//! A user's own answer to a refused request.

use std::time::Duration;

use mongo_lease::tower::http::header::{CONTENT_TYPE, RETRY_AFTER};
use mongo_lease::tower::http::{HeaderValue, Response, StatusCode};
use mongo_lease::tower::{LeaseLayer, Refusal, RefusalKind};
use mongo_lease::{Error, LeaseInfo};

use super::{answer_to, by_path, get, guarded, read};
use crate::both::check;

async fn retry_after(layer: &LeaseLayer) -> Option<HeaderValue> {
    let (service, _calls) = guarded(layer);
    answer_to(&service, get("/a")).await.headers().get(RETRY_AFTER).cloned()
}

#[tokio::test]
async fn the_time_to_try_again_is_what_the_layer_was_told() {
    check(async |backend| {
        let leases = backend.manager().await;
        let _held = leases.acquire("test:/a").ttl(Duration::from_secs(20)).await.unwrap();
        let layer = || by_path(&leases);
        assert_eq!(retry_after(&layer()).await.unwrap(), "1");
        assert_eq!(
            retry_after(&layer().retry_after(Duration::from_millis(2_500))).await.unwrap(),
            "3"
        );
        assert_eq!(retry_after(&layer().retry_after(None)).await, None);
        let remaining = layer().retry_after_with(|held: &LeaseInfo| held.remaining);
        let seconds: u64 =
            retry_after(&remaining).await.unwrap().to_str().unwrap().parse().unwrap();
        assert!((10..=21).contains(&seconds), "{seconds}");
        // The error of the same refusal says the same.
        let (service, _calls) = guarded(&remaining);
        let response = answer_to(&service, get("/a")).await;
        let refusal = response.extensions().get::<Refusal>().unwrap();
        let of_error = refusal.error.as_ref().and_then(Error::retry_after);
        assert!(of_error.is_some() && of_error == refusal.retry_after, "{refusal:?}");
        // A day is long enough.
        let years = layer().retry_after_with(|_| Some(Duration::MAX));
        assert_eq!(retry_after(&years).await.unwrap(), "86400");
    })
    .await;
}

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
        assert_eq!((refusal.kind, refusal.name.as_deref()), (RefusalKind::Held, Some("test:/a")));
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
