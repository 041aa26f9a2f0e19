//! How many waiters fit, and the document after their admission.

use super::super::document::{Document, Entry, Expiry, Promoted, Queue};
use super::super::holders::{Admission, Holder, Holders, LIMIT_MAX, Share};
use super::super::release::{self, LONG_AGO};
use super::super::types::Types;
use super::protections::PermitProtections;

/// The state of a lease in which a write may admit waiters.
pub(super) struct Room<'a, T: Types> {
    /// The holders that stay.
    pub(super) kept: Vec<Holder<T>>,
    /// Whether anybody may be admitted: the lease is in shared use, or free.
    pub(super) is_open: bool,
    /// The caller, where it asks to be admitted. It is alive, so it gets its whole ttl.
    pub(super) asker: Option<&'a T::Value>,
    pub(super) now: i64,
}

impl<T: Types> Entry<T> {
    /// The share that the waiter asks for. An entry without a share asks for an exclusive lease.
    pub(super) fn asked(&self) -> Share {
        self.share.unwrap_or(Share::EXCLUSIVE)
    }
}

impl<T: Types> Room<'_, T> {
    /// The document after the admission of as many waiters as fit. `line` are the entries that count, in order.
    ///
    /// A waiter for an exclusive lease gets the document in the form of exclusive leases, without the earlier holders:
    /// each later command would carry them until the document is deleted.
    pub(super) fn filled(
        self,
        before: Document<T>,
        line: Vec<Entry<T>>,
        protections: &impl PermitProtections,
    ) -> Document<T> {
        let (admitted, rest) = self.fitting(line, protections);
        if let Some(first) = admitted.first().filter(|first| first.asked().limit == 1) {
            let until = self.until(first, protections);
            let after =
                release::promoted(before, first.clone(), rest.clone(), self.now, protections);
            let (expiry, queue, holders) = (Expiry::At(until), Queue::of(rest), Holders::Absent);
            return Document { expiry, queue, holders, ..after };
        }
        let is_told = |entry: &&Entry<T>| Some(&entry.value) != self.asker;
        let told: Vec<_> = admitted
            .iter()
            .filter(is_told)
            .map(|entry| Admission {
                id: entry.id.clone(),
                sent: entry.sent,
                until: self.until(entry, protections),
            })
            .collect();
        let new = admitted.iter().map(|entry| self.holder(entry, protections));
        let holders: Vec<_> = self.kept.iter().cloned().chain(new).collect();
        let expiries: Vec<i64> = holders.iter().map(|holder| holder.expires_at).collect();
        let recheck = self.recheck(&before, &admitted, &rest, &expiries, protections);
        let queue = Queue::of(rest);
        match protections.shared_expiry(&expiries) {
            Some(until) => Document {
                value: Some(T::shared()),
                expiry: Expiry::At(until),
                holders: Holders::of(holders),
                queue,
                promoted: recheck.or(before.promoted),
                admitted: if told.is_empty() { before.admitted } else { told },
                ..before
            },
            None if self.is_open => ended(before),
            None => Document { queue, ..before },
        }
    }

    /// The message of a release to the first waiter, where it admits nobody and the lease ends earlier than before.
    fn recheck(
        &self,
        before: &Document<T>,
        admitted: &[Entry<T>],
        rest: &[Entry<T>],
        expiries: &[i64],
        protections: &impl PermitProtections,
    ) -> Option<Promoted<T>> {
        let until = protections.shared_expiry(expiries)?;
        let is_release = self.asker.is_none() && protections.tells_of_earlier_end();
        let is_told = is_release && admitted.is_empty() && Expiry::At(until) < before.expiry;
        let head = rest.first().filter(|_| is_told)?;
        Some(Promoted::Recheck { id: head.id.clone() })
    }

    /// The entries that are admitted, and the others, both in order.
    fn fitting(
        &self,
        line: Vec<Entry<T>>,
        protections: &impl PermitProtections,
    ) -> (Vec<Entry<T>>, Vec<Entry<T>>) {
        if !self.is_open {
            return (Vec::new(), line);
        }
        let mut in_use: i64 = self.kept.iter().map(|holder| holder.share.permits).sum();
        let limits = self.kept.iter().map(|holder| holder.share.limit);
        let mut limit = limits.min().unwrap_or(LIMIT_MAX).min(LIMIT_MAX);
        let (mut admitted, mut rest) = (Vec::new(), Vec::new());
        for entry in line {
            let share = entry.asked();
            let (with_it, its_limit) =
                (in_use + share.permits, protections.limit_in_force(limit, share.limit));
            let has_turn = rest.is_empty() || !protections.admits_in_order();
            if has_turn && with_it <= its_limit {
                (in_use, limit) = (with_it, its_limit);
                admitted.push(entry);
            } else {
                rest.push(entry);
            }
        }
        (admitted, rest)
    }

    fn holder(&self, entry: &Entry<T>, protections: &impl PermitProtections) -> Holder<T> {
        Holder {
            value: entry.value.clone(),
            id: entry.id.clone(),
            sent: entry.sent,
            acquired_at: self.now,
            expires_at: self.until(entry, protections),
            ttl: entry.ttl,
            max_clock_skew: entry.max_clock_skew,
            share: entry.asked(),
            writes: 1,
            details: entry.details.clone(),
        }
    }

    /// Until when an admission lasts for the server.
    ///
    /// A waiter that sent no command for it may have died since its last heartbeat, so it gets no more than the life of
    /// its entry. It counts from that heartbeat where `now` is older.
    fn until(&self, entry: &Entry<T>, protections: &impl PermitProtections) -> i64 {
        let (from, term) = match self.asker == Some(&entry.value) {
            true => (self.now.max(entry.heartbeat_at), entry.ttl),
            false => (
                protections.promoted_from(self.now, entry.heartbeat_at),
                entry.ttl.min(entry.expires_at - entry.heartbeat_at).max(0),
            ),
        };
        from + term + entry.max_clock_skew
    }
}

/// The document without a holder and without a queue. It is free by every clock, as a tombstone is.
fn ended<T: Types>(before: Document<T>) -> Document<T> {
    Document {
        value: Some(T::nobody()),
        expiry: Expiry::At(LONG_AGO),
        holders: Holders::Absent,
        queue: Queue::Absent,
        ..before
    }
}
