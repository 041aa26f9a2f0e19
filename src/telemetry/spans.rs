//! The spans around the calls that a caller waits for.
//!
//! Their attributes follow OpenTelemetry's conventions for database clients. `db.operation.name` is left out, because
//! one call may send several commands, or share a command with other calls.

#![cfg_attr(not(feature = "tracing"), allow(unused_variables))]

#[cfg(feature = "tracing")]
use futures_util::FutureExt;
#[cfg(feature = "tracing")]
use tracing::{Instrument, Span, field};

#[cfg(feature = "tracing")]
use crate::error::Error;
use crate::error::Result;
use crate::token::Token;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    Acquire,
    Renew,
    Release,
}

/// The word for how a call ended that returned no error, and the token that it was granted.
pub(crate) type Completed = (&'static str, Option<Token>);

/// The span of one call. A call that is dropped has no outcome.
pub(crate) struct CallSpan {
    #[cfg(feature = "tracing")]
    span: Span,
}

/// Makes a span with this name. The macros of `tracing` take the name and the fields as literals only.
#[cfg(feature = "tracing")]
macro_rules! call_span {
    ($name:literal, $database:ident, $collection:ident, $lease:ident, $token:ident) => {
        tracing::debug_span!(
            $name,
            otel.kind = "client",
            otel.status_code = field::Empty,
            otel.status_description = field::Empty,
            db.system.name = "mongodb",
            db.namespace = $database,
            db.collection.name = $collection,
            db.response.status_code = field::Empty,
            error.type = field::Empty,
            lease.name = $lease,
            lease.token = $token.map(field::display),
            mongo_lease.outcome = field::Empty,
        )
    };
}

impl CallSpan {
    /// The span of a call for the lease `name`, with its token if that is known already.
    pub(crate) fn new(
        operation: Operation,
        (database, collection): (&str, &str),
        name: &str,
        token: Option<Token>,
    ) -> CallSpan {
        CallSpan {
            #[cfg(feature = "tracing")]
            span: match operation {
                Operation::Acquire => {
                    call_span!("mongo_lease.acquire", database, collection, name, token)
                }
                Operation::Renew => {
                    call_span!("mongo_lease.renew", database, collection, name, token)
                }
                Operation::Release => {
                    call_span!("mongo_lease.release", database, collection, name, token)
                }
            },
        }
    }

    /// Runs the call within the span, and records how it ended.
    ///
    /// Not an `async fn`: its future would have the bytes of the call twice.
    pub(crate) fn around<T>(
        self,
        call: impl Future<Output = Result<T>>,
        completed: impl FnOnce(&T) -> Completed,
    ) -> impl Future<Output = Result<T>> {
        #[cfg(feature = "tracing")]
        {
            let span = self.span.clone();
            call.instrument(self.span).inspect(move |result| {
                if !span.is_disabled() {
                    match result {
                        Ok(output) => {
                            let (outcome, token) = completed(output);
                            if let Some(token) = token {
                                span.record("lease.token", field::display(token));
                            }
                            span.record("mongo_lease.outcome", outcome);
                        }
                        Err(error) => record_error(&span, error),
                    }
                }
            })
        }
        #[cfg(not(feature = "tracing"))]
        call
    }
}

/// Another holder is an answer, also where the call returns it as an error.
#[cfg(feature = "tracing")]
fn record_error(span: &Span, error: &Error) {
    let outcome = match error.kind() {
        "wait_timeout" => "timeout",
        kind @ ("busy" | "lost") => kind,
        _ => "failed",
    };
    span.record("mongo_lease.outcome", outcome);
    if matches!(error, Error::Busy(_)) {
        return;
    }
    span.record("error.type", error.kind());
    span.record("otel.status_code", "ERROR");
    span.record("otel.status_description", field::display(error));
    if let Some(code) = error.server_code() {
        span.record("db.response.status_code", field::display(code));
    }
}
