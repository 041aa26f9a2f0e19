//! Reports to the `tracing` and `metrics` crates. Without these features it does nothing.
//!
//! `docs/observe.md` lists what is reported. Fields of spans and events: `lease.name`, `lease.token` (as text),
//! `lease.remaining_ms`, `lease.waited_ms`, `reason`. Values are never reported: with a value, anybody can release the
//! lease. A lease's name is not a label of a metric: there may be millions of names.

#![cfg_attr(not(all(feature = "tracing", feature = "metrics")), allow(unused_variables))]

#[cfg(feature = "metrics")]
mod meters;
mod spans;

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

#[cfg(feature = "tracing")]
use mongo_lease_core::rules::time::millis_up;

#[cfg(feature = "tower")]
use crate::error::Error;
use crate::error::LostReason;
use crate::token::Token;

#[cfg(feature = "metrics")]
pub(crate) use meters::register;
pub(crate) use spans::{CallSpan, Completed, Operation};

/// Describes and registers the metrics. Without the feature there are none.
#[cfg(not(feature = "metrics"))]
pub(crate) fn register() {}

pub(crate) fn granted(name: &str, token: Token, waited: Duration) {
    #[cfg(feature = "metrics")]
    {
        meters::count(meters::GRANTED, 1);
        ::metrics::histogram!(meters::WAIT.name).record(waited.as_secs_f64());
    }
    #[cfg(feature = "tracing")]
    tracing::debug!(
        lease.name = name,
        lease.token = %token,
        lease.waited_ms = millis_up(waited),
        "lease granted"
    );
}

/// `smaller_limit`: the limit in force, where it is smaller than that of the call.
pub(crate) fn refused(name: &str, owner: Option<&str>, smaller_limit: Option<u32>) {
    #[cfg(feature = "metrics")]
    meters::count(meters::REFUSED, 1);
    #[cfg(feature = "tracing")]
    tracing::trace!(lease.name = name, lease.owner = owner, "lease refused");
    if let Some(limit) = smaller_limit {
        #[cfg(feature = "metrics")]
        meters::count(meters::SMALLER_LIMIT, 1);
        #[cfg(feature = "tracing")]
        tracing::debug!(lease.name = name, limit, "a holder has a smaller limit");
    }
}

pub(crate) fn renewed(name: &str, token: Token, remaining: Duration) {
    #[cfg(feature = "metrics")]
    meters::count(meters::RENEWED, 1);
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
    meters::count(meters::RENEWAL_FAILED, 1);
    #[cfg(feature = "tracing")]
    tracing::warn!(
        lease.name = name,
        lease.token = %token,
        lease.remaining_ms = millis_up(remaining),
        reason,
        "lease not renewed, trying again"
    );
}

pub(crate) fn lost(name: &str, token: Token, reason: &LostReason) {
    #[cfg(feature = "metrics")]
    meters::count_loss(reason);
    #[cfg(feature = "tracing")]
    if *reason == LostReason::EndedAsAsked {
        tracing::info!(lease.name = name, lease.token = %token, "lease ended as asked");
    } else {
        tracing::error!(lease.name = name, lease.token = %token, %reason, "lease lost");
    }
}

pub(crate) fn released(name: &str, token: Token) {
    #[cfg(feature = "metrics")]
    meters::count(meters::RELEASED, 1);
    #[cfg(feature = "tracing")]
    tracing::debug!(lease.name = name, lease.token = %token, "lease released");
}

pub(crate) fn not_given_back(leases: usize, reason: &str) {
    #[cfg(feature = "metrics")]
    meters::count(meters::NOT_GIVEN_BACK, u64::try_from(leases).unwrap_or(u64::MAX));
    #[cfg(feature = "tracing")]
    tracing::warn!(leases, reason, "leases could not be released, and will expire");
}

/// Releases delete documents instead. Reported once per manager.
pub(crate) fn tombstones_refused(reason: &str) {
    #[cfg(feature = "tracing")]
    tracing::warn!(reason, "the collection refuses tombstones: releases delete documents instead");
}

/// The layer for web services refuses requests whose path does not fit its route. Reported at most once a minute.
#[cfg(feature = "tower")]
pub(crate) fn path_mismatch(error: &Error) {
    #[cfg(feature = "tracing")]
    tracing::error!(%error, "requests are refused: their path does not fit the layer's route");
}

pub(crate) fn queued(name: &str, ahead: u32) {
    #[cfg(feature = "metrics")]
    meters::count(meters::QUEUED, 1);
    #[cfg(feature = "tracing")]
    tracing::debug!(lease.name = name, ahead, "waiting in the queue for a lease");
}

/// Whether one manager's waiting calls poll because its change stream is broken. The gauge counts such managers.
#[derive(Debug, Default)]
pub(crate) struct Polling {
    is_on: AtomicBool,
}

impl Polling {
    /// Reports that waiters have to poll.
    pub(crate) fn begins(&self, reason: &str) {
        self.set(true);
        #[cfg(feature = "metrics")]
        meters::count(meters::STREAM_FAILED, 1);
        #[cfg(feature = "tracing")]
        tracing::warn!(reason, "no change stream: waiting calls poll, and the manager tries again");
    }

    /// Reports that a change stream wakes waiters.
    pub(crate) fn ends(&self) {
        self.set(false);
        #[cfg(feature = "tracing")]
        tracing::debug!("a change stream wakes waiting calls");
    }

    fn set(&self, is_on: bool) {
        let was_on = self.is_on.swap(is_on, Ordering::Relaxed);
        #[cfg(feature = "metrics")]
        if is_on != was_on {
            let change = if is_on { 1.0 } else { -1.0 };
            ::metrics::gauge!(meters::POLLING.name).increment(change);
        }
    }
}

impl Drop for Polling {
    fn drop(&mut self) {
        self.set(false);
    }
}

pub(crate) fn heartbeat_failed(waiters: usize, reason: &str) {
    #[cfg(feature = "tracing")]
    tracing::warn!(waiters, reason, "a heartbeat of waiting calls was not confirmed");
}

/// Counts one more held lease.
pub(crate) fn one_more_held() {
    #[cfg(feature = "metrics")]
    ::metrics::gauge!(meters::HELD.name).increment(1.0);
}

/// Counts one held lease less.
pub(crate) fn one_less_held() {
    #[cfg(feature = "metrics")]
    ::metrics::gauge!(meters::HELD.name).decrement(1.0);
}
