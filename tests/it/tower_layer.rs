//! `LeaseLayer`: requests under leases.

mod bodies;
mod ends;
mod keys;
mod limits;
mod losses;
mod refusals;

use std::convert::Infallible;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body::Body;
use http_body_util::{BodyExt, Full};
use mongo_lease::LeaseManager;
use mongo_lease_testbed::TestDatabase;
use mongo_lease_tower::http::{HeaderMap, Request, Response, StatusCode};
use mongo_lease_tower::{HeldLease, KeyRules, LeaseBody, LeaseLayer, Refusal, key};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tower::util::BoxCloneService;
use tower::{Layer, ServiceExt, service_fn};

use crate::both::{Backend, check};
use crate::common::document;
use crate::patience::{soon, until_nothing_is_left};

type Answer = Response<LeaseBody<Full<Bytes>>>;

/// A handler behind a layer. It answers when the test says so.
struct Guarded {
    service: BoxCloneService<Request<()>, Answer, Infallible>,
    calls: mpsc::UnboundedReceiver<(HeldLease, oneshot::Sender<&'static str>)>,
}

/// A request that the handler works on.
struct Working {
    response: JoinHandle<Answer>,
    lease: HeldLease,
    answer: oneshot::Sender<&'static str>,
}

/// An answer of the layer's own.
struct Refused {
    status: StatusCode,
    headers: HeaderMap,
    refusal: Refusal,
    body: String,
    /// Whether a server sends no body at all.
    is_empty: bool,
}

fn guarded(layer: &LeaseLayer) -> Guarded {
    let (sender, calls) = mpsc::unbounded_channel();
    let handler = service_fn(move |request: Request<()>| {
        let sender = sender.clone();
        async move {
            let (answer, answered) = oneshot::channel();
            let lease = request.extensions().get::<HeldLease>().expect("it is guarded").clone();
            sender.send((lease, answer)).expect("the test listens");
            drop(request);
            let text = answered.await.expect("the test answers");
            Ok::<_, Infallible>(Response::new(Full::from(text)))
        }
    });
    Guarded { service: BoxCloneService::new(layer.layer(handler)), calls }
}

/// Runs the test with a manager whose leases are on a server, and then with one whose leases are in memory.
async fn on_both(test: impl AsyncFn(LeaseManager, Backend) + Sync) {
    check(async |backend| test(backend.manager().await, backend).await).await;
}

/// The answer. The lease of `/a` is free then, unless its release takes a second: no answer waits longer for it.
async fn freed_by<T>(database: &TestDatabase, answer: impl Future<Output = T>) -> T {
    let started = Instant::now();
    let answer = answer.await;
    if started.elapsed() < Duration::from_secs(1) {
        assert!(document(database, "test:/a").await.is_none());
    }
    until_nothing_is_left(database).await;
    answer
}

/// One lease for each path.
fn by_path(leases: &LeaseManager) -> LeaseLayer {
    LeaseLayer::new(leases, key::path()).key_rules(KeyRules::new("test").expect("a prefix"))
}

fn get(path: &str) -> Request<()> {
    Request::get(path).body(()).expect("a request")
}

fn of_grpc(path: &str) -> Request<()> {
    let head = Request::post(path).header("content-type", "application/grpc+proto");
    head.body(()).expect("a request")
}

impl Guarded {
    fn send(&self, request: Request<()>) -> JoinHandle<Answer> {
        let answer = self.service.clone().oneshot(request);
        tokio::spawn(async move { answer.await.unwrap_or_else(|never| match never {}) })
    }

    /// Returns when the handler works on this request.
    async fn handles(&mut self, response: JoinHandle<Answer>) -> Working {
        let call = soon("the handler is called", self.calls.recv()).await;
        let (lease, answer) = call.expect("the service is there");
        Working { response, lease, answer }
    }

    async fn at_work(&mut self, path: &str) -> Working {
        let response = self.send(get(path));
        self.handles(response).await
    }

    /// The refusal of this request, of which the handler does not learn.
    async fn refused(&mut self, request: Request<()>) -> Refused {
        let sent = format!("{request:?}");
        let answer = soon("the refusal", self.send(request));
        tokio::select! {
            biased;
            _ = self.calls.recv() => panic!("the handler was called for {sent}"),
            answer = answer => Refused::of(answer.expect("no panic")).await,
        }
    }
}

impl Working {
    /// Drops the lease, as a handler does, and answers. Returns the response.
    async fn answer(self, text: &'static str) -> Answer {
        drop(self.lease);
        self.answer.send(text).expect("the handler waits");
        soon("the answer", self.response).await.expect("no panic")
    }

    /// Answers, and asserts that the client gets that.
    async fn end(self) {
        let answer = read(self.answer("done").await).await;
        assert_eq!(answer, (StatusCode::OK, "done".to_owned()));
    }
}

impl Refused {
    async fn of(answer: Answer) -> Refused {
        let refusal = answer.extensions().get::<Refusal>().expect("a refusal").clone();
        let headers = answer.headers().clone();
        let is_empty = answer.body().is_end_stream();
        let (status, body) = read(answer).await;
        Refused { status, headers, refusal, body, is_empty }
    }

    fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().expect("a text"))
    }

    /// All headers that it has: a hostile one would show.
    fn headers(&self) -> Vec<&str> {
        let mut names: Vec<&str> = self.headers.keys().map(|name| name.as_str()).collect();
        names.sort_unstable();
        names
    }

    fn problem(&self) -> serde_json::Value {
        serde_json::from_str(&self.body).expect("JSON")
    }

    /// The status, the code for programs, and the time to try again.
    fn in_short(&self) -> (u16, String, Option<&str>) {
        let code = self.problem()["code"].as_str().expect("a code").to_owned();
        (self.status.as_u16(), code, self.header("retry-after"))
    }
}

async fn read(answer: Answer) -> (StatusCode, String) {
    let status = answer.status();
    let body = soon("the whole body", answer.into_body().collect()).await.expect("a body");
    (status, String::from_utf8(body.to_bytes().to_vec()).expect("a text"))
}
