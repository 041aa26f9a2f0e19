//! A client that speaks only HTTP.

use http_body_util::{BodyExt, Full};
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::{Client as Legacy, Error};
use hyper_util::rt::TokioExecutor;
use mongo_lease_tower::http::{HeaderMap, Method, Request, StatusCode};
use serde_json::Value;

use crate::service::soon;

#[derive(Clone)]
pub(crate) struct Client {
    inner: Legacy<HttpConnector, Full<axum::body::Bytes>>,
}

/// An HTTP response.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Value,
}

impl Client {
    pub(crate) fn new() -> Client {
        Client { inner: Legacy::builder(TokioExecutor::new()).build_http() }
    }

    /// Sends a request. Returns `None` if the connection broke.
    pub(crate) async fn try_ask(
        &self,
        method: Method,
        address: &str,
        path: &str,
        body: Option<&Value>,
    ) -> Result<Answer, Error> {
        let mut request = Request::builder().method(method).uri(format!("http://{address}{path}"));
        if body.is_some() {
            request = request.header("content-type", "application/json");
        }
        let text = body.map(Value::to_string).unwrap_or_default();
        let request = request.body(Full::from(text)).expect("a request");
        let response = soon("an answer", self.inner.request(request)).await?;
        let (head, body) = response.into_parts();
        let Ok(body) = soon("its body", body.collect()).await else {
            panic!("an answer without its end: {head:?}");
        };
        let body = serde_json::from_slice(&body.to_bytes()).unwrap_or_default();
        Ok(Answer { status: head.status, headers: head.headers, body })
    }

    pub(crate) async fn ask(&self, method: Method, address: &str, path: &str) -> Answer {
        self.try_ask(method, address, path, None).await.expect("an answer")
    }
}
