//! The layer in routers, and in one that another nests.

use std::fmt::Debug;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Body;
use axum::routing::post;
use mongo_lease::LeaseManager;
use mongo_lease_testbed::{Server, TestDatabase};
use mongo_lease_tower::http::{Request, StatusCode};
use mongo_lease_tower::{LeaseLayer, key};
use tokio::sync::{mpsc, oneshot};
use tower::ServiceExt;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

use crate::service::soon;

/// The errors of mongo-lease in the log.
#[derive(Clone, Default)]
struct Errors(Arc<Mutex<Vec<String>>>);

struct Fields(String);

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.0.push_str(&format!(" {}={value:?}", field.name()));
    }
}

impl Subscriber for Errors {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() == Level::ERROR && metadata.target().starts_with("mongo_lease")
    }
    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }
    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn event(&self, event: &Event<'_>) {
        let mut fields = Fields(String::new());
        event.record(&mut fields);
        self.0.lock().unwrap().push(fields.0);
    }
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

/// A payment that has begun. It ends when the test sends.
type Payment = oneshot::Sender<()>;

async fn manager() -> (TestDatabase, LeaseManager) {
    let database = Server::shared().database().await;
    let builder = LeaseManager::builder(&database).ensure_indexes(true);
    let leases = builder.build().await.expect("a manager");
    (database, leases)
}

/// A router of payments, without a layer.
fn payments() -> (Router, mpsc::UnboundedReceiver<Payment>) {
    let (sender, begun) = mpsc::unbounded_channel();
    let pay = move || {
        let sender = sender.clone();
        async move {
            let (end, ended) = oneshot::channel();
            sender.send(end).expect("the test listens");
            ended.await.expect("the test ends the payment");
        }
    };
    (Router::new().route("/invoices/{id}/pay", post(pay)), begun)
}

fn layer(leases: &LeaseManager, route: &str) -> LeaseLayer {
    LeaseLayer::new(leases, key::path_parameter(route, "id").expect("a route"))
}

/// The public path is `/api/invoices/{id}/pay`. The layer is within the nested router.
fn nested(leases: &LeaseManager, route: &str) -> (Router, mpsc::UnboundedReceiver<Payment>) {
    let (payments, begun) = payments();
    (Router::new().nest("/api", payments.route_layer(layer(leases, route))), begun)
}

async fn status(service: &Router, path: &str) -> StatusCode {
    let request = Request::post(path).body(Body::empty()).expect("a request");
    service.clone().oneshot(request).await.unwrap_or_else(|never| match never {}).status()
}

/// No other test of this binary may reach this event: `tracing` remembers for the whole process whether an event has a
/// subscriber, and the threads of other tests have none.
#[tokio::test]
async fn a_template_with_the_public_path_refuses_and_is_logged() {
    let errors = Errors::default();
    let _subscriber = tracing::subscriber::set_default(errors.clone());
    let (_database, leases) = manager().await;
    let (service, mut begun) = nested(&leases, "/api/invoices/{id}/pay");
    let path = "/api/invoices/42/pay";
    let both = async { tokio::join!(status(&service, path), status(&service, path)) };
    let answers = soon("both answers", async {
        tokio::select! {
            answers = both => answers,
            _ = begun.recv() => panic!("a payment is inside without its lease"),
        }
    })
    .await;
    let refused = StatusCode::INTERNAL_SERVER_ERROR;
    assert_eq!(answers, (refused, refused));
    let errors = errors.0.lock().unwrap().clone();
    assert_eq!(errors.len(), 1, "{errors:?}");
    for part in ["\"/api/invoices/{id}/pay\"", "\"/invoices/42/pay\"", "`nest`"] {
        assert!(errors[0].contains(part), "{errors:?}");
    }
}

#[tokio::test]
async fn the_layer_guards_a_nested_route_from_within_and_from_outside() {
    let (_database, leases) = manager().await;
    let within = nested(&leases, "/invoices/{id}/pay");
    let (payments, begun) = payments();
    let outside = Router::new().nest("/api", payments);
    let outside = (outside.route_layer(layer(&leases, "/api/invoices/{id}/pay")), begun);
    let path = "/api/invoices/42/pay";
    for (service, mut begun) in [within, outside] {
        let first = tokio::spawn({
            let service = service.clone();
            async move { status(&service, path).await }
        });
        let payment = soon("a payment", begun.recv()).await.expect("the service is there");
        assert_eq!(soon("the second", status(&service, path)).await, StatusCode::CONFLICT);
        payment.send(()).expect("it waits");
        assert_eq!(soon("the first", first).await.expect("no panic"), StatusCode::OK);
        assert!(begun.try_recv().is_err(), "the refused payment began");
    }
}

/// The fallback of a router is behind what `layer` adds to it, and not behind what `route_layer` adds.
#[tokio::test]
async fn a_path_that_no_route_has_is_404() {
    let (_database, leases) = manager().await;
    let (payments, _begun) = payments();
    let flat = payments.route_layer(layer(&leases, "/invoices/{id}/pay"));
    for path in ["/nowhere", "/invoices/42", "/invoices/42/pay/1"] {
        let answer = soon("the answer", status(&flat, path)).await;
        assert_eq!(answer, StatusCode::NOT_FOUND, "{path}");
    }
    let (nested, _begun) = nested(&leases, "/invoices/{id}/pay");
    for path in ["/nowhere", "/api/nowhere", "/api/invoices/42", "/invoices/42/pay"] {
        let answer = soon("the answer", status(&nested, path)).await;
        assert_eq!(answer, StatusCode::NOT_FOUND, "{path}");
    }
}
