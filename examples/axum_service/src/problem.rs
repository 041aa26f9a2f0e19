//! The error responses of the service.

use axum::http::header::{CONTENT_TYPE, RETRY_AFTER};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use mongo_lease::{Error, LeaseInfo};
use serde_json::json;

/// An error response in the form of RFC 9457. It does not name the holder of a lease.
pub(crate) struct Problem {
    status: StatusCode,
    code: &'static str,
    retry_after: Option<u64>,
}

impl Problem {
    pub(crate) fn new(status: StatusCode, code: &'static str) -> Problem {
        Problem { status, code, retry_after: None }
    }

    /// The lease is held.
    pub(crate) fn held(info: &LeaseInfo) -> Problem {
        let seconds = info.remaining.map(|remaining| remaining.as_secs() + 1);
        Problem { retry_after: seconds, ..Problem::new(StatusCode::CONFLICT, "held") }
    }
}

impl From<Error> for Problem {
    #[allow(
        clippy::wildcard_enum_match_arm,
        reason = "whatever is added later is no client's fault"
    )]
    fn from(error: Error) -> Problem {
        match error {
            Error::Busy(info) => Problem::held(&info),
            Error::Lost { .. } => Problem::new(StatusCode::CONFLICT, "lost"),
            Error::InvalidOption { .. } | Error::InvalidName { .. } => {
                Problem::new(StatusCode::BAD_REQUEST, "invalid")
            }
            error => {
                eprintln!("{error}");
                Problem::new(StatusCode::SERVICE_UNAVAILABLE, "unavailable")
            }
        }
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let body = json!({
            "type": "about:blank",
            "title": self.status.canonical_reason(),
            "status": self.status.as_u16(),
            "code": self.code,
        });
        let mut response = (self.status, body.to_string()).into_response();
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        if let Some(seconds) = self.retry_after {
            headers.insert(RETRY_AFTER, HeaderValue::from(seconds));
        }
        response
    }
}
