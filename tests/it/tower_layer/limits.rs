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
use mongo_lease_tower::HeldLease;
use mongo_lease_tower::http::{Request, Response, StatusCode};
use tokio::sync::Barrier;
use tokio::time::timeout;
use tower::{Layer, ServiceExt, service_fn};

use super::refusals::assert_held;
use super::{Guarded, Working, by_path, get, guarded, on_both};
use crate::common::{builder, migrated};
use crate::patience::{MUCH_PATIENCE, until};

/// So many requests for `/a` that the handler works on.
async fn at_work(service: &mut Guarded, count: usize) -> Vec<Working> {
    let mut working = Vec::new();
    for _ in 0..count {
        working.push(service.at_work("/a").await);
    }
    working
}

#[tokio::test]
async fn the_sixth_request_of_a_key_is_refused_by_all_processes() {
    on_both(async |leases, backend| {
        let others = backend.manager().await;
        let mut here = guarded(&by_path(&leases).limit(5));
        let mut there = guarded(&by_path(&others).limit(5));
        let mut working = at_work(&mut here, 3).await;
        working.extend(at_work(&mut there, 2).await);
        assert!(working.iter().all(|request| request.lease.is_shared()));
        let held = leases.get("test:/a").await.unwrap().expect("five hold it");
        assert_eq!((held.in_use, held.limit, held.holders.len()), (Some(5), Some(5), 5));
        for service in [&mut here, &mut there] {
            assert_eq!(service.refused(get("/a")).await.in_short().0, 429);
        }
        here.at_work("/b").await.end().await;

        working.pop().expect("a request").end().await;
        let in_use = async || leases.get("test:/a").await.unwrap().and_then(|it| it.in_use);
        until("it is released", async || (in_use().await == Some(4)).then_some(())).await;
        working.extend(at_work(&mut here, 1).await);
        assert_eq!(there.refused(get("/a")).await.in_short().0, 429);
        for request in working {
            request.end().await;
        }
        backend.until_nothing_is_left().await;
    })
    .await;
}

/// The requests that are being handled, by all processes. They go on as soon as there are as many as the limit.
struct AtWork {
    now: AtomicUsize,
    most: AtomicUsize,
    full: Barrier,
}

/// Sends thirty requests that wait to two processes, and returns how many were handled at a time.
async fn most_at_work(managers: [&LeaseManager; 2], limit: u8) -> usize {
    let full = Barrier::new(limit.into());
    let at_work = Arc::new(AtWork { now: AtomicUsize::new(0), most: AtomicUsize::new(0), full });
    let services = managers.map(|leases| {
        let at_work = Arc::clone(&at_work);
        let handler = service_fn(move |request: Request<()>| {
            let at_work = Arc::clone(&at_work);
            async move {
                let lease = request.extensions().get::<HeldLease>().expect("it is guarded");
                let now = at_work.now.fetch_add(1, Ordering::SeqCst) + 1;
                at_work.most.fetch_max(now, Ordering::SeqCst);
                at_work.full.wait().await;
                // It lasts as long as a command, in which one too many would come.
                lease.renew().await.expect("it is held");
                at_work.now.fetch_sub(1, Ordering::SeqCst);
                Ok::<_, Infallible>(Response::new(Full::<Bytes>::default()))
            }
        });
        by_path(leases).limit(limit.into()).wait(MUCH_PATIENCE).layer(handler)
    });
    let requests = (0..30).map(|number| services[number % 2].clone().oneshot(get("/a")));
    let answers = timeout(2 * MUCH_PATIENCE, join_all(requests)).await;
    for answer in answers.expect("each request is answered") {
        assert_eq!(answer.unwrap().status(), StatusCode::OK);
    }
    at_work.most.load(Ordering::SeqCst)
}

#[tokio::test]
async fn thirty_requests_that_wait_are_handled_by_the_limit() {
    on_both(async |leases, backend| {
        let others = backend.manager().await;
        for limit in [1, 5] {
            assert_eq!(most_at_work([&leases, &others], limit).await, usize::from(limit));
            backend.until_nothing_is_left().await;
        }
    })
    .await;
}

#[tokio::test]
async fn a_request_beyond_the_limit_is_429_in_plain_words() {
    on_both(async |leases, _| {
        let _held = leases.semaphore("test:/a", 2).acquire().permits(2).await.unwrap();
        assert_held(&by_path(&leases).limit(2), 429).await;
    })
    .await;
}

#[tokio::test]
async fn a_limit_of_one_is_answered_as_no_limit() {
    on_both(async |leases, _| {
        let _held = leases.acquire("test:/a").await.unwrap();
        assert_held(&by_path(&leases).limit(1), 409).await;
    })
    .await;
}

/// Permits need a replica set, so no later request would fare better.
#[tokio::test]
async fn a_limit_on_a_standalone_server_is_500() {
    let database = migrated(Server::shared_standalone()).await;
    let leases = builder(&database).build().await.unwrap();
    for wait in [Duration::ZERO, Duration::from_secs(20)] {
        let refused = guarded(&by_path(&leases).limit(2).wait(wait)).refused(get("/a")).await;
        assert_eq!(refused.in_short(), (500, "lease_misconfigured".to_owned(), None), "{wait:?}");
    }
    guarded(&by_path(&leases).limit(1)).at_work("/a").await.end().await;
}
