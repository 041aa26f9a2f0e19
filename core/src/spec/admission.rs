//! Admission: who counts, how many waiters fit, and the document after their admission.

use super::*;
use crate::rules::permits::LIMIT_MAX;

/// The holders in the list that a write keeps: those that have not expired, and the caller.
pub(super) fn kept<T: Types>(
    document: &Document<T>,
    caller: Option<&AcquireAttempt<T>>,
    now: i64,
    protections: &impl Protections,
) -> Vec<Holder<T>> {
    let mut holders = document.sharers();
    let has_expired = |holder: &Holder<T>| holder.expires_at <= now;
    let removes_all = !protections.removes_expired_only() && holders.iter().any(has_expired);
    let is_removed = |holder: &Holder<T>| removes_all || has_expired(holder);
    holders.retain(|it| !is_removed(it) || caller.is_some_and(|caller| caller.is_holder(it)));
    holders
}

/// The entries that count, in order: the live ones whose waiters hold nothing, and the caller's own, because the caller
/// lives.
pub(super) fn line<T: Types>(
    document: &Document<T>,
    kept: &[Holder<T>],
    caller: Option<&AcquireAttempt<T>>,
    now: i64,
) -> Vec<Entry<T>> {
    let counts = |entry: &&Entry<T>| {
        let holds = || kept.iter().any(|holder| holder.grant.value == entry.value);
        caller.is_some_and(|it| it.owns(&entry.value)) || entry.is_live(document, now) && !holds()
    };
    document.queue.entries().filter(counts).cloned().collect()
}

/// When a holder expires first, and so makes room.
pub(super) fn first_expiry<T: Types>(document: &Document<T>) -> Expiry {
    let first = document.sharers().iter().map(|holder| holder.expires_at).min();
    first.map_or(document.expiry, Expiry::At)
}

/// The time from which a grant to the caller counts.
///
/// A promotion counts from the newest heartbeat. A grant to an attempt counts from no earlier moment: where `now` is
/// older, it counts from that heartbeat, with its echo.
pub(super) fn asked_from<T: Types>(
    own: &Entry<T>,
    now: i64,
    protections: &impl Protections,
) -> i64 {
    let heartbeat_at = own.heartbeat_at;
    if heartbeat_at > now { protections.taken_over_from(now, heartbeat_at) } else { now }
}

/// The state of a lease in which a write may admit waiters.
pub(super) struct Room<'a, T: Types, P> {
    /// The holders in the list that stay.
    pub(super) kept: Vec<Holder<T>>,
    /// Whether anybody may be admitted: the lease is free, its grant ends, or several hold it.
    pub(super) is_open: bool,
    /// The caller, where it asks to be admitted. It is alive, so it gets its whole ttl.
    pub(super) asker: Option<&'a T::Value>,
    pub(super) now: i64,
    pub(super) protections: &'a P,
}

impl<T: Types, P: Protections> Room<'_, T, P> {
    /// The document after an attempt of an exclusive caller, which is in the line: the lease is its own, or it waits.
    /// Where others wait for a free lease, the first of them is told to come. It gets no grant: nobody knows whether
    /// its process still runs.
    pub(super) fn taken(self, before: Document<T>, line: Vec<Entry<T>>) -> Document<T> {
        let first = line.first().filter(|_| self.is_open);
        if first.is_some_and(|first| self.is_asker(first)) {
            return self.filled(before, line);
        }
        let told = first.map(|first| Promoted::Recheck { id: first.id.clone() });
        let queue = queue::after(&before.queue, line);
        Document { queue, promoted: told.or(before.promoted), ..before }
    }

    /// The document after the admission of as many waiters as fit. `line` are the entries that count, in order.
    ///
    /// A waiter for an exclusive lease gets the plain form of the document, without the earlier holders: each later
    /// command would carry them until the document is deleted.
    pub(super) fn filled(self, before: Document<T>, line: Vec<Entry<T>>) -> Document<T> {
        let (admitted, rest) = self.fitting(line);
        match admitted.first() {
            Some(head) if head.limit == 1 => {
                let told = Promoted::Entry { id: head.id.clone(), sent: head.sent };
                Document {
                    value: Some(head.value.clone()),
                    expiry: Expiry::At(self.until(head)),
                    grant: Some(head.grant(self.now, before.writes() + 1)),
                    queue: queue::after(&before.queue, rest),
                    promoted: if self.is_asker(head) { before.promoted } else { Some(told) },
                    holders: Holders::Absent,
                    ..before
                }
            }
            Some(_) | None => self.shared_by(&admitted, before, rest),
        }
    }

    /// The document with these waiters beside the holders that stay, or without a holder.
    fn shared_by(
        self,
        admitted: &[Entry<T>],
        before: Document<T>,
        rest: Vec<Entry<T>>,
    ) -> Document<T> {
        let others = admitted.iter().filter(|entry| !self.is_asker(entry));
        let told = others.map(|entry| {
            let (id, sent) = (entry.id.clone(), entry.sent);
            Admission { id, sent, until: self.until(entry) }
        });
        let told: Vec<_> = told.collect();
        let new = admitted.iter().map(|entry| {
            let (permits, limit) = (entry.permits, entry.limit);
            let (grant, expires_at) = (entry.grant(self.now, 1), self.until(entry));
            Holder { grant, expires_at, permits, limit }
        });
        let holders: Vec<_> = self.kept.iter().cloned().chain(new).collect();
        let expiries: Vec<i64> = holders.iter().map(|holder| holder.expires_at).collect();
        let first = rest.first().map(|entry| Promoted::Recheck { id: entry.id.clone() });
        let queue = queue::after(&before.queue, rest);
        let Some(until) = self.protections.shared_expiry(&expiries) else {
            // An acquire always has a caller, which is in the line. So this is a release.
            let frees = self.is_open && self.protections.frees_without_waiter();
            let after = Document { queue, ..before };
            return if frees { after.freed() } else { after };
        };
        // A release tells the first waiter where it admits nobody and the lease ends earlier than before.
        let is_told = self.asker.is_none()
            && admitted.is_empty()
            && Expiry::At(until) < before.expiry
            && self.protections.tells_of_earlier_end();
        Document {
            value: Some(T::shared()),
            expiry: Expiry::At(until),
            holders: Holders::of(holders.into_iter().map(HolderElement::Holder).collect()),
            queue,
            promoted: first.filter(|_| is_told).or(before.promoted),
            admitted: if told.is_empty() { before.admitted } else { told },
            ..before
        }
    }

    /// The entries that are admitted, and the others, both in order.
    fn fitting(&self, line: Vec<Entry<T>>) -> (Vec<Entry<T>>, Vec<Entry<T>>) {
        if !self.is_open {
            return (Vec::new(), line);
        }
        let mut in_use: i64 = self.kept.iter().map(|holder| holder.permits).sum();
        let limits = self.kept.iter().map(|holder| holder.limit);
        let mut limit = limits.fold(LIMIT_MAX.into(), i64::min);
        let (mut admitted, mut rest) = (Vec::new(), Vec::new());
        for entry in self.protections.in_order(line) {
            let with_it = in_use + entry.permits;
            let its_limit = self.protections.limit_in_force(limit, entry.limit);
            let has_turn = rest.is_empty() || !self.protections.admits_in_order();
            if has_turn && with_it <= its_limit {
                (in_use, limit) = (with_it, its_limit);
                admitted.push(entry);
            } else {
                rest.push(entry);
            }
        }
        (admitted, rest)
    }

    fn is_asker(&self, entry: &Entry<T>) -> bool {
        self.asker == Some(&entry.value)
    }

    /// Until when an admission lasts for the server.
    ///
    /// A waiter that sent no command for it may have died since its last heartbeat, so it gets no more than the life of
    /// its entry. It counts from that heartbeat where `now` is older.
    fn until(&self, entry: &Entry<T>) -> i64 {
        let (from, term) = if self.is_asker(entry) {
            (asked_from(entry, self.now, self.protections), entry.ttl)
        } else {
            let term = entry.ttl.min(entry.expires_at - entry.heartbeat_at).max(0);
            (self.protections.promoted_from(self.now, entry.heartbeat_at), term)
        };
        from + term + entry.max_clock_skew
    }
}

impl<T: Types> Document<T> {
    /// The document without a holder. It is free by every clock, as a tombstone is. Its grant stays and describes
    /// nobody, because its value is not the document's.
    fn freed(self) -> Document<T> {
        let (value, expiry) = (Some(T::nobody()), Expiry::At(LONG_AGO));
        Document { value, expiry, holders: Holders::Absent, ..self }
    }
}
