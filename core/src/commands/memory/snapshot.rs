//! The lease document as replies show it.

use crate::rules::time::from_millis;
use crate::spec::Expiry;
use crate::spec::Holder;
use chrono::DateTime;

use crate::commands::snapshot::{LeaseSnapshot, small};
use crate::info::{LeaseHolder, LeaseInfo, LeaseState};
use crate::memory::{Collection, LeaseDocument, Texts};

/// The document of this name, as a projection shows it.
pub(super) fn read(leases: &Collection<'_>, name: &str) -> Option<LeaseSnapshot> {
    leases.get(name).map(|document| snapshot(name, document, leases.now_ms()))
}

/// The same after an upsert, which leaves a document.
pub(super) fn read_or_empty(leases: &Collection<'_>, name: &str) -> LeaseSnapshot {
    let empty = LeaseDocument::empty();
    read(leases, name).unwrap_or_else(|| snapshot(name, &empty, leases.now_ms()))
}

/// The same in the reply to a call for permits: every holder in the document counts.
pub(super) fn read_with_counts(leases: &Collection<'_>, name: &str) -> LeaseSnapshot {
    let mut seen = read_or_empty(leases, name);
    if seen.info.shared {
        let sharers = leases.get(name).map(LeaseDocument::sharers).unwrap_or_default();
        let each = sharers.iter().map(|holder| (small(holder.permits), small(holder.limit)));
        seen.info.count_permits(each);
    }
    seen
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
    let shared = state != LeaseState::Free && document.is_in_shared_use();
    let (in_use, limit) = LeaseInfo::plain_counts(&state, shared);
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
        shared,
        in_use,
        limit,
        holders: Vec::new(),
    };
    LeaseSnapshot {
        info,
        grant_id: grant.map(|grant| grant.id.clone()),
        ttl_ms: grant.map(|grant| grant.ttl),
        sent: grant.map(|grant| grant.sent),
        server_ms: Some(now_ms),
    }
}

/// The same, with the holders that have not expired.
pub(super) fn with_holders(name: &str, document: &LeaseDocument, now_ms: i64) -> LeaseSnapshot {
    let mut seen = snapshot(name, document, now_ms);
    if seen.info.shared {
        let sharers = document.sharers().into_iter();
        let live = sharers.filter(|holder| holder.expires_at > now_ms);
        seen.info.set_holders(live.map(|holder| shown(holder, now_ms)).collect());
    }
    seen
}

fn shown(holder: Holder<Texts>, now_ms: i64) -> LeaseHolder {
    LeaseHolder {
        value: holder.grant.value,
        owner: Some(holder.grant.details.owner),
        permits: small(holder.permits),
        limit: small(holder.limit),
        acquired_at: DateTime::from_timestamp_millis(holder.grant.acquired_at),
        expires_at: DateTime::from_timestamp_millis(holder.expires_at),
        remaining: from_millis(holder.expires_at.saturating_sub(now_ms)),
        metadata: holder.grant.details.metadata,
        held_here: false,
    }
}
