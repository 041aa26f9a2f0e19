//! The answer to a refused client, and the facts that it must not contain.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use mongo_lease::mongodb::bson::{DateTime, doc};
use mongo_lease::{Error, LeaseManager, Tuning};
use mongo_lease_tower::http::{HeaderMap, Request, Response, StatusCode};
use mongo_lease_tower::{LeaseBody, Refusal, RefusalKind};
use serde_json::{Value, json};

use super::{answer_to, by_path, get, guarded, read};
use crate::both::check;
use crate::common::{builder, setup};
use crate::lent::lent_database;
use crate::patience::locks;

fn header<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name).map(|value| value.to_str().expect("a text"))
}

fn kind(response: &Response<LeaseBody<Full<Bytes>>>) -> RefusalKind {
    response.extensions().get::<Refusal>().expect("a refusal").kind.clone()
}

/// All headers that an answer may have: a hostile one would show.
fn names(headers: &HeaderMap) -> Vec<&str> {
    let mut names: Vec<&str> = headers.keys().map(|name| name.as_str()).collect();
    names.sort_unstable();
    names
}

#[tokio::test]
async fn held_is_409_with_a_second_and_a_problem_that_names_nobody() {
    check(async |backend| {
        let leases = backend.manager().await;
        let others = backend.builder().owner("secret-service").build().await.unwrap();
        let _held = others.acquire("test:/a").ttl(Duration::from_secs(20)).await.unwrap();
        let (service, _calls) = guarded(&by_path(&leases));
        let response = answer_to(&service, get("/a")).await;
        assert_eq!(kind(&response), RefusalKind::Held);
        let headers = response.headers().clone();
        assert_eq!(names(&headers), ["cache-control", "content-type", "retry-after"]);
        assert_eq!(header(&headers, "content-type"), Some("application/problem+json"));
        assert_eq!(header(&headers, "cache-control"), Some("no-store"));
        assert_eq!(header(&headers, "retry-after"), Some("1"), "a request ends before its lease");
        let (status, body) = read(response).await;
        assert_eq!(status, StatusCode::CONFLICT);
        let expected = json!({
            "type": "about:blank",
            "title": "Conflict",
            "status": 409,
            "detail": "Another request for the same resource is being processed.",
            "code": "lease_held",
        });
        assert_eq!(serde_json::from_str::<Value>(&body).unwrap(), expected);
    })
    .await;
}

/// Any program that writes to the collection decides what the document contains.
#[tokio::test]
async fn a_hostile_document_gets_nothing_into_an_answer() {
    const OWNER: &str = "x\r\nSet-Cookie: a=b\r\n\r\n\",\"status\":200,\"z\":\"\u{2028}</script>";
    let (database, leases) = setup().await;
    let year_9999 = DateTime::from_millis(253_370_764_800_000);
    let document = doc! {
        "name": "test:/a", "value": "v", "expiresAt": year_9999,
        "grant": { "value": "v", "id": "v", "owner": OWNER },
    };
    locks(&database).insert_one(document).await.unwrap();
    let (service, _calls) = guarded(&by_path(&leases));
    let response = answer_to(&service, get("/a")).await;
    assert_eq!(names(response.headers()), ["cache-control", "content-type", "retry-after"]);
    assert_eq!(header(response.headers(), "retry-after"), Some("1"));
    let (status, body) = read(response).await;
    assert_eq!(status, StatusCode::CONFLICT);
    assert!(!body.contains(['\r', '\n']), "{body}");
    let problem: Value = serde_json::from_str(&body).unwrap();
    assert_eq!(problem["status"], json!(409));
    assert_eq!(problem.as_object().unwrap().len(), 5);
}

/// Nothing of the request appears in the answer.
#[tokio::test]
async fn a_hostile_request_gets_nothing_into_an_answer() {
    check(async |backend| {
        let leases = backend.manager().await;
        let (service, _calls) = guarded(&by_path(&leases));
        let _held = leases.acquire("test:/%22,x<script>").await.unwrap();
        for (path, status) in [
            ("/a%0d%0aSet-Cookie:%20a=b", StatusCode::BAD_REQUEST),
            ("/%00", StatusCode::BAD_REQUEST),
            ("/%ff", StatusCode::BAD_REQUEST),
        ] {
            let response = answer_to(&service, get(path)).await;
            assert_eq!(names(response.headers()), ["cache-control", "content-type"]);
            let (found, body) = read(response).await;
            assert_eq!(found, status, "{path}");
            assert!(!body.contains("Cookie") && !body.contains("script"), "{body}");
        }
    })
    .await;
}

#[tokio::test]
async fn a_damaged_lease_is_503_without_a_time() {
    let (database, leases) = setup().await;
    let damaged = doc! { "name": "test:/a", "value": "v", "expiresAt": "tomorrow" };
    locks(&database).insert_one(damaged).await.unwrap();
    let (service, mut calls) = guarded(&by_path(&leases));
    let response = answer_to(&service, get("/a")).await;
    assert_eq!(header(response.headers(), "retry-after"), None);
    let refusal = response.extensions().get::<Refusal>().unwrap();
    assert!(matches!(refusal.error, Some(Error::Damaged { .. })), "{refusal:?}");
    let (status, body) = read(response).await;
    assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
    assert!(body.contains("lease_unavailable") && !body.contains("tomorrow"), "{body}");
    assert!(calls.is_quiet());
}

#[tokio::test]
async fn a_wait_that_is_over_is_503_with_a_second() {
    check(async |backend| {
        let leases = backend.manager().await;
        let _held = leases.acquire("test:/a").await.unwrap();
        let (service, mut calls) = guarded(&by_path(&leases).wait(Duration::from_millis(300)));
        let response = answer_to(&service, get("/a")).await;
        assert_eq!(kind(&response), RefusalKind::WaitTimeout);
        assert_eq!(header(response.headers(), "retry-after"), Some("1"));
        let (status, body) = read(response).await;
        assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
        assert!(body.contains("lease_wait_timeout"), "{body}");
        assert!(calls.is_quiet());
    })
    .await;
}

#[tokio::test]
async fn a_database_out_of_reach_is_503() {
    let (server, database) = lent_database().await;
    let quick =
        builder(&database).tuning(Tuning::default().attempt_timeout(Duration::from_secs(1)));
    let leases = quick.build().await.unwrap();
    let (at_once, mut calls) = guarded(&by_path(&leases));
    let (waiting, mut calls_of_waiting) =
        guarded(&by_path(&leases).wait(Duration::from_millis(300)));
    server.mongod().pause();
    let response = answer_to(&at_once, get("/a")).await;
    assert_eq!(kind(&response), RefusalKind::Unavailable);
    assert_eq!(header(response.headers(), "retry-after"), None);
    assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE);
    let response = answer_to(&waiting, get("/a")).await;
    assert_eq!(kind(&response), RefusalKind::Unavailable);
    assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE);
    server.mongod().resume();
    assert!(calls.is_quiet() && calls_of_waiting.is_quiet());
}

async fn refused_with(leases: &LeaseManager, ttl: Duration) -> (StatusCode, String) {
    let layer = by_path(leases).acquire_with(move |acquire| acquire.ttl(ttl));
    let (service, mut calls) = guarded(&layer);
    let answer = read(answer_to(&service, get("/a")).await).await;
    assert!(calls.is_quiet());
    answer
}

#[tokio::test]
async fn a_wrong_option_is_500_and_a_shut_down_manager_503() {
    check(async |backend| {
        let leases = backend.manager().await;
        let (status, body) = refused_with(&leases, Duration::ZERO).await;
        assert_eq!(status, StatusCode::INTERNAL_SERVER_ERROR);
        assert!(body.contains("lease_misconfigured") && !body.contains("ttl"), "{body}");
        leases.shutdown().await;
        let (status, body) = refused_with(&leases, Duration::from_secs(1)).await;
        assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
        assert!(body.contains("lease_unavailable"), "{body}");
    })
    .await;
}

/// A gRPC client knows failures by their status, and would take another answer for a broken server.
#[tokio::test]
async fn a_client_of_grpc_is_told_in_its_own_words() {
    check(async |backend| {
        let leases = backend.manager().await;
        let _held = leases.acquire("test:/a").await.unwrap();
        let (service, _calls) = guarded(&by_path(&leases));
        let grpc = |path: &str| {
            let head = Request::post(path).header("content-type", "application/grpc+proto");
            head.body(()).unwrap()
        };
        let response = answer_to(&service, grpc("/a")).await;
        let headers = response.headers().clone();
        assert_eq!(
            names(&headers),
            ["content-type", "grpc-message", "grpc-retry-pushback-ms", "grpc-status"]
        );
        assert_eq!(header(&headers, "grpc-status"), Some("10"));
        assert_eq!(
            header(&headers, "grpc-message"),
            Some("Another request for the same resource is being processed.")
        );
        assert_eq!(header(&headers, "grpc-retry-pushback-ms"), Some("1000"));
        assert!(http_body::Body::is_end_stream(response.body()));
        assert_eq!(read(response).await, (StatusCode::OK, String::new()));

        let response = answer_to(&service, grpc("/%00")).await;
        assert_eq!(header(response.headers(), "grpc-status"), Some("3"));
        // gRPC-Web is another protocol.
        let web = Request::post("/a").header("content-type", "application/grpc-web+proto");
        let response = answer_to(&service, web.body(()).unwrap()).await;
        assert_eq!(response.status(), StatusCode::CONFLICT);
    })
    .await;
}
