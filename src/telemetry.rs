//! Reports to the `tracing` and `metrics` crates. Without these features it does nothing.
//!
//! Spans: `acquire`, `renew` and `release`, around the calls that a caller waits for. Fields of spans and events:
//! `lease.name`, `lease.token` (as text), `lease.remaining_ms`, `lease.waited_ms`, `reason`. Values are never reported:
//! with a value, anybody can release the lease. A lease's name is not a label of a metric: there may be millions of
//! names.

#![cfg_attr(not(any(feature = "tracing", feature = "metrics")), allow(unused_variables))]

use std::time::Duration;

use crate::error::LostReason;
#[cfg(feature = "tracing")]
use crate::rules::time::millis_up;
use crate::rules::token::Token;

/// The names of the metrics. Counters end with `_total`; the histogram is in seconds.
#[cfg(feature = "metrics")]
mod names {
    pub(super) const GRANTED: &str = "mongo_lease_granted_total";
    pub(super) const REFUSED: &str = "mongo_lease_refused_total";
    pub(super) const WAIT: &str = "mongo_lease_wait_seconds";
    pub(super) const RENEWED: &str = "mongo_lease_renewed_total";
    pub(super) const RENEWAL_FAILED: &str = "mongo_lease_renewal_failed_total";
    pub(super) const LOST: &str = "mongo_lease_lost_total";
    pub(super) const RELEASED: &str = "mongo_lease_released_total";
    pub(super) const NOT_GIVEN_BACK: &str = "mongo_lease_not_given_back_total";
    pub(super) const QUEUED: &str = "mongo_lease_queued_total";
    pub(super) const STREAM_FAILED: &str = "mongo_lease_stream_failed_total";
    pub(super) const HELD: &str = "mongo_lease_held";
}

/// Wraps the future in a span with the lease's name, and its token once known.
#[cfg(feature = "tracing")]
pub(crate) fn span<F: Future>(
    operation: Operation,
    name: &str,
    future: F,
) -> impl Future<Output = F::Output> + use<F> {
    use tracing::{Instrument, debug_span, field::Empty};
    let span = match operation {
        Operation::Acquire => {
            debug_span!("acquire", lease.name = name, lease.token = Empty)
        }
        Operation::Renew => debug_span!("renew", lease.name = name, lease.token = Empty),
        Operation::Release => debug_span!("release", lease.name = name, lease.token = Empty),
    };
    future.instrument(span)
}

/// Returns the future unchanged.
#[cfg(not(feature = "tracing"))]
pub(crate) fn span<F: Future>(_operation: Operation, _name: &str, future: F) -> F {
    future
}

/// The operation of a span.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    Acquire,
    Renew,
    Release,
}

/// Writes the token into the current span.
#[cfg(feature = "tracing")]
fn record(token: Token) {
    tracing::Span::current().record("lease.token", tracing::field::display(token));
}

pub(crate) fn granted(name: &str, token: Token, waited: Duration) {
    #[cfg(feature = "metrics")]
    {
        metrics::counter!(names::GRANTED).increment(1);
        metrics::histogram!(names::WAIT).record(waited.as_secs_f64());
    }
    #[cfg(feature = "tracing")]
    record(token);
    #[cfg(feature = "tracing")]
    tracing::debug!(
        lease.name = name,
        lease.token = %token,
        lease.waited_ms = millis_up(waited),
        "lease granted"
    );
}

pub(crate) fn refused(name: &str, owner: Option<&str>) {
    #[cfg(feature = "metrics")]
    metrics::counter!(names::REFUSED).increment(1);
    #[cfg(feature = "tracing")]
    tracing::trace!(lease.name = name, lease.owner = owner, "lease refused");
}

pub(crate) fn renewed(name: &str, token: Token, remaining: Duration) {
    #[cfg(feature = "metrics")]
    metrics::counter!(names::RENEWED).increment(1);
    #[cfg(feature = "tracing")]
    record(token);
    #[cfg(feature = "tracing")]
    tracing::trace!(
        lease.name = name,
        lease.token = %token,
        lease.remaining_ms = millis_up(remaining),
        "lease renewed"
    );
}

pub(crate) fn renewal_failed(name: &str, token: Token, remaining: Duration, reason: &str) {
    #[cfg(feature = "metrics")]
    metrics::counter!(names::RENEWAL_FAILED).increment(1);
    #[cfg(feature = "tracing")]
    tracing::warn!(
        lease.name = name,
        lease.token = %token,
        lease.remaining_ms = millis_up(remaining),
        reason,
        "lease not renewed, trying again"
    );
}

/// `was_asked_for`: the lease ended by its `max_hold`, or because its renewal is off.
pub(crate) fn lost(name: &str, token: Token, reason: &LostReason, was_asked_for: bool) {
    #[cfg(feature = "metrics")]
    metrics::counter!(names::LOST, "reason" => reason_label(reason)).increment(1);
    #[cfg(feature = "tracing")]
    match was_asked_for {
        true => tracing::info!(
            lease.name = name,
            lease.token = %token,
            "lease ended as configured: it is not renewed any further"
        ),
        false => {
            tracing::error!(lease.name = name, lease.token = %token, %reason, "lease lost");
        }
    }
}

pub(crate) fn released(name: &str, token: Token) {
    #[cfg(feature = "metrics")]
    metrics::counter!(names::RELEASED).increment(1);
    #[cfg(feature = "tracing")]
    record(token);
    #[cfg(feature = "tracing")]
    tracing::debug!(lease.name = name, lease.token = %token, "lease released");
}

pub(crate) fn not_given_back(leases: usize, reason: &str) {
    #[cfg(feature = "metrics")]
    metrics::counter!(names::NOT_GIVEN_BACK).increment(u64::try_from(leases).unwrap_or(u64::MAX));
    #[cfg(feature = "tracing")]
    tracing::warn!(leases, reason, "leases could not be released, and will expire");
}

/// Releases delete documents instead. Reported once per manager.
pub(crate) fn tombstones_refused(reason: &str) {
    #[cfg(feature = "tracing")]
    tracing::warn!(reason, "the collection refuses tombstones: releases delete documents instead");
}

pub(crate) fn queued(name: &str, ahead: u32) {
    #[cfg(feature = "metrics")]
    metrics::counter!(names::QUEUED).increment(1);
    #[cfg(feature = "tracing")]
    tracing::debug!(lease.name = name, ahead, "waiting in the queue for a lease");
}

/// Reports that a change stream wakes waiters.
pub(crate) fn watching() {
    #[cfg(feature = "tracing")]
    tracing::debug!("a change stream wakes waiting calls");
}

/// Reports that waiters have to poll.
pub(crate) fn polling(reason: &str) {
    #[cfg(feature = "metrics")]
    metrics::counter!(names::STREAM_FAILED).increment(1);
    #[cfg(feature = "tracing")]
    tracing::warn!(reason, "no change stream: waiting calls poll, and the manager tries again");
}

pub(crate) fn heartbeat_failed(waiters: usize, reason: &str) {
    #[cfg(feature = "tracing")]
    tracing::warn!(waiters, reason, "a heartbeat of waiting calls was not confirmed");
}

/// Counts one more held lease.
pub(crate) fn one_more_held() {
    #[cfg(feature = "metrics")]
    metrics::gauge!(names::HELD).increment(1.0);
}

/// Counts one held lease less.
pub(crate) fn one_less_held() {
    #[cfg(feature = "metrics")]
    metrics::gauge!(names::HELD).decrement(1.0);
}

#[cfg(feature = "metrics")]
fn reason_label(reason: &LostReason) -> &'static str {
    match reason {
        LostReason::Expired => "expired",
        LostReason::OutOfReach { .. } => "out_of_reach",
        LostReason::TakenOver { .. } => "taken_over",
        LostReason::Removed => "removed",
        LostReason::Resumed => "resumed",
        LostReason::Released => "released",
    }
}
