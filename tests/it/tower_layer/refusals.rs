//! The answer to a refused client, and the facts that it must not contain.

use std::time::Duration;

use futures_util::TryStreamExt;
use mongo_lease::mongodb::bson::{DateTime, doc};
use mongo_lease::{Error, LeaseManager, MemoryStore, Tuning};
use mongo_lease_tower::http::{Request, Response};
use mongo_lease_tower::{LeaseLayer, Refusal, RefusalKind};
use serde_json::json;

use super::{by_path, get, guarded, of_grpc, on_both};
use crate::common::{builder, setup};
use crate::lent::lent_database;
use crate::patience::locks;

/// Asserts that a request for the held lease `test:/a` is refused with this status and its words, and with no others.
pub(super) async fn assert_held(layer: &LeaseLayer, status: u16) {
    let (title, detail, grpc_status) = match status {
        409 => ("Conflict", "Another request for the same resource is being processed.", "10"),
        _ => (
            "Too Many Requests",
            "Too many requests for the same resource are being processed.",
            "8",
        ),
    };
    let mut service = guarded(layer);
    let held = service.refused(get("/a")).await;
    assert_eq!(held.refusal.kind, RefusalKind::Held);
    assert_eq!(held.refusal.name.as_deref(), Some("test:/a"));
    assert_eq!(held.headers(), ["cache-control", "content-type", "retry-after"]);
    assert_eq!(held.header("content-type"), Some("application/problem+json"));
    assert_eq!(held.header("cache-control"), Some("no-store"));
    assert_eq!(held.header("retry-after"), Some("1"), "a request ends before its lease");
    assert_eq!(held.status, status);
    let expected = json!({
        "type": "about:blank", "title": title, "status": status, "detail": detail,
        "code": "lease_held",
    });
    assert_eq!(held.problem(), expected);

    let held = service.refused(of_grpc("/a")).await;
    let names = ["content-type", "grpc-message", "grpc-retry-pushback-ms", "grpc-status"];
    assert_eq!(held.headers(), names);
    assert_eq!(held.header("grpc-status"), Some(grpc_status));
    assert_eq!(held.header("grpc-message"), Some(detail));
    assert_eq!(held.header("grpc-retry-pushback-ms"), Some("1000"));
    assert_eq!(held.status, 200);
    assert!(held.is_empty);
}

/// A gRPC client knows failures by their status, and would take another answer for a broken server.
#[tokio::test]
async fn held_is_409_with_a_second_and_a_problem_that_names_nobody() {
    on_both(async |leases, backend| {
        let others = backend.builder().owner("secret-service").build().await.unwrap();
        let _held = others.acquire("test:/a").ttl(Duration::from_secs(20)).await.unwrap();
        assert_held(&by_path(&leases), 409).await;
        // gRPC-Web is another protocol.
        let web = Request::post("/a").header("content-type", "application/grpc-web+proto");
        let refused = guarded(&by_path(&leases)).refused(web.body(()).unwrap()).await;
        assert_eq!(refused.status, 409);
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
    assert_held(&by_path(&leases), 409).await;
}

#[tokio::test]
async fn a_damaged_lease_is_503_without_a_time() {
    let (database, leases) = setup().await;
    let damaged = doc! { "name": "test:/a", "value": "v", "expiresAt": "tomorrow" };
    locks(&database).insert_one(damaged).await.unwrap();
    let refused = guarded(&by_path(&leases)).refused(get("/a")).await;
    assert_eq!(refused.in_short(), (503, "lease_unavailable".to_owned(), None));
    assert!(!refused.body.contains("tomorrow"), "{}", refused.body);
    let error = refused.refusal.error;
    assert!(matches!(error, Some(Error::Damaged { .. })), "{error:?}");
}

#[tokio::test(start_paused = true)]
async fn a_wait_that_is_over_is_503_with_a_second() {
    let leases = LeaseManager::in_memory(&MemoryStore::new()).build().await.unwrap();
    let _held = leases.semaphore("test:/a", 2).acquire().permits(2).await.unwrap();
    for limit in [1, 2] {
        let layer = by_path(&leases).limit(limit).wait(Duration::from_secs(3));
        let refused = guarded(&layer).refused(get("/a")).await;
        let expected = (503, "lease_wait_timeout".to_owned(), Some("1"));
        assert_eq!(refused.in_short(), expected, "limit {limit}");
        assert_eq!(refused.refusal.kind, RefusalKind::WaitTimeout);
    }
}

/// A database that answers nothing: the request of a caller that waits so long is refused so.
async fn assert_out_of_reach(leases: &LeaseManager, wait: Duration) {
    let refused = guarded(&by_path(leases).wait(wait)).refused(get("/a")).await;
    assert_eq!(refused.in_short(), (503, "lease_unavailable".to_owned(), None), "{wait:?}");
    assert_eq!(refused.refusal.kind, RefusalKind::Unavailable);
}

fn quick() -> Tuning {
    Tuning::default().attempt_timeout(Duration::from_secs(1))
}

#[tokio::test]
async fn a_database_out_of_reach_is_503() {
    let (server, database) = lent_database().await;
    let leases = builder(&database).tuning(quick()).build().await.unwrap();
    server.mongod().pause();
    assert_out_of_reach(&leases, Duration::ZERO).await;
    server.mongod().resume();
}

/// In 300 ms a busy machine may not even have sent the attempt.
#[tokio::test(start_paused = true)]
async fn a_store_out_of_reach_is_503() {
    let store = MemoryStore::new();
    let leases = LeaseManager::in_memory(&store).tuning(quick()).build().await.unwrap();
    let _hang = store.hang();
    for wait in [Duration::ZERO, Duration::from_millis(300)] {
        assert_out_of_reach(&leases, wait).await;
    }
}

#[tokio::test]
async fn a_wrong_option_is_500_and_a_shut_down_manager_503() {
    on_both(async |leases, _| {
        let limited = |limit| by_path(&leases).limit(limit);
        let wrong = [
            by_path(&leases).acquire_with(|acquire| acquire.ttl(Duration::ZERO)),
            limited(0),
            limited(1_001),
            limited(5).acquire_with(|acquire| acquire.permits(6)),
            limited(5).acquire_with(|acquire| acquire.shared()),
            limited(5).acquire_with(|acquire| acquire.hold_at_least(Duration::from_secs(1))),
        ];
        for (number, layer) in wrong.iter().enumerate() {
            let path = format!("/{number}");
            let refused = guarded(layer).refused(get(&path)).await;
            let expected = (500, "lease_misconfigured".to_owned(), None);
            assert_eq!(refused.in_short(), expected, "layer {number}");
            assert!(!refused.body.contains("ttl"), "{}", refused.body);
        }
        let found: Vec<_> = leases.list().stream().unwrap().try_collect().await.unwrap();
        assert!(found.is_empty(), "nothing is sent: {found:?}");
        leases.shutdown().await;
        let refused = guarded(&by_path(&leases)).refused(get("/a")).await;
        assert_eq!(refused.in_short(), (503, "lease_unavailable".to_owned(), None));
    })
    .await;
}

#[tokio::test]
async fn status_headers_and_body_of_a_refusal_are_the_users() {
    on_both(async |leases, _| {
        let _held = leases.acquire("test:/a").owner("billing").await.unwrap();
        let layer = by_path(&leases).refuse_with(|refusal: &Refusal| {
            let owner = refusal.holder().and_then(|held| held.owner.clone()).unwrap_or_default();
            let answer = Response::builder().status(429).header("x-own", owner);
            answer.body("we are at it".into()).unwrap()
        });
        let held = guarded(&layer).refused(get("/a")).await;
        assert_eq!(held.headers(), ["x-own"]);
        assert!(held.header("x-own").unwrap().starts_with("billing@"), "{:?}", held.headers);
        assert_eq!((held.status.as_u16(), &*held.body), (429, "we are at it"));
        // Still available to code that writes logs.
        assert_eq!(held.refusal.kind, RefusalKind::Held);
        assert_eq!(held.refusal.name.as_deref(), Some("test:/a"));
    })
    .await;
}
