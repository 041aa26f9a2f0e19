//! Renew, guard and resume: each prolongs the grants that it names.

use super::*;

/// Prolongs one grant for this long from now, and says whether it was there. `lasts` is the holder's own ttl with its
/// maximum clock skew.
///
/// A grant that has expired is still there while nobody else was granted the lease. The holder decides by its own clock
/// whether it may believe the answer.
pub fn renew<T: Types>(
    found: Option<Document<T>>,
    key: &OwnGrant<T>,
    lasts: i64,
    now: i64,
    sent: i64,
    protections: &impl Protections,
) -> (Option<Document<T>>, bool) {
    match found {
        Some(document) if document.shows(key) && matches!(document.expiry, Expiry::At(_)) => {
            (Some(prolonged(document, lasts, now, sent, protections)), true)
        }
        found => (found, false),
    }
}

/// The document that a transaction with a guard will commit. `None` where the lease is not the caller's.
///
/// The transaction writes to the lease's document, so it conflicts with a grant to another. A read, or a write that
/// changes nothing, would not. Without the longer expiry, a take-over that waits for the commit would win right after
/// it.
pub fn guard<T: Types>(
    found: Option<Document<T>>,
    key: &OwnGrant<T>,
    lasts: i64,
    now: i64,
    sent: i64,
    protections: &impl Protections,
) -> Option<Document<T>> {
    let (after, is_there) = renew(found, key, lasts, now, sent, protections);
    after.filter(|_| is_there).map(counted)
}

/// Resumes a grant that has not expired, under a fresh id: then the key is used up. A grant that was resumed under that
/// id already is found again, because the reply may have been lost.
///
/// With the key's own id as the fresh one, the grant is renewed and its key stays valid.
pub fn resume<T: Types>(
    found: Option<Document<T>>,
    key: &OwnGrant<T>,
    fresh: T::GrantId,
    terms: ResumeTerms,
    now: i64,
    sent: i64,
    protections: &impl Protections,
) -> (Option<Document<T>>, bool) {
    let resumed = OwnGrant { value: key.value.clone(), id: fresh.clone() };
    match found {
        Some(mut document)
            if matches!(document.expiry, Expiry::At(at) if at > now)
                && (document.shows(key) || document.shows(&resumed)) =>
        {
            let stored = document.grant.as_ref().map_or(0, |grant| grant.ttl);
            let (ttl, max_clock_skew) = (terms.ttl_for(stored), terms.max_clock_skew);
            document.grant =
                document.grant.map(|grant| Grant { id: fresh, ttl, max_clock_skew, ..grant });
            let lasts = ttl + max_clock_skew;
            (Some(counted(prolonged(document, lasts, now, sent, protections))), true)
        }
        found => (found, false),
    }
}

/// How long a resumed grant lasts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ResumeTerms {
    /// The ttl from now on. `None` keeps that of the document.
    pub ttl: Option<i64>,
    /// The ttl where that of the document is damaged.
    pub default_ttl: i64,
    /// The maximum clock skew of the caller.
    pub max_clock_skew: i64,
    /// The shortest and the longest ttl. One in the document beyond these is damaged.
    pub bounds: (i64, i64),
}

impl ResumeTerms {
    /// The ttl from now on, where the document has this one.
    fn ttl_for(self, stored: i64) -> i64 {
        let (shortest, longest) = self.bounds;
        let is_sound = (shortest..=longest).contains(&stored);
        self.ttl.unwrap_or(if is_sound { stored } else { self.default_ttl })
    }
}

fn prolonged<T: Types>(
    mut document: Document<T>,
    lasts: i64,
    now: i64,
    sent: i64,
    protections: &impl Protections,
) -> Document<T> {
    if let Some(grant) = &mut document.grant {
        let until = now.saturating_add(protections.renewed_for(grant.lasts(), lasts));
        document.expiry = protections.renewed(document.expiry, until);
        grant.sent = sent;
    }
    document
}

/// The document with one write more.
fn counted<T: Types>(mut document: Document<T>) -> Document<T> {
    document.grant.iter_mut().for_each(|grant| grant.writes += 1);
    document
}

/// Prolongs each of these grants beside others for its time from now, and says whether all of them were there.
/// Otherwise it changes nothing: the answer to an update counts documents, and a process that has several grants of one
/// lease must not be told that its renewal matched while one of them is gone.
///
/// A grant that has expired is still there while no write has removed it.
pub fn renew_holders<T: Types>(
    found: Option<Document<T>>,
    grants: &[(T::GrantId, i64)],
    now: i64,
    sent: i64,
    protections: &impl Protections,
) -> (Option<Document<T>>, bool) {
    let (mut document, expiry) = match found {
        Some(document) if has_all(&document, grants) => match document.expiry {
            Expiry::At(expiry) => (document, expiry),
            Expiry::Absent | Expiry::Damaged => return (Some(document), false),
        },
        found => return (found, false),
    };
    let prolonged = |old: i64, stored: i64, lasts: i64| {
        let lasts = protections.renewed_for(stored, lasts);
        protections.permit_renewed(old, now.saturating_add(lasts))
    };
    for element in document.holders.elements_mut() {
        let shown = element.shown().1;
        let Some(&(_, lasts)) = grants.iter().find(|(id, _)| Some(id) == shown) else {
            continue;
        };
        match element {
            HolderElement::Holder(holder) => {
                holder.expires_at = prolonged(holder.expires_at, holder.grant.lasts(), lasts);
                holder.grant.sent = sent;
            }
            HolderElement::Damaged(DamagedHolder { expires_at: Some(at), .. }) => {
                *at = prolonged(*at, 0, lasts);
            }
            HolderElement::Damaged(_) => {}
        }
    }
    let latest = document.holders.elements().iter().filter_map(HolderElement::expires_at).max();
    let latest = protections.permit_renewed(expiry, latest.unwrap_or(expiry));
    (Some(Document { expiry: Expiry::At(latest), ..document }), true)
}

/// Whether the document shows all of these grants beside others. Each element that is a document has to have an expiry
/// that is a date.
fn has_all<T: Types>(document: &Document<T>, grants: &[(T::GrantId, i64)]) -> bool {
    let elements = document.holders.elements();
    let is_dated = |element: &HolderElement<T>| match element {
        HolderElement::Holder(_) => true,
        HolderElement::Damaged(damaged) => damaged.expires_at.is_some() || !damaged.is_document,
    };
    let is_there = |id| elements.iter().any(|element| element.shown().1 == Some(id));
    document.is_in_shared_use()
        && elements.iter().all(is_dated)
        && !grants.is_empty()
        && grants.iter().all(|(id, _)| is_there(id))
}

impl<T: Types> Grant<T> {
    /// How long the server counts it, by the numbers in the document.
    fn lasts(&self) -> i64 {
        self.ttl.saturating_add(self.max_clock_skew)
    }
}
