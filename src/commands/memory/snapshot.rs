//! The lease document as replies show it.

use chrono::DateTime;

use crate::commands::snapshot::LeaseSnapshot;
use crate::info::{LeaseInfo, LeaseState};
use crate::memory::{Collection, LeaseDocument};
use crate::rules::time::from_millis;
use crate::spec::Expiry;

/// The document of this name, as a projection shows it.
pub(super) fn read(leases: &Collection<'_>, name: &str) -> Option<LeaseSnapshot> {
    leases.get(name).map(|document| snapshot(name, document, leases.now_ms()))
}

/// The same after an upsert, which leaves a document.
pub(super) fn read_or_empty(leases: &Collection<'_>, name: &str) -> LeaseSnapshot {
    let empty = LeaseDocument::empty();
    read(leases, name).unwrap_or_else(|| snapshot(name, &empty, leases.now_ms()))
}

pub(super) fn snapshot(name: &str, document: &LeaseDocument, now_ms: i64) -> LeaseSnapshot {
    let grant = document.holders_grant();
    let at = match document.expiry {
        Expiry::At(at) => Some(at),
        Expiry::Absent | Expiry::Damaged => None,
    };
    let state = match document.expiry {
        Expiry::At(at) if at > now_ms => LeaseState::Held,
        Expiry::At(_) | Expiry::Absent => LeaseState::Free,
        // Nothing here writes a foreign type.
        Expiry::Damaged => LeaseState::Damaged { found: "unknown".to_owned() },
    };
    let info = LeaseInfo {
        name: name.to_owned(),
        value: document.value.clone(),
        state,
        owner: grant.map(|grant| grant.details.owner.clone()),
        acquired_at: grant.and_then(|grant| DateTime::from_timestamp_millis(grant.acquired_at)),
        expires_at: at.and_then(DateTime::from_timestamp_millis),
        remaining: at.map(|at| from_millis((at - now_ms).max(0))),
        waiting: u32::try_from(document.queue.entries().count()).unwrap_or(u32::MAX),
        metadata: grant.map(|grant| grant.details.metadata.clone()).unwrap_or_default(),
        held_here: false,
    };
    LeaseSnapshot {
        info,
        grant_id: grant.map(|grant| grant.id.clone()),
        ttl_ms: grant.map(|grant| grant.ttl),
        sent: grant.map(|grant| grant.sent),
    }
}
