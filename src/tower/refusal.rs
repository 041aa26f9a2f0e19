//! Refusal: what a client is told instead of the handler's answer.

use std::time::Duration;

use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, RETRY_AFTER};
use http::request::Parts;
use http::{HeaderName, HeaderValue, Response, StatusCode};
use serde_json::{Map, Value};

use super::rules::InvalidKey;
use crate::error::Error;
use crate::info::{LeaseInfo, LeaseState};

/// The longest time after which a client is told to try again. A holder of another program's may hold for years.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(86_400);

const GRPC: &[u8] = b"application/grpc";
const GRPC_STATUS: HeaderName = HeaderName::from_static("grpc-status");
const GRPC_MESSAGE: HeaderName = HeaderName::from_static("grpc-message");
const GRPC_PUSHBACK: HeaderName = HeaderName::from_static("grpc-retry-pushback-ms");

/// Why a request was not handled, or its answer was held back. It is among the *response's* extensions, for whoever
/// stands outside the layer and writes logs; the client is told the kind alone.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Refusal {
    /// What the client is told.
    pub kind: RefusalKind,
    /// What went wrong, where that is an error.
    pub error: Option<Error>,
    /// The lease's name, where there was one.
    pub name: Option<String>,
}

/// What a client is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RefusalKind {
    /// Somebody else holds the lease: 409, or what [`LeaseLayer::held_status`](super::LeaseLayer::held_status) says.
    Held,
    /// The lease was not to be had in the time that the layer waits: 503.
    WaitTimeout,
    /// The lease was lost while the request was handled: 503.
    Lost,
    /// The database did not answer, too many wait already, or the manager is shut down or cannot work: 503.
    Unavailable,
    /// The request's key cannot be used: 400.
    InvalidKey(InvalidKey),
    /// The layer is not set up rightly, as with a ttl out of range: 500.
    Misconfigured,
}

/// A refusal, and what the client may know of it.
pub(super) struct Answer {
    refusal: Refusal,
    retry_after: Option<Duration>,
    holder: Option<String>,
}

/// How answers are written.
#[derive(Clone, Copy, Debug)]
pub(super) struct Style {
    pub(super) held: StatusCode,
    pub(super) shows_holder: bool,
    pub(super) is_grpc: bool,
}

/// Whether the client speaks gRPC, and knows of a failure by other headers than others.
pub(super) fn is_grpc(request: &Parts) -> bool {
    let content_type = request.headers.get(CONTENT_TYPE).map(HeaderValue::as_bytes);
    let rest = content_type.and_then(|value| value.strip_prefix(GRPC));
    // `application/grpc-web` is another protocol.
    rest.is_some_and(|rest| matches!(rest.first(), None | Some(b'+' | b';')))
}

impl RefusalKind {
    /// The word by which a program can tell it: the member `code` of the problem.
    #[must_use]
    pub fn code(self) -> &'static str {
        match self {
            RefusalKind::Held => "lease_held",
            RefusalKind::WaitTimeout => "lease_wait_timeout",
            RefusalKind::Lost => "lease_lost",
            RefusalKind::Unavailable => "lease_unavailable",
            RefusalKind::InvalidKey(_) => "lease_key_invalid",
            RefusalKind::Misconfigured => "lease_misconfigured",
        }
    }

    fn detail(self) -> String {
        match self {
            RefusalKind::Held => "another request, or another process, is at it".to_owned(),
            RefusalKind::WaitTimeout => {
                "others were at it for as long as this request could wait".to_owned()
            }
            RefusalKind::Lost => {
                "the lease was lost while the request was handled; it may have taken effect"
                    .to_owned()
            }
            RefusalKind::Unavailable => "leases cannot be granted now".to_owned(),
            RefusalKind::InvalidKey(invalid) => invalid.to_string(),
            RefusalKind::Misconfigured => "the server is not set up rightly".to_owned(),
        }
    }

    fn status(self, held: StatusCode) -> StatusCode {
        match self {
            RefusalKind::Held => held,
            RefusalKind::WaitTimeout | RefusalKind::Lost | RefusalKind::Unavailable => {
                StatusCode::SERVICE_UNAVAILABLE
            }
            RefusalKind::InvalidKey(_) => StatusCode::BAD_REQUEST,
            RefusalKind::Misconfigured => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }

    /// The code of gRPC that says the same. A loss is no `UNAVAILABLE`: clients repeat those without being asked, and
    /// the request may have taken effect.
    fn grpc_status(self) -> HeaderValue {
        HeaderValue::from_static(match self {
            RefusalKind::InvalidKey(_) => "3",
            RefusalKind::Held | RefusalKind::Lost => "10",
            RefusalKind::Misconfigured => "13",
            RefusalKind::WaitTimeout | RefusalKind::Unavailable => "14",
        })
    }
}

impl Answer {
    fn of(kind: RefusalKind, name: Option<String>, error: Option<Error>) -> Answer {
        Answer { refusal: Refusal { kind, error, name }, retry_after: None, holder: None }
    }

    pub(super) fn invalid_key(invalid: InvalidKey) -> Answer {
        Answer::of(RefusalKind::InvalidKey(invalid), None, None)
    }

    pub(super) fn held(info: Box<LeaseInfo>) -> Answer {
        let error = Error::Busy(info.clone());
        Answer::of(RefusalKind::Held, Some(info.name.clone()), Some(error)).with_holder(&info)
    }

    pub(super) fn lost(name: &str, error: Option<Error>) -> Answer {
        Answer::of(RefusalKind::Lost, Some(name.to_owned()), error)
    }

    /// The lease was not granted, by this error.
    pub(super) fn not_granted(name: &str, error: Error) -> Answer {
        let kind = match &error {
            Error::Busy(info) => return Answer::held(info.clone()),
            Error::WaitTimeout { source: None, .. } => RefusalKind::WaitTimeout,
            Error::InvalidOption { .. } | Error::InvalidName { .. } => RefusalKind::Misconfigured,
            Error::WaitTimeout { .. }
            | Error::QueueFull { .. }
            | Error::Lost { .. }
            | Error::NotMigrated { .. }
            | Error::MissingPrivilege { .. }
            | Error::Damaged { .. }
            | Error::Unsupported { .. }
            | Error::ShutDown
            | Error::Stopped
            | Error::Unknown { .. }
            | Error::MongoDb(_) => RefusalKind::Unavailable,
        };
        let answer = Answer::of(kind, Some(name.to_owned()), Some(error.clone()));
        if let Error::WaitTimeout { held: Some(info), source: None, .. } = &error {
            return answer.with_holder(info);
        }
        answer
    }

    fn with_holder(mut self, info: &LeaseInfo) -> Answer {
        self.holder.clone_from(&info.owner);
        self.retry_after = match info.state {
            LeaseState::Held => info.remaining,
            // Nobody knows until when.
            LeaseState::Free | LeaseState::Damaged { .. } => None,
        };
        self
    }

    /// The response. What a client sent is nowhere in it, nor is anything that another program could have written
    /// into the lease, but for the holder, where that is asked for: as a string of JSON.
    pub(super) fn response(self, style: Style) -> Response<Bytes> {
        let kind = self.refusal.kind;
        let (status, body) = match style.is_grpc {
            true => (StatusCode::OK, Bytes::new()),
            false => (kind.status(style.held), self.problem(style)),
        };
        let mut response = Response::new(body);
        *response.status_mut() = status;
        let retry_after = self.retry_after.map(|time| time.min(RETRY_AFTER_MAX));
        let headers = response.headers_mut();
        if style.is_grpc {
            headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
            headers.insert(GRPC_STATUS, kind.grpc_status());
            // Our own words: letters, spaces and commas, which need no encoding.
            if let Ok(message) = HeaderValue::try_from(kind.detail()) {
                headers.insert(GRPC_MESSAGE, message);
            }
            if let Some(millis) = retry_after.and_then(|time| u64::try_from(time.as_millis()).ok())
            {
                headers.insert(GRPC_PUSHBACK, HeaderValue::from(millis));
            }
        } else {
            let problem = HeaderValue::from_static("application/problem+json");
            headers.insert(CONTENT_TYPE, problem);
            headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
            if let Some(seconds) = retry_after.map(whole_seconds) {
                headers.insert(RETRY_AFTER, HeaderValue::from(seconds));
            }
        }
        response.extensions_mut().insert(self.refusal);
        response
    }

    /// The body, as RFC 9457 has it.
    fn problem(&self, style: Style) -> Bytes {
        let kind = self.refusal.kind;
        let status = kind.status(style.held);
        let mut problem = Map::new();
        problem.insert("type".to_owned(), Value::from("about:blank"));
        problem.insert("title".to_owned(), Value::from(status.canonical_reason()));
        problem.insert("status".to_owned(), Value::from(status.as_u16()));
        problem.insert("detail".to_owned(), Value::from(kind.detail()));
        problem.insert("code".to_owned(), Value::from(kind.code()));
        if let Some(holder) = self.holder.as_ref().filter(|_| style.shows_holder) {
            problem.insert("holder".to_owned(), Value::from(holder.as_str()));
        }
        Bytes::from(Value::Object(problem).to_string())
    }
}

/// In whole seconds, and not too early: zero would send the client back at once.
fn whole_seconds(time: Duration) -> u64 {
    time.as_secs() + u64::from(time.subsec_nanos() > 0 || time.is_zero())
}
