//! `LeaseLayer::limit`: several requests of a key at a time.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::join_all;
use http_body_util::Full;
use mongo_lease::LeaseManager;
use mongo_lease_testbed::Server;
use mongo_lease_tower::http::{Request, Response, StatusCode};
use mongo_lease_tower::{HeldLease, LeaseBody, LeaseLayer, Refusal, RefusalKind};
use serde_json::{Value, json};
use tokio::sync::Barrier;
use tokio::task::JoinHandle;
use tower::util::BoxCloneService;
use tower::{Layer, service_fn};

use super::{Call, Calls, Guarded, answer_to, by_path, get, guarded, read, send};
use crate::both::check;
use crate::common::{builder, migrated};
use crate::patience::soon;

type Answer = JoinHandle<Response<LeaseBody<Full<Bytes>>>>;

/// So many requests for `/a` that are being handled.
async fn at_work(service: &Guarded, calls: &mut Calls, count: usize) -> Vec<(Answer, Call)> {
    let mut working = Vec::new();
    for _ in 0..count {
        let answer = send(service, get("/a"));
        working.push((answer, calls.next().await));
    }
    working
}

async fn end((answer, call): (Answer, Call)) {
    call.answer("done");
    assert_eq!(soon("the answer", answer).await.expect("no panic").status(), StatusCode::OK);
}

#[tokio::test]
async fn the_sixth_request_of_a_key_is_refused_by_all_processes() {
    check(async |backend| {
        let (leases, others) = (backend.manager().await, backend.manager().await);
        let (here, mut calls) = guarded(&by_path(&leases).limit(5));
        let (there, mut calls_there) = guarded(&by_path(&others).limit(5));
        let mut working = at_work(&here, &mut calls, 3).await;
        working.extend(at_work(&there, &mut calls_there, 2).await);
        assert!(working.iter().all(|(_, call)| call.lease().is_shared()));
        let held = leases.get("test:/a").await.unwrap().expect("five hold it");
        assert_eq!((held.in_use, held.limit, held.holders.len()), (Some(5), Some(5), 5));
        for service in [&here, &there] {
            assert_eq!(answer_to(service, get("/a")).await.status(), StatusCode::TOO_MANY_REQUESTS);
        }
        assert!(calls.is_quiet() && calls_there.is_quiet(), "six at a time");
        let beside = send(&here, get("/b"));
        end((beside, calls.next().await)).await;

        // Without waiting: the answer comes after the release.
        end(working.pop().expect("a request")).await;
        working.extend(at_work(&here, &mut calls, 1).await);
        assert_eq!(answer_to(&there, get("/a")).await.status(), StatusCode::TOO_MANY_REQUESTS);
        for request in working {
            end(request).await;
        }
        backend.until_nothing_is_left().await;
    })
    .await;
}

/// The requests that are being handled, by all processes. They go on as soon as there are five.
struct AtWork {
    now: AtomicUsize,
    most: AtomicUsize,
    five: Barrier,
}

/// A service that handles requests as soon as five are at work.
fn by_fives(leases: &LeaseManager, at_work: &Arc<AtWork>) -> Guarded {
    let at_work = Arc::clone(at_work);
    let handler = service_fn(move |request: Request<()>| {
        let at_work = Arc::clone(&at_work);
        async move {
            assert!(request.extensions().get::<HeldLease>().is_some_and(|lease| lease.is_valid()));
            let now = at_work.now.fetch_add(1, Ordering::SeqCst) + 1;
            at_work.most.fetch_max(now, Ordering::SeqCst);
            at_work.five.wait().await;
            at_work.now.fetch_sub(1, Ordering::SeqCst);
            Ok::<_, Infallible>(Response::new(Full::<Bytes>::default()))
        }
    });
    BoxCloneService::new(by_path(leases).limit(5).wait(Duration::from_secs(25)).layer(handler))
}

#[tokio::test]
async fn thirty_requests_that_wait_are_handled_five_at_a_time() {
    check(async |backend| {
        let at_work = Arc::new(AtWork {
            now: AtomicUsize::new(0),
            most: AtomicUsize::new(0),
            five: Barrier::new(5),
        });
        let (leases, others) = (backend.manager().await, backend.manager().await);
        let services = [by_fives(&leases, &at_work), by_fives(&others, &at_work)];
        let requests = join_all((0..30).map(|number| send(&services[number % 2], get("/a"))));
        for answer in soon("all answers", requests).await {
            assert_eq!(answer.expect("no panic").status(), StatusCode::OK);
        }
        assert_eq!(at_work.most.load(Ordering::SeqCst), 5);
        backend.until_nothing_is_left().await;
    })
    .await;
}

#[tokio::test]
async fn a_dropped_request_gives_its_permit_to_the_next_one() {
    check(async |backend| {
        let leases = backend.manager().await;
        let layer = by_path(&leases).limit(2).wait(Duration::from_secs(20));
        let (service, mut calls) = guarded(&layer);
        let mut working = at_work(&service, &mut calls, 2).await;
        let waiting = send(&service, get("/a"));
        let (gone, call) = working.pop().expect("a request");
        gone.abort();
        drop(call);
        working.push((waiting, calls.next().await));
        for request in working {
            end(request).await;
        }
        backend.until_nothing_is_left().await;
    })
    .await;
}

#[tokio::test]
async fn a_request_beyond_the_limit_is_429_in_plain_words() {
    check(async |backend| {
        let leases = backend.manager().await;
        let _held = leases.semaphore("test:/a", 2).acquire().permits(2).await.unwrap();
        let (service, _calls) = guarded(&by_path(&leases).limit(2));
        let response = answer_to(&service, get("/a")).await;
        let refusal = response.extensions().get::<Refusal>().expect("a refusal");
        assert_eq!(
            (refusal.kind.clone(), refusal.name.as_deref()),
            (RefusalKind::Held, Some("test:/a"))
        );
        assert_eq!(response.headers()["retry-after"], "1");
        let (status, body) = read(response).await;
        assert_eq!(status, StatusCode::TOO_MANY_REQUESTS);
        let expected = json!({
            "type": "about:blank",
            "title": "Too Many Requests",
            "status": 429,
            "detail": "Too many requests for the same resource are being processed.",
            "code": "lease_held",
        });
        assert_eq!(serde_json::from_str::<Value>(&body).unwrap(), expected);

        let grpc = Request::post("/a").header("content-type", "application/grpc").body(()).unwrap();
        let response = answer_to(&service, grpc).await;
        let header = |name: &str| response.headers()[name].to_str().unwrap();
        assert_eq!((response.status(), header("grpc-status")), (StatusCode::OK, "8"));
        assert!(header("grpc-message").starts_with("Too many requests"));
    })
    .await;
}

#[tokio::test]
async fn a_wait_for_a_permit_that_is_over_is_503() {
    check(async |backend| {
        let leases = backend.manager().await;
        let _held = leases.semaphore("test:/a", 2).acquire().permits(2).await.unwrap();
        let layer = by_path(&leases).limit(2).wait(Duration::from_secs(2));
        let (service, mut calls) = guarded(&layer);
        let (status, body) = read(answer_to(&service, get("/a")).await).await;
        assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
        assert!(body.contains("lease_wait_timeout"), "{body}");
        assert!(calls.is_quiet());
    })
    .await;
}

#[tokio::test]
async fn requests_of_two_permits_each_fill_a_limit_of_five() {
    check(async |backend| {
        let leases = backend.manager().await;
        let layer = by_path(&leases).limit(5).acquire_with(|acquire| acquire.permits(2));
        let (service, mut calls) = guarded(&layer);
        let working = at_work(&service, &mut calls, 2).await;
        assert!(working.iter().all(|(_, call)| call.lease().permits() == 2));
        let status = answer_to(&service, get("/a")).await.status();
        assert_eq!(status, StatusCode::TOO_MANY_REQUESTS, "one permit is free");
        for request in working {
            end(request).await;
        }
    })
    .await;
}

#[tokio::test]
async fn an_exclusive_lease_and_limited_requests_exclude_each_other() {
    check(async |backend| {
        let leases = backend.manager().await;
        let (service, mut calls) = guarded(&by_path(&leases).limit(5));
        let job = leases.acquire("test:/a").owner("nightly").await.unwrap();
        let response = answer_to(&service, get("/a")).await;
        assert_eq!(response.status(), StatusCode::TOO_MANY_REQUESTS);
        let refusal = response.extensions().get::<Refusal>().expect("a refusal");
        let holder = refusal.holder().and_then(|held| held.owner.as_deref());
        assert!(holder.is_some_and(|holder| holder.starts_with("nightly@")), "{refusal:?}");
        assert!(calls.is_quiet());
        job.release().await.unwrap();
        let mut working = at_work(&service, &mut calls, 1).await;
        assert!(!leases.try_acquire("test:/a").await.unwrap().is_granted());
        end(working.remove(0)).await;
        assert!(leases.try_acquire("test:/a").await.unwrap().is_granted());
    })
    .await;
}

#[tokio::test]
async fn a_limit_of_one_is_answered_as_no_limit() {
    check(async |backend| {
        let leases = backend.manager().await;
        let _held = leases.acquire("test:/a").await.unwrap();
        let grpc = || Request::post("/a").header("content-type", "application/grpc").body(());
        let mut answers = Vec::new();
        for layer in [by_path(&leases), by_path(&leases).limit(1)] {
            let (service, _calls) = guarded(&layer);
            let (status, body) = read(answer_to(&service, get("/a")).await).await;
            let response = answer_to(&service, grpc().unwrap()).await;
            let header = |name: &str| response.headers()[name].to_str().unwrap().to_owned();
            answers.push((status, body, header("grpc-status"), header("grpc-message")));
        }
        assert_eq!((answers[0].0, &*answers[0].2), (StatusCode::CONFLICT, "10"));
        assert_eq!(answers[0], answers[1]);
    })
    .await;
}

/// Permits need a replica set, so no later request would fare better.
#[tokio::test]
async fn a_limit_on_a_standalone_server_is_500() {
    let database = migrated(Server::shared_standalone()).await;
    let leases = builder(&database).build().await.unwrap();
    for wait in [Duration::ZERO, Duration::from_secs(20)] {
        let (service, mut calls) = guarded(&by_path(&leases).limit(2).wait(wait));
        let response = answer_to(&service, get("/a")).await;
        assert!(!response.headers().contains_key("retry-after"));
        let (status, body) = read(response).await;
        assert_eq!(status, StatusCode::INTERNAL_SERVER_ERROR);
        assert!(body.contains("lease_misconfigured"), "{body}");
        assert!(calls.is_quiet());
    }
    let (service, mut calls) = guarded(&by_path(&leases).limit(1));
    end(at_work(&service, &mut calls, 1).await.remove(0)).await;
}

#[tokio::test]
async fn a_limit_that_cannot_be_kept_is_500() {
    check(async |backend| {
        let leases = backend.manager().await;
        let layer = |limit| by_path(&leases).limit(limit);
        let layers: [LeaseLayer; 5] = [
            layer(0),
            layer(1_001),
            layer(5).acquire_with(|acquire| acquire.permits(6)),
            layer(5).acquire_with(|acquire| acquire.shared()),
            layer(5).acquire_with(|acquire| acquire.hold_at_least(Duration::from_secs(1))),
        ];
        for layer in layers {
            let (service, mut calls) = guarded(&layer);
            let (status, body) = read(answer_to(&service, get("/a")).await).await;
            assert_eq!(status, StatusCode::INTERNAL_SERVER_ERROR);
            assert!(body.contains("lease_misconfigured"), "{body}");
            assert!(calls.is_quiet());
        }
        assert!(leases.get("test:/a").await.unwrap().is_none(), "nothing is sent");
    })
    .await;
}
