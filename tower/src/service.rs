//! `LeaseService`: handles one request under one lease.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;
use mongo_lease::Error;
use tower_layer::Layer;
use tower_service::Service;

use crate::body::LeaseBody;
use crate::held::HeldLease;
use crate::layer::{LeaseLayer, OnLoss};
use crate::refusal::{Refusal, RefusalKind, is_grpc};

/// A service wrapped by [`LeaseLayer`].
#[derive(Clone, Debug)]
pub struct LeaseService<S> {
    inner: S,
    layer: Arc<LeaseLayer>,
}

/// The future response. Dropping it drops the handler's work, and releases the lease.
#[must_use = "futures do nothing unless polled"]
pub struct ResponseFuture<B, E> {
    answer: Pin<Box<dyn Future<Output = ServiceResult<B, E>> + Send>>,
}

type ServiceResult<B, E> = Result<Response<LeaseBody<B>>, E>;

impl<S> Layer<S> for LeaseLayer {
    type Service = LeaseService<S>;

    fn layer(&self, inner: S) -> LeaseService<S> {
        LeaseService::new(inner, Arc::new(self.clone()))
    }
}

impl<S> LeaseService<S> {
    fn new(inner: S, layer: Arc<LeaseLayer>) -> LeaseService<S> {
        LeaseService { inner, layer }
    }
}

impl<S, Sent, B> Service<Request<Sent>> for LeaseService<S>
where
    S: Service<Request<Sent>, Response = Response<B>> + Clone + Send + 'static,
    S::Future: Send + 'static,
    S::Error: Send + 'static,
    Sent: Send + 'static,
    B: Body + Send + 'static,
    B::Data: From<Bytes>,
{
    type Response = Response<LeaseBody<B>>;
    type Error = S::Error;
    type Future = ResponseFuture<B, S::Error>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<Sent>) -> ResponseFuture<B, S::Error> {
        // This very service was polled ready; a clone of it need not be.
        let clone = self.inner.clone();
        let inner = std::mem::replace(&mut self.inner, clone);
        ResponseFuture { answer: Box::pin(handle(Arc::clone(&self.layer), inner, request)) }
    }
}

async fn handle<S, Sent, B>(
    layer: Arc<LeaseLayer>,
    mut inner: S,
    request: Request<Sent>,
) -> ServiceResult<B, S::Error>
where
    S: Service<Request<Sent>, Response = Response<B>>,
{
    let (mut head, body) = request.into_parts();
    let is_grpc = is_grpc(&head);
    let refused = |refusal| layer.refused(refusal, is_grpc).map(LeaseBody::refusal);
    let name = match layer.name(&head) {
        Ok(name) => name,
        Err(refusal) => return Ok(refused(*refusal)),
    };
    let lease = match layer.acquire(&name).await {
        Ok(lease) => HeldLease::new(lease),
        Err(refusal) => return Ok(refused(*refusal)),
    };
    head.extensions.insert(lease.clone());
    let work = inner.call(Request::from_parts(head, body));
    match under(layer.on_loss, &lease, work).await {
        Ok(Ok(response)) if layer.holds_until_body_ends => {
            let cuts_off = layer.on_loss != OnLoss::Tell;
            Ok(response.map(|body| LeaseBody::holding(body, lease, cuts_off)))
        }
        Ok(response) => {
            lease.end().await;
            Ok(response?.map(LeaseBody::plain))
        }
        Err(lost) => {
            lease.end().await;
            Ok(refused(Refusal::new(RefusalKind::Lost, Some(name), Some(lost))))
        }
    }
}

/// Returns the work's output, or the loss if that takes precedence.
async fn under<T>(
    on_loss: OnLoss,
    lease: &HeldLease,
    work: impl Future<Output = T>,
) -> Result<T, Error> {
    match on_loss {
        OnLoss::Tell => Ok(work.await),
        OnLoss::Answer503 => {
            let output = work.await;
            lease.check().map(|()| output)
        }
        OnLoss::Stop => lease.run(work).await,
    }
}

impl<B, E> Future for ResponseFuture<B, E> {
    type Output = ServiceResult<B, E>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<ServiceResult<B, E>> {
        self.answer.as_mut().poll(context)
    }
}

impl<B, E> fmt::Debug for ResponseFuture<B, E> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("ResponseFuture").finish_non_exhaustive()
    }
}
