//! `LeaseLayer`: requests under leases.

mod bodies;
mod ends;
mod keys;
mod limits;
mod losses;
mod missing_keys;
mod own_refusals;
mod refusals;

use std::convert::Infallible;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use mongo_lease::{Lease, LeaseManager};
use mongo_lease_tower::http::{Request, Response, StatusCode};
use mongo_lease_tower::{HeldLease, KeyRules, LeaseBody, LeaseLayer, key};
use tokio::sync::{mpsc, oneshot};
use tower::util::BoxCloneService;
use tower::{Layer, ServiceExt, service_fn};

use crate::patience::soon;

type Guarded = BoxCloneService<Request<()>, Response<LeaseBody<Full<Bytes>>>, Infallible>;

/// A handler that has been called, and answers when the test says so.
struct Call {
    lease: Option<HeldLease>,
    answer: oneshot::Sender<&'static str>,
}

impl Call {
    fn lease(&self) -> &Lease {
        self.lease.as_deref().expect("the request is guarded")
    }

    /// Drops the lease, as a handler does, and answers.
    fn answer(self, text: &'static str) {
        drop(self.lease);
        self.answer.send(text).expect("the handler waits");
    }
}

/// The calls that the handler gets.
struct Calls(mpsc::UnboundedReceiver<Call>);

impl Calls {
    async fn next(&mut self) -> Call {
        soon("the handler is called", self.0.recv()).await.expect("the service is there")
    }

    fn is_quiet(&mut self) -> bool {
        self.0.try_recv().is_err()
    }
}

/// A handler behind this layer, and its calls.
fn guarded(layer: &LeaseLayer) -> (Guarded, Calls) {
    let (sender, receiver) = mpsc::unbounded_channel();
    let handler = service_fn(move |request: Request<()>| {
        let sender = sender.clone();
        async move {
            let (answer, answered) = oneshot::channel();
            let lease = request.extensions().get::<HeldLease>().cloned();
            sender.send(Call { lease, answer }).expect("the test listens");
            drop(request);
            let text = answered.await.expect("the test answers");
            Ok::<_, Infallible>(Response::new(Full::from(text)))
        }
    });
    (BoxCloneService::new(layer.layer(handler)), Calls(receiver))
}

/// One lease for each path.
fn by_path(leases: &LeaseManager) -> LeaseLayer {
    LeaseLayer::new(leases, key::path()).key_rules(KeyRules::new("test").expect("a prefix"))
}

fn get(path: &str) -> Request<()> {
    Request::get(path).body(()).expect("a request")
}

/// A request that is under way in a task of its own.
fn send(
    service: &Guarded,
    request: Request<()>,
) -> tokio::task::JoinHandle<Response<LeaseBody<Full<Bytes>>>> {
    let service = service.clone();
    tokio::spawn(
        async move { service.oneshot(request).await.unwrap_or_else(|never| match never {}) },
    )
}

async fn answer_to(service: &Guarded, request: Request<()>) -> Response<LeaseBody<Full<Bytes>>> {
    soon("the answer", send(service, request)).await.expect("no panic")
}

/// The status and the whole body.
async fn read(response: Response<LeaseBody<Full<Bytes>>>) -> (StatusCode, String) {
    let status = response.status();
    let body = soon("the whole body", response.into_body().collect()).await.expect("a body");
    (status, String::from_utf8(body.to_bytes().to_vec()).expect("a text"))
}
