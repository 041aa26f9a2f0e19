//! Reports to listeners, and to the `tracing` and `metrics` crates. Without these features, only to listeners.
//!
//! `docs/observe.md` lists what is reported. Fields of spans and events: `lease.name`, `lease.token` (as text),
//! `lease.remaining_ms`, `lease.waited_ms`, `reason`. Values are never reported: with a value, anybody can release the
//! lease. A lease's name is not a label of a metric: there may be millions of names.

#![cfg_attr(not(all(feature = "tracing", feature = "metrics")), allow(unused_variables))]

mod events;
#[cfg(feature = "metrics")]
mod meters;
mod spans;

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

#[cfg(feature = "tracing")]
use mongo_lease_core::rules::millis_up;

#[cfg(feature = "tracing")]
use crate::error::LostReason;
use crate::lock::Lock;
use crate::token::Token;

pub use events::Event;
pub(crate) use events::Events;
#[cfg(feature = "metrics")]
pub(crate) use meters::register;
pub(crate) use spans::{CallSpan, Operation};

/// Describes and registers the metrics. Without the feature there are none.
#[cfg(not(feature = "metrics"))]
pub(crate) fn register() {}

impl Events {
    /// Reports an event to the log, to the metrics, and to the listeners.
    pub(crate) fn report(&self, event: Event) {
        #[cfg(feature = "metrics")]
        match &event {
            Event::Queued { .. } => meters::count(meters::QUEUED, 1),
            Event::Renewed { .. } => meters::count(meters::RENEWED, 1),
            Event::RenewalFailed { .. } => meters::count(meters::RENEWAL_FAILED, 1),
            Event::Lost { reason, .. } => meters::count_loss(reason),
            Event::Released { .. } => meters::count(meters::RELEASED, 1),
            Event::Polling { .. } => meters::count(meters::STREAM_FAILED, 1),
            Event::Granted { .. } | Event::Watching | Event::Missed(_) => {}
        }
        #[cfg(feature = "tracing")]
        log(&event);
        self.tell(event);
    }

    /// Reports a grant, for which its call has waited so long.
    pub(crate) fn report_grant(&self, name: &str, token: Token, waited: Duration) {
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
        self.report(Event::Granted { name: name.to_owned(), token });
    }
}

#[cfg(feature = "tracing")]
fn log(event: &Event) {
    match event {
        Event::Queued { name, ahead } => {
            tracing::debug!(lease.name = name, ahead, "waiting in the queue for a lease");
        }
        Event::Renewed { name, token, remaining } => tracing::trace!(
            lease.name = name,
            lease.token = %token,
            lease.remaining_ms = millis_up(*remaining),
            "lease renewed"
        ),
        Event::Lost { name, token, reason: LostReason::EndedAsAsked } => {
            tracing::info!(lease.name = name, lease.token = %token, "lease ended as asked");
        }
        Event::Lost { name, token, reason } => {
            tracing::error!(lease.name = name, lease.token = %token, %reason, "lease lost");
        }
        Event::Released { name, token } => {
            tracing::debug!(lease.name = name, lease.token = %token, "lease released");
        }
        Event::Watching => tracing::debug!("a change stream wakes waiting calls"),
        Event::Polling { reason } => tracing::warn!(
            reason,
            "no change stream: waiting calls poll, and the manager tries again"
        ),
        // The command of many leases has one line.
        Event::RenewalFailed { .. } | Event::Granted { .. } | Event::Missed(_) => {}
    }
}

/// The renewal of so many leases was not confirmed, of which this is one.
pub(crate) fn renewal_failed(leases: usize, name: &str, reason: &str) {
    #[cfg(feature = "tracing")]
    tracing::warn!(leases, lease.name = name, reason, "leases not renewed, trying again");
}

/// The documents that transactions block. Each is logged once, until a write to it succeeds. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(crate) struct BlockedLog(Arc<Lock<HashSet<String>>>);

impl BlockedLog {
    /// More names than this are not remembered.
    const NAMES_MAX: usize = 1_000;

    /// A write to the lease's document has waited for so long, and was cut off.
    pub(crate) fn cut_off(&self, name: &str, waited: Duration) {
        let mut names = self.0.lock();
        if names.len() >= BlockedLog::NAMES_MAX {
            names.clear();
        }
        let is_new = names.insert(name.to_owned());
        drop(names);
        #[cfg(feature = "tracing")]
        if is_new {
            tracing::warn!(
                lease.name = name,
                "a transaction has blocked lease {name:?} for {:.1} s: its renewals and heartbeats \
                 wait",
                waited.as_secs_f64()
            );
        }
    }

    /// A write to the document has succeeded.
    pub(crate) fn written(&self, name: &str) {
        self.0.lock().remove(name);
    }
}

/// A term of this process as the leader of an election. It ends when this is dropped.
#[derive(Debug)]
#[cfg_attr(not(feature = "tracing"), allow(dead_code, reason = "the log needs them"))]
pub(crate) struct Term {
    name: String,
    token: Token,
}

impl Term {
    pub(crate) fn begin(name: &str, token: Token) -> Term {
        #[cfg(feature = "tracing")]
        tracing::info!(lease.name = name, lease.token = %token, "this process begins to lead");
        Term { name: name.to_owned(), token }
    }
}

impl Drop for Term {
    fn drop(&mut self) {
        #[cfg(feature = "tracing")]
        tracing::info!(
            lease.name = self.name,
            lease.token = %self.token,
            "this process ceases to lead"
        );
    }
}

/// A shutdown without the runtime in which the manager was built: nothing sends its releases.
pub(crate) fn no_runtime(is_there: bool, left_to_expire: usize) {
    #[cfg(feature = "tracing")]
    {
        let what = if is_there { "runs none of its tasks" } else { "has ended" };
        tracing::error!(
            left_to_expire,
            "the tokio runtime in which the manager was built {what}: its leases are left to expire"
        );
    }
}

/// An answer to an attempt; no listener is told. `smaller_limit` is the limit in force, where it is smaller than that
/// of the call.
pub(crate) fn refused(name: &str, owner: Option<&str>, smaller_limit: Option<u32>) {
    #[cfg(feature = "metrics")]
    {
        meters::count(meters::REFUSED, 1);
        meters::count(meters::SMALLER_LIMIT, smaller_limit.is_some().into());
    }
    #[cfg(feature = "tracing")]
    {
        tracing::trace!(lease.name = name, lease.owner = owner, "lease refused");
        if let Some(limit) = smaller_limit {
            tracing::debug!(lease.name = name, limit, "a holder has a smaller limit");
        }
    }
}

/// A `build` waits for a server. The driver names the addresses, and why each failed, when its own time is over.
pub(crate) fn no_server_yet(database: &str, build_timeout: Duration) {
    #[cfg(feature = "tracing")]
    tracing::warn!(
        db.namespace = database,
        build_timeout_ms = millis_up(build_timeout),
        "no server has answered yet: build() waits for one of the addresses of the client"
    );
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

/// Whether one manager's waiting calls poll because its change stream is broken. The gauge counts such managers.
#[derive(Debug, Default)]
pub(crate) struct Polling {
    is_on: AtomicBool,
}

impl Polling {
    /// Reports that waiters have to poll.
    pub(crate) fn begins(&self, events: &Events, reason: String) {
        self.set(true);
        events.report(Event::Polling { reason });
    }

    /// Reports that a change stream wakes waiters.
    pub(crate) fn ends(&self, events: &Events) {
        self.set(false);
        events.report(Event::Watching);
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

/// The heartbeat of so many calls was not confirmed, of which one waits for this lease.
pub(crate) fn heartbeat_failed(waiters: usize, name: &str, reason: &str) {
    #[cfg(feature = "tracing")]
    tracing::warn!(
        waiters,
        lease.name = name,
        reason,
        "a heartbeat of waiting calls was not confirmed"
    );
}

/// Counts one held lease more, or one less.
pub(crate) fn count_held(change: f64) {
    #[cfg(feature = "metrics")]
    ::metrics::gauge!(meters::HELD.name).increment(change);
}
