//! Admit: an acquire under a limit above 1.

use super::super::acquire::AcquireReply;
use super::super::document::{Document, Entry, Expiry, Queue};
use super::super::fast_acquire::FastReply;
use super::super::holders::{Holder, Share};
use super::super::queue::own_entry;
use super::super::release::GrantMatch;
use super::super::request::AcquireRequest;
use super::super::types::Types;
use super::fitting::Room;
use super::protections::PermitProtections;

/// The request of one attempt of an acquire call for permits.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct AdmitRequest<T: Types> {
    /// The request. Its call inherits no entry: each call for a share has an entry of its own.
    pub acquire: AcquireRequest<T>,
    /// The call of this attempt.
    pub call: T::CallId,
    /// The permits that it asks for, and its limit.
    pub share: Share,
}

impl<T: Types> AdmitRequest<T> {
    fn is_own(&self, value: &T::Value) -> bool {
        *value == self.acquire.value
    }

    /// The caller's grant after another attempt that found it: it is only prolonged.
    fn again(&self, holder: Holder<T>, now: i64) -> Holder<T> {
        let (AcquireRequest { ttl, max_clock_skew, sent, .. }, found) = (&self.acquire, &holder);
        Holder {
            expires_at: found.expires_at.max(self.acquire.lasts_until(now)),
            sent: *sent,
            ttl: found.ttl.max(*ttl),
            max_clock_skew: found.max_clock_skew.max(*max_clock_skew),
            writes: found.writes + 1,
            ..holder
        }
    }

    /// The caller's entry, as it joins the queue or stays there.
    fn entry(
        &self,
        old: Option<&Entry<T>>,
        now: i64,
        protections: &impl PermitProtections,
    ) -> Entry<T> {
        let request = &self.acquire;
        let life = request.joins.map_or(request.ttl, |joins| joins.life);
        let share = Some(self.share);
        let Some(old) = old else {
            return Entry { share, ..own_entry(request, now, now + life, request.sent) };
        };
        let Entry { heartbeat_at, expires_at, sent, id, .. } =
            old.after_heartbeat(request.sent, now, life, protections);
        Entry { share, id, ..own_entry(request, heartbeat_at, expires_at, sent) }
    }
}

/// Admits as many waiters as fit, and the caller behind them if it fits too. Otherwise a call that may wait joins the
/// queue.
///
/// A caller that holds already finds its own grant: this is how a repeated attempt finds the grant of an attempt whose
/// reply was lost. An attempt that may not wait and is not admitted changes nothing.
pub fn admit<T: Types>(
    found: Option<Document<T>>,
    request: &AdmitRequest<T>,
    now: i64,
    protections: &impl PermitProtections,
) -> (Option<Document<T>>, AcquireReply<T>) {
    // The upsert makes an empty document, and the pipeline finds it.
    let before = found.unwrap_or_else(Document::empty);
    let value = &request.acquire.value;
    let kept = kept(&before, Some(request), now, protections);
    // Another call may have the same value, if its user chose it, and relies on its exclusive grant.
    let own = match protections.replaces_grants_of_its_call_alone() {
        true => GrantMatch::Call(request.call.clone(), None),
        false => GrantMatch::Any,
    };
    let is_own_lease = own.is_shown_by(&before, value) && matches!(before.expiry, Expiry::At(_));
    let is_free = before.expiry.has_passed(now)
        || is_own_lease && protections.replaces_own_exclusive_grant(request.share.limit);
    let is_open = is_free || !kept.is_empty();
    let is_holder =
        protections.attempt_finds_own() && kept.iter().any(|holder| request.is_own(&holder.value));
    let line = line(&before, &kept, Some(value), now);
    let place = line.iter().position(|entry| request.is_own(&entry.value));
    let (length, had_entry) = (line.len(), place.is_some());
    let line = match (is_holder, place) {
        (true, _) => line.into_iter().filter(|entry| !request.is_own(&entry.value)).collect(),
        (false, Some(place)) => {
            let own = request.entry(Some(&line[place]), now, protections);
            let each = |entry: Entry<T>| {
                if request.is_own(&entry.value) { own.clone() } else { entry }
            };
            line.into_iter().map(each).collect()
        }
        (false, None) => {
            let own = request.entry(None, now, protections);
            line.into_iter().chain([own]).collect()
        }
    };
    let again = |holder: Holder<T>| match request.is_own(&holder.value) {
        true => request.again(holder, now),
        false => holder,
    };
    let kept = kept.into_iter().map(again).collect();
    let room = Room { kept, is_open, asker: Some(value), now };
    let after = room.filled(before.clone(), line, protections);
    let id = own_grant(&after, value);
    let may_wait = request.acquire.joins.is_some_and(|joins| {
        before.expiry != Expiry::Damaged && (had_entry || length < joins.queue_max)
    });
    let after = if id.is_some() || may_wait { after } else { before };
    let reply = match id {
        Some(id) => AcquireReply::Granted(id),
        None => AcquireReply::Refused {
            ahead: request.acquire.joins.and_then(|_| after.queue.position(value)),
            remaining: first_expiry(&after).remaining(now),
        },
    };
    (Some(after), reply)
}

/// Admits the caller beside the holders if nobody is in the queue, dead or alive, and it fits; else changes nothing.
///
/// It must not admit a caller that holds already: a late first attempt finds the grant of the second one.
pub fn fast_admit<T: Types>(
    found: Option<Document<T>>,
    request: &AdmitRequest<T>,
    now: i64,
    protections: &impl PermitProtections,
) -> (Option<Document<T>>, FastReply) {
    let before = found.unwrap_or_else(Document::empty);
    let kept = kept(&before, None, now, protections);
    let is_open = before.expiry.has_passed(now) || !kept.is_empty();
    let is_holder = kept.iter().any(|holder| request.is_own(&holder.value));
    let is_twice = is_holder && protections.fast_attempt_finds_own();
    let own = request.entry(None, now, protections);
    let room = Room { kept, is_open, asker: Some(&request.acquire.value), now };
    let beside_holders = room.filled(before.clone(), vec![own], protections);
    let is_admitted = !has_queue(&before.queue) && !is_twice && beside_holders.queue.is_empty();
    let after = match is_admitted {
        true => Document { queue: before.queue, ..beside_holders },
        false => before,
    };
    let reply = fast_admit_reply(&after, request, now);
    (Some(after), reply)
}

/// The answer to a fast attempt, from the document after it.
pub fn fast_admit_reply<T: Types>(
    found: &Document<T>,
    request: &AdmitRequest<T>,
    now: i64,
) -> FastReply {
    let value = &request.acquire.value;
    let own = found.sharers().into_iter().find(|holder| holder.value == *value);
    let is_attempts = own.as_ref().is_some_and(|holder| holder.id == request.acquire.id);
    let is_held_by_caller = own.is_some() || found.is_held_by(value);
    let may_wait = request.acquire.joins.is_some();
    match found.expiry {
        Expiry::At(_) if is_attempts => FastReply::Granted,
        // Behind a dead entry there may be room, and only the full form removes it.
        Expiry::At(at)
            if at > now && !is_held_by_caller && !may_wait && !has_queue(&found.queue) =>
        {
            FastReply::Refused { remaining: first_expiry(found).remaining(now).unwrap_or(0) }
        }
        Expiry::At(_) | Expiry::Absent | Expiry::Damaged => FastReply::UseFullForm,
    }
}

/// Whether a queue, valid or corrupt, leaves a fast attempt to the full form.
fn has_queue<T: Types>(queue: &Queue<T>) -> bool {
    matches!(queue, Queue::Damaged) || !queue.is_empty()
}

/// The holders in shared use that a write keeps: those that have not expired, and the caller.
fn kept<T: Types>(
    document: &Document<T>,
    caller: Option<&AdmitRequest<T>>,
    now: i64,
    protections: &impl PermitProtections,
) -> Vec<Holder<T>> {
    let mut holders = document.sharers();
    let is_callers = |holder: &Holder<T>| caller.is_some_and(|it| it.is_own(&holder.value));
    let has_expired = |holder: &Holder<T>| holder.expires_at <= now;
    if !protections.removes_expired_only() && holders.iter().any(has_expired) {
        holders.retain(is_callers);
    }
    holders.retain(|holder| !has_expired(holder) || is_callers(holder));
    holders
}

/// The entries that count, in order: the live ones whose waiters hold nothing, and the caller's own.
pub(super) fn line<T: Types>(
    document: &Document<T>,
    kept: &[Holder<T>],
    caller: Option<&T::Value>,
    now: i64,
) -> Vec<Entry<T>> {
    let waits = |entry: &Entry<T>| {
        entry.is_live(document, now) && kept.iter().all(|holder| holder.value != entry.value)
    };
    let counts = |entry: &&Entry<T>| {
        entry.asked().is_valid() && (Some(&entry.value) == caller || waits(entry))
    };
    document.queue.entries().filter(counts).cloned().collect()
}

/// The grant by which this value holds permits.
fn own_grant<T: Types>(document: &Document<T>, value: &T::Value) -> Option<T::GrantId> {
    let own = document.sharers().into_iter().find(|holder| holder.value == *value);
    own.map(|holder| holder.id)
}

/// When a holder expires first, and so makes room.
fn first_expiry<T: Types>(document: &Document<T>) -> Expiry {
    let first = document.sharers().iter().map(|holder| holder.expires_at).min();
    first.map_or(document.expiry, Expiry::At)
}
