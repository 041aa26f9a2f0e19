//! `Refusal`: the answer to a request that is not handled.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, RETRY_AFTER};
use http::request::Parts;
use http::{HeaderName, HeaderValue, Response, StatusCode};
use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};
use serde_json::{Map, Value};

use mongo_lease_core::info::LeaseInfo;

use super::rules::InvalidKey;
use crate::error::{Error, bounded_wait};

/// The default time until a client should try again. A request ends long before its lease would expire.
pub(super) const RETRY_AFTER_DEFAULT: Duration = Duration::from_secs(1);

const GRPC: &[u8] = b"application/grpc";
const GRPC_STATUS: HeaderName = HeaderName::from_static("grpc-status");
const GRPC_MESSAGE: HeaderName = HeaderName::from_static("grpc-message");
/// The ASCII characters that a `grpc-message` has as `%XX`. All non-ASCII characters are encoded, too.
const GRPC_ENCODED: &AsciiSet = &CONTROLS.add(b'%');
const GRPC_PUSHBACK: HeaderName = HeaderName::from_static("grpc-retry-pushback-ms");

/// Why a request was not handled, or why its answer was withheld.
///
/// [`LeaseLayer::refuse_with`](super::LeaseLayer::refuse_with) makes the response from it. It is also among the
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
    /// How long the client should wait before it tries again: see
    /// [`LeaseLayer::retry_after`](super::LeaseLayer::retry_after).
    pub retry_after: Option<Duration>,
    /// Whether the client speaks gRPC. It then expects the status 200 with a `grpc-status`.
    pub is_grpc: bool,
    /// The lease and its holder, if known.
    held: Option<Box<LeaseInfo>>,
    /// The part that the request lacks, if it has no key.
    missing: Option<String>,
    /// How [`Refusal::response`] writes the response.
    style: Style,
}

/// The kind of a refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RefusalKind {
    /// The lease is held: 409, or the [status that you choose](super::LeaseLayer::held_status).
    ///
    /// With a [limit](super::LeaseLayer::limit) above 1, also if too few permits are free: 429, or your status.
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
    /// The request's path does not fit the layer's [route](super::key::path_parameter); an option such as the ttl is
    /// out of range; or the layer has a [limit](super::LeaseLayer::limit) above 1, and the server is no member of a
    /// replica set.
    Misconfigured,
}

/// The style of a layer's responses.
#[derive(Clone, Copy, Debug)]
pub(super) struct Style {
    /// The user's status for a held lease.
    pub(super) held: Option<StatusCode>,
    pub(super) shows_holder: bool,
    /// Whether the layer has a limit above 1: a refused request then is one too many, and in conflict with no other.
    pub(super) is_limited: bool,
}

impl Style {
    const PLAIN: Style = Style { held: None, shows_holder: false, is_limited: false };

    fn held(self) -> StatusCode {
        self.held.unwrap_or(match self.is_limited {
            true => StatusCode::TOO_MANY_REQUESTS,
            false => StatusCode::CONFLICT,
        })
    }
}

/// Computes from a holder how long a client should wait before it tries again.
pub(super) type TimeOf = dyn Fn(&LeaseInfo) -> Option<Duration> + Send + Sync;

/// Makes the response of a refusal.
pub(super) type Refuse = dyn Fn(&Refusal) -> Response<Bytes> + Send + Sync;

/// When a client should try again, while a live holder has the lease.
#[derive(Clone)]
pub(super) enum RetryAfter {
    Fixed(Option<Duration>),
    Of(Arc<TimeOf>),
}

impl RetryAfter {
    fn of(&self, info: &LeaseInfo) -> Option<Duration> {
        match self {
            RetryAfter::Fixed(time) => *time,
            RetryAfter::Of(time) => time(info),
        }
    }
}

/// Whether the client speaks gRPC, whose failures use other headers.
pub(super) fn is_grpc(request: &Parts) -> bool {
    let content_type = request.headers.get(CONTENT_TYPE).map(HeaderValue::as_bytes);
    let rest = content_type.and_then(|value| value.strip_prefix(GRPC));
    // `application/grpc-web` is another protocol.
    rest.is_some_and(|rest| matches!(rest.first(), None | Some(b'+' | b';')))
}

impl RefusalKind {
    /// The word for programs: the member `code` of the problem.
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

    fn detail(self, style: Style) -> String {
        match self {
            RefusalKind::Held if style.is_limited => {
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

    fn status(self, style: Style) -> StatusCode {
        match self {
            RefusalKind::Held => style.held(),
            RefusalKind::WaitTimeout | RefusalKind::Lost | RefusalKind::Unavailable => {
                StatusCode::SERVICE_UNAVAILABLE
            }
            RefusalKind::InvalidKey(_) => StatusCode::BAD_REQUEST,
            RefusalKind::Misconfigured => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }

    /// The matching gRPC status. A loss is not `UNAVAILABLE`: clients repeat such requests by themselves, and the
    /// request may have taken effect.
    fn grpc_status(self, style: Style) -> HeaderValue {
        HeaderValue::from_static(match self {
            RefusalKind::Held if style.is_limited => "8",
            RefusalKind::InvalidKey(_) => "3",
            RefusalKind::Held | RefusalKind::Lost => "10",
            RefusalKind::Misconfigured => "13",
            RefusalKind::WaitTimeout | RefusalKind::Unavailable => "14",
        })
    }
}

impl Refusal {
    pub(super) fn new(kind: RefusalKind, name: Option<String>, error: Option<Error>) -> Refusal {
        Refusal {
            kind,
            error,
            name,
            retry_after: None,
            is_grpc: false,
            held: None,
            missing: None,
            style: Style::PLAIN,
        }
    }

    /// The refusal of a request without a key. The text names the part that it lacks.
    pub(super) fn missing(part: String) -> Refusal {
        let kind = RefusalKind::InvalidKey(InvalidKey::Missing);
        Refusal { missing: Some(part), ..Refusal::new(kind, None, None) }
    }

    fn detail(&self) -> String {
        match &self.missing {
            Some(part) => format!("{part} is missing"),
            None => self.kind.detail(self.style),
        }
    }

    pub(super) fn held(info: Box<LeaseInfo>) -> Refusal {
        let error = Error::Busy(info.clone());
        let refusal = Refusal::new(RefusalKind::Held, Some(info.name.clone()), Some(error));
        Refusal { held: Some(info), ..refusal }
    }

    /// The refusal for an error of the acquire.
    pub(super) fn not_granted(name: &str, error: Error) -> Refusal {
        let kind = match &error {
            Error::Busy(info) => return Refusal::held(info.clone()),
            Error::WaitTimeout { source: None, .. } => RefusalKind::WaitTimeout,
            // Another try would fail in the same way.
            Error::InvalidOption { .. } | Error::InvalidName { .. } | Error::Unsupported { .. } => {
                RefusalKind::Misconfigured
            }
            Error::WaitTimeout { .. }
            | Error::QueueFull { .. }
            | Error::Lost { .. }
            | Error::NotMigrated { .. }
            | Error::MissingPrivilege { .. }
            | Error::Damaged { .. }
            | Error::ShutDown
            | Error::Stopped
            | Error::Unknown { .. }
            | Error::MongoDb(_) => RefusalKind::Unavailable,
        };
        let held = if let Error::WaitTimeout { held, source: None, .. } = &error {
            held.clone()
        } else {
            None
        };
        Refusal { held, ..Refusal::new(kind, Some(name.to_owned()), Some(error)) }
    }

    /// Adds this layer's style and retry time, and whether the client speaks gRPC.
    pub(super) fn rendered(self, style: Style, retry_after: &RetryAfter, is_grpc: bool) -> Refusal {
        let holder = self.held.as_deref();
        let retry_after = holder.and_then(|info| bounded_wait(info, |held| retry_after.of(held)));
        Refusal { style, retry_after, is_grpc, ..self }
    }

    /// The holder of the lease, if known: `label@host:pid`, and the remaining time.
    #[must_use]
    pub fn holder(&self) -> Option<&LeaseInfo> {
        self.held.as_deref()
    }

    /// The default response, as in the layer's table. Change it, or return it as it is.
    ///
    /// It contains nothing that the client sent, and nothing that another program could have written into the lease.
    /// The only exception is the holder, if that is enabled: as a JSON string.
    #[must_use]
    pub fn response(&self) -> Response<Bytes> {
        let (kind, style) = (self.kind, self.style);
        let (status, body) = match self.is_grpc {
            true => (StatusCode::OK, Bytes::new()),
            false => (kind.status(style), self.problem()),
        };
        let mut response = Response::new(body);
        *response.status_mut() = status;
        let headers = response.headers_mut();
        if self.is_grpc {
            headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
            headers.insert(GRPC_STATUS, kind.grpc_status(style));
            let message = utf8_percent_encode(&self.detail(), GRPC_ENCODED).to_string();
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
            if let Some(seconds) = self.retry_after.map(whole_seconds) {
                headers.insert(RETRY_AFTER, HeaderValue::from(seconds));
            }
        }
        response
    }

    /// The body in the form of RFC 9457.
    fn problem(&self) -> Bytes {
        let (kind, style) = (self.kind, self.style);
        let status = kind.status(style);
        let mut problem = Map::new();
        problem.insert("type".to_owned(), Value::from("about:blank"));
        problem.insert("title".to_owned(), Value::from(status.canonical_reason()));
        problem.insert("status".to_owned(), Value::from(status.as_u16()));
        problem.insert("detail".to_owned(), Value::from(self.detail()));
        problem.insert("code".to_owned(), Value::from(kind.code()));
        let holder = self.held.as_ref().and_then(|info| info.owner.as_deref());
        if let Some(holder) = holder.filter(|_| style.shows_holder) {
            problem.insert("holder".to_owned(), Value::from(holder));
        }
        Bytes::from(Value::Object(problem).to_string())
    }
}

/// Rounds up to whole seconds, at least 1. With zero the client would come back at once.
fn whole_seconds(time: Duration) -> u64 {
    time.as_secs() + u64::from(time.subsec_nanos() > 0 || time.is_zero())
}
