//! When a request's lease is acquired, and when it is released.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use mongo_lease_tower::http::request::Parts;
use mongo_lease_tower::http::{Request, Response, StatusCode};
use mongo_lease_tower::{KeyRules, LeaseLayer, key};
use tower::{Layer, ServiceExt, service_fn};

use super::{by_path, freed_by, get, guarded, on_both, read};
use crate::common::{builder, document, setup};
use crate::lent::lent_database;
use crate::patience::{PATIENCE, soon, until_free, until_nothing_is_left};

#[tokio::test]
async fn a_request_holds_its_lease_until_the_response_is_there() {
    let (database, leases) = setup().await;
    let working = guarded(&by_path(&leases)).at_work("/a").await;
    assert_eq!(working.lease.name(), "test:/a");
    assert!(working.lease.is_valid());
    assert!(document(&database, "test:/a").await.is_some());
    // A client's next request finds it free.
    let answer = freed_by(&database, working.answer("done")).await;
    assert_eq!(read(answer).await, (StatusCode::OK, "done".to_owned()));
}

/// A second manager stands for another process.
#[tokio::test]
async fn only_a_second_request_for_the_same_key_is_refused() {
    on_both(async |leases, backend| {
        let others = backend.manager().await;
        let mut here = guarded(&by_path(&leases));
        let mut there = guarded(&by_path(&others));
        let at_work = here.at_work("/a").await;
        for service in [&mut here, &mut there] {
            assert_eq!(service.refused(get("/a?other=query")).await.in_short().0, 409);
            service.at_work("/b").await.end().await;
            until_free(&others, "test:/b").await;
        }
        at_work.end().await;
        until_free(&others, "test:/a").await;
        there.at_work("/a").await.end().await;
    })
    .await;
}

/// So a job without a request acquires the same lease.
#[tokio::test]
async fn a_lease_has_the_name_that_the_rules_give_its_key() {
    on_both(async |leases, _| {
        let rules = [KeyRules::default(), KeyRules::new("invoice").unwrap()];
        let by_closure = |head: &Parts| Some(head.uri.path().to_owned());
        let layers = [
            LeaseLayer::new(&leases, by_closure),
            LeaseLayer::new(&leases, key::fixed("/a:42")).key_rules(rules[1].clone()),
        ];
        for (number, name) in ["http:/a%3A42", "invoice:/a%3A42"].into_iter().enumerate() {
            let working = guarded(&layers[number]).at_work("/a:42").await;
            assert_eq!(working.lease.name(), name);
            assert_eq!(rules[number].name("/a:42").unwrap(), name);
            working.end().await;
        }
    })
    .await;
}

#[tokio::test]
async fn a_client_that_goes_in_the_middle_leaves_nothing_behind() {
    on_both(async |leases, backend| {
        let mut service = guarded(&by_path(&leases).wait(Duration::from_secs(20)));
        let working = service.at_work("/a").await;
        let waiting = service.send(get("/a"));
        tokio::task::yield_now().await;
        waiting.abort();
        assert!(waiting.await.unwrap_err().is_cancelled());
        let told = working.lease.cancellation_token();
        // The handler's lease is dropped with it.
        drop(working.lease);
        working.response.abort();
        backend.until_nothing_is_left().await;
        assert!(told.is_cancelled());
        assert!(working.answer.is_closed(), "the handler goes on");
        assert!(service.calls.try_recv().is_err(), "the handler was called");
    })
    .await;
}

#[tokio::test]
async fn a_handler_that_panics_gives_its_lease_back() {
    on_both(async |leases, backend| {
        let working = guarded(&by_path(&leases)).at_work("/a").await;
        // The handler waits for the test's answer, and panics without one.
        drop((working.lease, working.answer));
        assert!(soon("the panic", working.response).await.unwrap_err().is_panic());
        backend.until_nothing_is_left().await;
    })
    .await;
}

#[tokio::test]
async fn a_failing_handler_releases_its_lease_and_passes_its_error_on() {
    let (database, leases) = setup().await;
    let handler =
        service_fn(async |_: Request<()>| Err::<Response<Full<Bytes>>, _>("out of paper"));
    let answer = by_path(&leases).layer(handler).oneshot(get("/a"));
    assert_eq!(freed_by(&database, answer).await.unwrap_err(), "out of paper");
}

/// The work is done: a release that cannot be confirmed goes on in the background.
#[tokio::test]
async fn an_answer_waits_a_second_at_most_for_a_database_that_hangs() {
    let (server, database) = lent_database().await;
    let leases = builder(&database).release_timeout(2 * PATIENCE).build().await.unwrap();
    let working = guarded(&by_path(&leases)).at_work("/a").await;
    server.mongod().pause();
    working.end().await;
    server.mongod().resume();
    until_nothing_is_left(&database).await;
}

#[tokio::test]
async fn a_clone_that_the_handler_keeps_keeps_the_lease() {
    on_both(async |leases, backend| {
        let mut service = guarded(&by_path(&leases));
        let working = service.at_work("/a").await;
        let kept = working.lease.clone();
        working.end().await;
        assert!(kept.is_valid());
        assert_eq!(service.refused(get("/a")).await.in_short().0, 409);
        drop(kept);
        backend.until_nothing_is_left().await;
    })
    .await;
}
