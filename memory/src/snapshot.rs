//! The lease document as replies show it.

use super::*;

/// The document of this name, as a projection shows it.
pub(crate) fn read(leases: &Collection<'_>, name: &str) -> Option<LeaseSnapshot> {
    leases.get(name).map(|document| snapshot(name, document, leases.now_ms()))
}

/// The same after an upsert, which leaves a document.
pub(crate) fn read_or_empty(leases: &Collection<'_>, name: &str) -> LeaseSnapshot {
    let empty = LeaseDocument::empty();
    snapshot(name, leases.get(name).unwrap_or(&empty), leases.now_ms())
}

/// The lease in the reply to this call. For a call for permits, every holder in the document counts, and the time is
/// that until the first one expires.
pub(crate) fn of_reply(leases: &Collection<'_>, call: &AcquireRequest) -> LeaseInfo {
    let mut info = read_or_empty(leases, &call.name).info;
    if call.permits.is_exclusive() || !info.shared {
        return info;
    }
    let sharers = leases.get(&call.name).map(LeaseDocument::sharers).unwrap_or_default();
    info.count_permits(sharers.iter().map(|holder| (small(holder.permits), small(holder.limit))));
    if let Some(first) = sharers.iter().map(|holder| holder.expires_at).min() {
        info.remaining = Some(from_millis(first.saturating_sub(leases.now_ms())));
    }
    info
}

fn snapshot(name: &str, document: &LeaseDocument, now_ms: i64) -> LeaseSnapshot {
    let (state, expires_at) = match document.expiry {
        Expiry::At(at) if at > now_ms => (LeaseState::Held, Some(at)),
        Expiry::At(at) => (LeaseState::Free, Some(at)),
        Expiry::Absent => (LeaseState::Free, None),
        // Nothing here writes a foreign type.
        Expiry::Damaged => (LeaseState::Damaged { found: "unknown".to_owned() }, None),
    };
    let (name, value) = (name.to_owned(), document.value.clone());
    let mut info = LeaseInfo::without_grant(name, value, state, expires_at, Some(now_ms));
    info.waiting = u32::try_from(document.queue.entries().count()).unwrap_or(u32::MAX);
    let grant = document.holders_grant();
    if let Some(grant) = grant {
        info.owner = Some(grant.details.owner.clone());
        info.acquired_at = DateTime::from_timestamp_millis(grant.acquired_at);
        info.metadata = grant.details.metadata.clone();
        info.grant_id = Some(grant.id.clone());
    }
    LeaseSnapshot {
        info,
        ttl_ms: grant.map(|grant| grant.ttl),
        sent: grant.map(|grant| grant.sent),
        server_ms: Some(now_ms),
    }
}

/// The same, with the holders that have not expired.
pub(crate) fn with_holders(name: &str, document: &LeaseDocument, now_ms: i64) -> LeaseSnapshot {
    let mut seen = snapshot(name, document, now_ms);
    if seen.info.shared {
        let sharers = document.sharers().into_iter();
        let live = sharers.filter(|holder| holder.expires_at > now_ms);
        seen.info.set_holders(live.map(|holder| shown(holder, now_ms)).collect());
    }
    seen
}

fn shown(Holder { grant, expires_at, permits, limit }: Holder<Texts>, now_ms: i64) -> LeaseHolder {
    let (permits, limit) = (small(permits), small(limit));
    let grant_id = Some(grant.id.clone());
    let mut shown = LeaseHolder::without_grant(grant.value, permits, limit, expires_at, now_ms);
    shown.owner = Some(grant.details.owner.clone());
    shown.acquired_at = DateTime::from_timestamp_millis(grant.acquired_at);
    shown.metadata = grant.details.metadata.clone();
    shown.grant_id = grant_id;
    shown
}
