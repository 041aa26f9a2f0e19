//! Renew, guard and resume: each prolongs one grant, which it names.

use super::document::{Document, Expiry, Grant, GrantKey};
use super::protections::Protections;
use super::types::Types;

/// Prolongs one grant to its ttl from now, and says whether it was there.
///
/// A grant that has expired is still there while nobody else was granted the lease. The holder decides by its own clock
/// whether it may believe the answer.
pub(crate) fn renew<T: Types>(
    found: Option<Document<T>>,
    key: &GrantKey<T>,
    now: i64,
    sent: i64,
    protections: &impl Protections,
) -> (Option<Document<T>>, bool) {
    match found {
        Some(document) if document.shows(key) && matches!(document.expiry, Expiry::At(_)) => {
            (Some(prolonged(document, now, sent, protections)), true)
        }
        found => (found, false),
    }
}

/// The document that a transaction with a guard will commit. `None` where the lease is not the caller's.
///
/// The transaction writes to the lease's document, so it conflicts with a grant to another. A read, or a write that
/// changes nothing, would not. Without the longer expiry, a take-over that waits for the commit would win right after
/// it.
pub(crate) fn guard<T: Types>(
    found: Option<Document<T>>,
    key: &GrantKey<T>,
    now: i64,
    sent: i64,
    protections: &impl Protections,
) -> Option<Document<T>> {
    let (after, is_there) = renew(found, key, now, sent, protections);
    after.filter(|_| is_there)
}

/// Resumes a grant that has not expired, under a fresh id: then the key is used up. A grant that was resumed under that
/// id already is found again, because the reply may have been lost.
///
/// With the key's own id as the fresh one, the grant is renewed and its key stays valid. A `ttl` replaces that of the
/// grant.
pub(crate) fn resume<T: Types>(
    found: Option<Document<T>>,
    key: &GrantKey<T>,
    fresh: T::GrantId,
    ttl: Option<i64>,
    now: i64,
    sent: i64,
    protections: &impl Protections,
) -> (Option<Document<T>>, bool) {
    let resumed = GrantKey { value: key.value.clone(), id: fresh.clone() };
    match found {
        Some(mut document)
            if matches!(document.expiry, Expiry::At(at) if at > now)
                && (document.shows(key) || document.shows(&resumed)) =>
        {
            document.grant = document.grant.map(|grant| Grant {
                id: fresh,
                ttl: ttl.unwrap_or(grant.ttl),
                ..grant
            });
            (Some(prolonged(document, now, sent, protections)), true)
        }
        found => (found, false),
    }
}

fn prolonged<T: Types>(
    mut document: Document<T>,
    now: i64,
    sent: i64,
    protections: &impl Protections,
) -> Document<T> {
    if let Some(grant) = &mut document.grant {
        let until = now + grant.ttl + grant.max_clock_skew;
        document.expiry = protections.renewed(document.expiry, until);
        grant.sent = sent;
        grant.writes += 1;
    }
    document
}
