//! When a request's lease is acquired, and when it is released.

use std::convert::Infallible;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use mongo_lease_tower::http::request::Parts;
use mongo_lease_tower::http::{Request, Response, StatusCode};
use mongo_lease_tower::{HeldLease, LeaseLayer};
use tower::{Layer, ServiceExt, service_fn};

use super::{answer_to, by_path, get, guarded, read, send};
use crate::both::check;
use crate::common::{builder, document, setup};
use crate::lent::lent_database;
use crate::patience::{PATIENCE, soon, until_nothing_is_left};

#[tokio::test]
async fn a_request_holds_its_lease_until_the_response_is_there() {
    let (database, leases) = setup().await;
    let (service, mut calls) = guarded(&by_path(&leases));
    let first = send(&service, get("/a"));
    let call = calls.next().await;
    assert_eq!(call.lease().name(), "test:/a");
    assert!(call.lease().is_valid());
    assert!(document(&database, "test:/a").await.is_some());

    call.answer("done");
    let response = soon("the answer", first).await.unwrap();
    // Without waiting: a client's next request finds it free.
    assert!(document(&database, "test:/a").await.is_none());
    assert_eq!(read(response).await, (StatusCode::OK, "done".to_owned()));
}

#[tokio::test]
async fn only_a_second_request_for_the_same_key_is_refused() {
    check(async |backend| {
        let leases = backend.manager().await;
        let (service, mut calls) = guarded(&by_path(&leases));
        let first = send(&service, get("/a"));
        let at_work = calls.next().await;

        let refused = answer_to(&service, get("/a?other=query")).await;
        assert_eq!(refused.status(), StatusCode::CONFLICT);
        assert!(calls.is_quiet(), "the handler was called beside another");
        let other = send(&service, get("/b"));
        let beside = calls.next().await;
        assert_eq!(beside.lease().name(), "test:/b");
        beside.answer("b");
        at_work.answer("a");
        assert_eq!(soon("b", other).await.unwrap().status(), StatusCode::OK);
        assert_eq!(soon("a", first).await.unwrap().status(), StatusCode::OK);
    })
    .await;
}

/// A second manager stands for another process.
#[tokio::test]
async fn requests_to_two_processes_exclude_each_other() {
    check(async |backend| {
        let leases = backend.manager().await;
        let others = backend.manager().await;
        let (here, mut calls) = guarded(&by_path(&leases));
        let (there, mut calls_there) = guarded(&by_path(&others));
        let first = send(&here, get("/a"));
        let at_work = calls.next().await;
        assert_eq!(answer_to(&there, get("/a")).await.status(), StatusCode::CONFLICT);
        at_work.answer("a");
        assert_eq!(soon("a", first).await.unwrap().status(), StatusCode::OK);
        let second = send(&there, get("/a"));
        calls_there.next().await.answer("a");
        assert_eq!(soon("a", second).await.unwrap().status(), StatusCode::OK);
    })
    .await;
}

#[tokio::test]
async fn a_closure_names_the_lease_below_the_default_prefix() {
    check(async |backend| {
        let leases = backend.manager().await;
        let path = |request: &Parts| Some(request.uri.path().to_owned());
        let (service, mut calls) = guarded(&LeaseLayer::new(&leases, path));
        let request = send(&service, get("/a"));
        let call = calls.next().await;
        assert_eq!(call.lease().name(), "http:/a");
        call.answer("written");
        assert_eq!(soon("it", request).await.unwrap().status(), StatusCode::OK);
    })
    .await;
}

#[tokio::test]
async fn a_request_that_is_to_wait_gets_the_lease_when_it_is_free() {
    check(async |backend| {
        let leases = backend.manager().await;
        let (service, mut calls) = guarded(&by_path(&leases).wait(Duration::from_secs(20)));
        let first = send(&service, get("/a"));
        let at_work = calls.next().await;
        let second = send(&service, get("/a"));
        at_work.answer("first");
        assert_eq!(read(soon("the first", first).await.unwrap()).await.1, "first");
        calls.next().await.answer("second");
        assert_eq!(read(soon("the second", second).await.unwrap()).await.1, "second");
    })
    .await;
}

#[tokio::test]
async fn a_client_that_goes_in_the_middle_leaves_nothing_behind() {
    check(async |backend| {
        let leases = backend.manager().await;
        let (service, mut calls) = guarded(&by_path(&leases));
        let gone = send(&service, get("/a"));
        let call = calls.next().await;
        let told = call.lease().cancellation_token();
        // The handler's lease is dropped with it.
        drop(call.lease);
        gone.abort();
        backend.until_nothing_is_left().await;
        assert!(told.is_cancelled());
        assert!(call.answer.is_closed(), "the handler goes on");
    })
    .await;
}

#[tokio::test]
async fn a_client_that_goes_while_it_waits_leaves_nothing_behind() {
    check(async |backend| {
        let leases = backend.manager().await;
        let (service, mut calls) = guarded(&by_path(&leases).wait(Duration::from_secs(20)));
        let held = leases.acquire("test:/a").await.unwrap();
        let waiting = send(&service, get("/a"));
        tokio::task::yield_now().await;
        waiting.abort();
        assert!(waiting.await.unwrap_err().is_cancelled());
        held.release().await.unwrap();
        backend.until_nothing_is_left().await;
        assert!(calls.is_quiet());
    })
    .await;
}

#[tokio::test]
async fn a_handler_that_panics_gives_its_lease_back() {
    check(async |backend| {
        let leases = backend.manager().await;
        let handler = service_fn(async |request: Request<()>| {
            let lease = request.extensions().get::<HeldLease>().expect("a lease");
            assert!(!lease.is_valid(), "this is the panic");
            Ok::<_, Infallible>(Response::new(Full::<Bytes>::default()))
        });
        let service = by_path(&leases).layer(handler);
        let request = tokio::spawn(service.oneshot(get("/a")));
        assert!(soon("the panic", request).await.unwrap_err().is_panic());
        backend.until_nothing_is_left().await;
    })
    .await;
}

#[tokio::test]
async fn a_failing_handler_releases_its_lease_and_passes_its_error_on() {
    let (database, leases) = setup().await;
    let handler =
        service_fn(async |_: Request<()>| Err::<Response<Full<Bytes>>, _>("out of paper"));
    let error = by_path(&leases).layer(handler).oneshot(get("/a")).await.unwrap_err();
    assert_eq!(error, "out of paper");
    assert!(document(&database, "test:/a").await.is_none());
}

/// The work is done: a release that cannot be confirmed goes on in the background.
#[tokio::test]
async fn an_answer_waits_a_second_at_most_for_a_database_that_hangs() {
    let (server, database) = lent_database().await;
    let leases = builder(&database).release_timeout(2 * PATIENCE).build().await.unwrap();
    let (service, mut calls) = guarded(&by_path(&leases));
    let request = send(&service, get("/a"));
    let call = calls.next().await;
    server.mongod().pause();
    call.answer("done");
    let answer = read(soon("the answer", request).await.unwrap()).await;
    assert_eq!(answer, (StatusCode::OK, "done".to_owned()));
    server.mongod().resume();
    until_nothing_is_left(&database).await;
}

#[tokio::test]
async fn a_clone_that_the_handler_keeps_keeps_the_lease() {
    check(async |backend| {
        let leases = backend.manager().await;
        let (service, mut calls) = guarded(&by_path(&leases));
        let request = send(&service, get("/a"));
        let call = calls.next().await;
        let kept = call.lease.clone().unwrap();
        call.answer("started");
        assert_eq!(soon("the answer", request).await.unwrap().status(), StatusCode::OK);
        assert!(kept.is_valid());
        assert_eq!(answer_to(&service, get("/a")).await.status(), StatusCode::CONFLICT);
        drop(kept);
        backend.until_nothing_is_left().await;
    })
    .await;
}

#[tokio::test]
async fn fifty_requests_for_one_key_are_handled_one_at_a_time() {
    let (database, leases) = setup().await;
    let (service, mut calls) = guarded(&by_path(&leases));
    let requests: Vec<_> = (0..50).map(|_| send(&service, get("/a"))).collect();
    let mut handled = 0;
    let mut refused = 0;
    let answering = async {
        loop {
            let call = calls.next().await;
            assert!(call.lease().is_valid());
            assert!(calls.is_quiet(), "two at a time");
            call.answer("done");
        }
    };
    let counting = async {
        for request in requests {
            match soon("an answer", request).await.unwrap().status() {
                StatusCode::OK => handled += 1,
                StatusCode::CONFLICT => refused += 1,
                other => panic!("{other}"),
            }
        }
    };
    tokio::select! {
        () = answering => {}
        () = counting => {}
    }
    assert!(handled > 0);
    assert_eq!(handled + refused, 50);
    assert!(document(&database, "test:/a").await.is_none());
}
