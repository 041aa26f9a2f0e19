//! Spans and events in the terms of the `tracing` crate; nothing at all without the feature.
//!
//! Fields: `lease.name`, `lease.token` (as text), `lease.remaining_ms`, `reason`. A value is never among them: who
//! knows it can release the lease.

#![cfg_attr(not(feature = "tracing"), allow(unused_variables))]

use std::time::Duration;

use crate::error::LostReason;
use crate::rules::time::millis_up;
use crate::rules::token::Token;

pub(crate) fn granted(name: &str, token: Token, waited: Duration) {
    #[cfg(feature = "tracing")]
    tracing::debug!(
        lease.name = name,
        lease.token = %token,
        lease.waited_ms = millis_up(waited),
        "lease granted"
    );
}

pub(crate) fn renewed(name: &str, token: Token, remaining: Duration) {
    #[cfg(feature = "tracing")]
    tracing::trace!(
        lease.name = name,
        lease.token = %token,
        lease.remaining_ms = millis_up(remaining),
        "lease renewed"
    );
}

pub(crate) fn renewal_failed(name: &str, token: Token, remaining: Duration, reason: &str) {
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
    #[cfg(feature = "tracing")]
    tracing::error!(lease.name = name, lease.token = %token, %reason, "lease lost");
}

pub(crate) fn released(name: &str, token: Token) {
    #[cfg(feature = "tracing")]
    tracing::debug!(lease.name = name, lease.token = %token, "lease released");
}

pub(crate) fn not_given_back(leases: usize, reason: &str) {
    #[cfg(feature = "tracing")]
    tracing::warn!(leases, reason, "leases could not be given back, and are left to expire");
}
