//! `Refusal`: the answer to a request that is not handled.

use std::time::Duration;

use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, RETRY_AFTER};
use http::request::Parts;
use http::{HeaderName, HeaderValue, Response, StatusCode};
use mongo_lease::{Error, LeaseInfo, LeaseState};
use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};
use serde_json::{Map, Value};

use crate::rules::InvalidKey;

/// The time until a client should try again. A request ends long before its lease would expire.
const RETRY_AFTER_HELD: Duration = Duration::from_secs(1);

const GRPC: &[u8] = b"application/grpc";
const GRPC_STATUS: HeaderName = HeaderName::from_static("grpc-status");
const GRPC_MESSAGE: HeaderName = HeaderName::from_static("grpc-message");
/// The ASCII characters that a `grpc-message` has as `%XX`. All non-ASCII characters are encoded, too.
const GRPC_ENCODED: &AsciiSet = &CONTROLS.add(b'%');
const GRPC_PUSHBACK: HeaderName = HeaderName::from_static("grpc-retry-pushback-ms");

/// Why a request was not handled, or why its answer was withheld.
///
/// [`LeaseLayer::refuse_with`](crate::LeaseLayer::refuse_with) makes the response from it. It is also among the
/// *response's* extensions, for logging outside of the layer.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Refusal {
    /// The kind of the refusal.
    pub kind: RefusalKind,
    /// The error that caused the refusal, if there was one.
    pub error: Option<Error>,
    /// The lease's name, if there was one.
    pub name: Option<String>,
    /// How long the client should wait before it tries again: 1 s while a live holder has the lease, and otherwise
    /// unknown. The lease's remaining time ([`Error::retry_after`]) would tell when a crashed holder's lease expires,
    /// and not when a request ends.
    pub retry_after: Option<Duration>,
    /// Whether the client speaks gRPC. It then expects the status 200 with a `grpc-status`.
    pub is_grpc: bool,
    /// Whether the layer has a limit above 1: a refused request then is one too many, and in conflict with no other.
    is_limited: bool,
}

/// The kind of a refusal.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RefusalKind {
    /// The lease is held: 409. With a [limit](crate::LeaseLayer::limit) above 1, also if too few permits are free: 429.
    Held,
    /// The lease was not granted within the layer's wait: 503.
    WaitTimeout,
    /// The lease was lost while the request was handled: 503.
    Lost,
    /// The lease could not be acquired: 503.
    ///
    /// The database did not answer, the queue was full, or the manager is shut down or cannot work.
    Unavailable,
    /// The request has no key, or one that cannot be used: 400.
    InvalidKey(InvalidKey),
    /// The layer is misconfigured: 500.
    ///
    /// The request's path does not fit the layer's [route](crate::key::path_parameter); an option such as the ttl is
    /// out of range; or the layer has a [limit](crate::LeaseLayer::limit) above 1, and the server is no member of a
    /// replica set.
    Misconfigured,
}

/// Makes the response of a refusal.
pub(crate) type Refuse = dyn Fn(&Refusal) -> Response<Bytes> + Send + Sync;

/// Whether the client speaks gRPC, whose failures use other headers.
pub(crate) fn is_grpc(request: &Parts) -> bool {
    let content_type = request.headers.get(CONTENT_TYPE).map(HeaderValue::as_bytes);
    let rest = content_type.and_then(|value| value.strip_prefix(GRPC));
    // `application/grpc-web` is another protocol.
    rest.is_some_and(|rest| matches!(rest.first(), None | Some(b'+' | b';')))
}

impl RefusalKind {
    /// The word for programs: the member `code` of the problem.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            RefusalKind::Held => "lease_held",
            RefusalKind::WaitTimeout => "lease_wait_timeout",
            RefusalKind::Lost => "lease_lost",
            RefusalKind::Unavailable => "lease_unavailable",
            RefusalKind::InvalidKey(_) => "lease_key_invalid",
            RefusalKind::Misconfigured => "lease_misconfigured",
        }
    }

    fn detail(&self, is_limited: bool) -> String {
        match self {
            RefusalKind::Held if is_limited => {
                "Too many requests for the same resource are being processed.".to_owned()
            }
            RefusalKind::Held => {
                "Another request for the same resource is being processed.".to_owned()
            }
            RefusalKind::WaitTimeout => {
                "Other requests for the same resource are still being processed.".to_owned()
            }
            RefusalKind::Lost => {
                "The request was interrupted, and may have taken effect.".to_owned()
            }
            RefusalKind::Unavailable => "The service is temporarily unavailable.".to_owned(),
            RefusalKind::InvalidKey(invalid) => invalid.to_string(),
            RefusalKind::Misconfigured => "The server is not configured correctly.".to_owned(),
        }
    }

    fn status(&self, is_limited: bool) -> StatusCode {
        match self {
            RefusalKind::Held if is_limited => StatusCode::TOO_MANY_REQUESTS,
            RefusalKind::Held => StatusCode::CONFLICT,
            RefusalKind::WaitTimeout | RefusalKind::Lost | RefusalKind::Unavailable => {
                StatusCode::SERVICE_UNAVAILABLE
            }
            RefusalKind::InvalidKey(_) => StatusCode::BAD_REQUEST,
            RefusalKind::Misconfigured => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }

    /// The matching gRPC status. A loss is not `UNAVAILABLE`: clients repeat such requests by themselves, and the
    /// request may have taken effect.
    fn grpc_status(&self, is_limited: bool) -> HeaderValue {
        HeaderValue::from_static(match self {
            RefusalKind::Held if is_limited => "8",
            RefusalKind::InvalidKey(_) => "3",
            RefusalKind::Held | RefusalKind::Lost => "10",
            RefusalKind::Misconfigured => "13",
            RefusalKind::WaitTimeout | RefusalKind::Unavailable => "14",
        })
    }
}

impl Refusal {
    pub(crate) fn new(kind: RefusalKind, name: Option<String>, error: Option<Error>) -> Refusal {
        Refusal { kind, error, name, retry_after: None, is_grpc: false, is_limited: false }
    }

    /// The refusal for an error of the acquire.
    pub(crate) fn not_granted(name: &str, error: Error) -> Refusal {
        let kind = if matches!(error, Error::Busy(_)) {
            RefusalKind::Held
        } else if matches!(error, Error::WaitTimeout { source: None, .. }) {
            RefusalKind::WaitTimeout
        } else if matches!(
            error,
            Error::InvalidOption { .. } | Error::InvalidName { .. } | Error::Unsupported { .. }
        ) {
            // Another try would fail in the same way.
            RefusalKind::Misconfigured
        } else {
            RefusalKind::Unavailable
        };
        Refusal::new(kind, Some(name.to_owned()), Some(error))
    }

    /// Adds whether the layer is limited, whether the client speaks gRPC, and the retry time.
    pub(crate) fn rendered(self, is_limited: bool, is_grpc: bool) -> Refusal {
        let is_held = self.holder().is_some_and(|info| info.state == LeaseState::Held);
        let retry_after = is_held.then_some(RETRY_AFTER_HELD);
        Refusal { is_limited, retry_after, is_grpc, ..self }
    }

    /// The holder of the lease, if known: `label@host:pid`, and the remaining time.
    #[must_use]
    pub fn holder(&self) -> Option<&LeaseInfo> {
        let error = self.error.as_ref()?;
        if let Error::Busy(info) = error {
            Some(info)
        } else if let Error::WaitTimeout { held, source: None, .. } = error {
            held.as_deref()
        } else {
            None
        }
    }

    /// The default response, as in the layer's table. Change it, or return it as it is.
    ///
    /// It contains nothing that the client sent, and nothing that another program could have written into the lease.
    #[must_use]
    pub fn response(&self) -> Response<Bytes> {
        let (status, body) = match self.is_grpc {
            true => (StatusCode::OK, Bytes::new()),
            false => (self.kind.status(self.is_limited), self.problem()),
        };
        let mut response = Response::new(body);
        *response.status_mut() = status;
        let headers = response.headers_mut();
        if self.is_grpc {
            headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
            headers.insert(GRPC_STATUS, self.kind.grpc_status(self.is_limited));
            let message =
                utf8_percent_encode(&self.kind.detail(self.is_limited), GRPC_ENCODED).to_string();
            if let Ok(message) = HeaderValue::try_from(message) {
                headers.insert(GRPC_MESSAGE, message);
            }
            let millis = self.retry_after.and_then(|time| u64::try_from(time.as_millis()).ok());
            if let Some(millis) = millis {
                headers.insert(GRPC_PUSHBACK, HeaderValue::from(millis));
            }
        } else {
            let problem = HeaderValue::from_static("application/problem+json");
            headers.insert(CONTENT_TYPE, problem);
            headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
            if let Some(seconds) = self.retry_after.map(|time| time.as_secs()) {
                headers.insert(RETRY_AFTER, HeaderValue::from(seconds));
            }
        }
        response
    }

    /// The body in the form of RFC 9457.
    fn problem(&self) -> Bytes {
        let status = self.kind.status(self.is_limited);
        let mut problem = Map::new();
        problem.insert("type".to_owned(), Value::from("about:blank"));
        problem.insert("title".to_owned(), Value::from(status.canonical_reason()));
        problem.insert("status".to_owned(), Value::from(status.as_u16()));
        problem.insert("detail".to_owned(), Value::from(self.kind.detail(self.is_limited)));
        problem.insert("code".to_owned(), Value::from(self.kind.code()));
        Bytes::from(Value::Object(problem).to_string())
    }
}
