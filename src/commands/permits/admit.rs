//! Admit: upserts that admit a call for permits, in the full form and in the fast one.

use std::sync::Arc;

use mongo_lease_core::format::{self, entry, grant, holder};
use mongo_lease_core::rules::permits::Permits;
use mongo_lease_core::rules::slots::Lane;
use mongo_lease_core::rules::time::{Instant, millis_up};
use mongodb::bson::{Bson, Document, doc};

use super::admit_reply::{AHEAD, HAS_QUEUE, fast_projection, projection, read};
use super::fitting::Filling;
use super::release::id_conditions;
use super::{
    EACH, ELEMENTS, KEPT, has_no_holder, is_of, is_shared, is_unexpired, line, of_each, of_kept,
    with, with_elements,
};
use crate::commands::acquire::{AcquireReply, AcquireRequest, Refused, upsert};
use crate::commands::failure::Cause;
use crate::commands::release::GrantMatch;
use crate::commands::snapshot::LeaseSnapshot;
use crate::commands::{
    Command, echo, grant_field, has_sound_expiry, is_date, literal, now_plus, one_more, path,
    queue, token,
};
use crate::info::LeaseState;

/// One attempt of a call for permits. Its effect is `spec::permits::admit`.
///
/// Not for the limit 1: a late attempt of an exclusive holder would give its lease to a waiter.
#[derive(Clone, Debug)]
pub(crate) struct Admit {
    pub(crate) request: Arc<AcquireRequest>,
    pub(crate) permits: Permits,
    pub(crate) attempt: u32,
}

/// The first attempt of such a call, whose value is new. Its effect is `spec::permits::fast_admit`, and its reply that
/// of `spec::permits::fast_admit_reply`.
#[derive(Clone, Debug)]
pub(crate) struct FastAdmit {
    pub(crate) request: Arc<AcquireRequest>,
    pub(crate) permits: Permits,
    pub(crate) attempt: u32,
}

/// The variables: the caller's place in the line, its old entry, and its new one.
const LINE: &str = "$$callers";
const PLACE: &str = "$$place";
const OLD: &str = "$$old";
const ME: &str = "$$me";

impl Command for Admit {
    type Reply = AcquireReply;

    fn lane(&self) -> Lane {
        Lane::Acquire
    }

    fn build(&self, collection: &str, sent: Instant) -> Document {
        let mut fields = projection(&self.request.value);
        if self.request.joins.is_some() {
            fields.insert(AHEAD, queue::index_of(&self.request.value));
        }
        let query = doc! { format::NAME: &self.request.name };
        upsert(collection, query, self.admitted_or_queued(sent), fields)
    }

    fn decode(&self, reply: &Document, sent: Instant) -> Result<AcquireReply, Cause> {
        let found = read(reply, &self.request)?;
        let token = token::of_reply(reply);
        match found.own {
            Some(own) => {
                let token = if self.request.has_oplog { Some(token?) } else { None };
                Ok(own.granted(sent, token, found.snapshot.info, self.permits))
            }
            None => {
                let LeaseSnapshot { info, server_ms, .. } = found.snapshot;
                let (ahead, at) = (found.ahead, token.ok());
                Ok(AcquireReply::Refused(Refused { sent, info, ahead, at, server_ms }))
            }
        }
    }
}

impl Admit {
    /// The same as the first attempt of a call.
    pub(crate) fn fast(self) -> FastAdmit {
        let Admit { request, permits, attempt } = self;
        FastAdmit { request, permits, attempt }
    }

    /// The new document: with this call among the holders, or in the queue, or unchanged.
    fn admitted_or_queued(&self, sent: Instant) -> Document {
        let value = &self.request.value;
        let mine = is_of(value);
        let others = queue::filter(LINE, doc! { "$not": &mine });
        let each = doc! { "$cond": [&mine, ME, EACH] };
        let in_place = doc! { "$map": { "input": LINE, "as": "entry", "in": each } };
        let at_the_end = doc! { "$concatArrays": [LINE, [ME]] };
        let joined = doc! { "$cond": [{ "$gte": [PLACE, 0] }, in_place, at_the_end] };
        let holds = doc! { "$in": [literal(value), of_kept(holder::VALUE)] };
        let filling = Filling {
            line: doc! { "$cond": [holds, others, joined] },
            asker: Some(value),
            refreshed: self.refreshed(sent).into(),
            nobody: doc! { format::QUEUE: "$$rest" },
        };
        let changes = filling.changes(|changes| self.if_allowed(changes));
        let changes = with("me", self.entry(sent), changes);
        let changes = with("old", queue::entry_at(LINE, PLACE), changes);
        let place = doc! { "$indexOfArray": [format!("{LINE}.{}", entry::VALUE), literal(value)] };
        let changes = with("place", place, changes);
        let is_any = doc! { "$gt": [{ "$size": KEPT }, 0] };
        let open = doc! { "$or": [has_no_holder(), self.is_handed_over(), is_any] };
        let vars = doc! { "callers": line(Some(mine.clone())), "open": open };
        let changes = doc! { "$let": { "vars": vars, "in": changes } };
        let stays = doc! { "$or": [is_unexpired(), mine] };
        let changes = with_elements(with("kept", kept(stays), changes));
        doc! { "$mergeObjects": ["$$ROOT", changes] }
    }

    /// A condition: an older version has handed the whole lease to this call, which never relies on that grant.
    ///
    /// Not to another call with the same value, if its user chose it: that one may rely on it.
    fn is_handed_over(&self) -> Document {
        let is_value = doc! { "$eq": [path(format::VALUE), literal(&self.request.value)] };
        let own = GrantMatch::Call { call_id: self.request.call_id.clone(), except: None };
        let mut all = vec![is_date(format::EXPIRES_AT), is_value];
        all.extend(id_conditions(&own, &path(&grant_field(grant::ID))));
        doc! { "$and": all }
    }

    /// The changes, if this call is admitted or may be in the queue.
    fn if_allowed(&self, changes: Document) -> Document {
        let is_admitted =
            doc! { "$in": [literal(&self.request.value), format!("$$all.{}", holder::VALUE)] };
        let Some(joins) = self.request.joins else {
            return doc! { "$cond": [is_admitted, changes, {}] };
        };
        let has_room = doc! { "$lt": [{ "$size": LINE }, i64::from(joins.queue_max)] };
        let may_join = doc! { "$or": [{ "$gte": [PLACE, 0] }, has_room, is_admitted] };
        doc! { "$cond": [{ "$and": [has_sound_expiry(), may_join] }, changes, {}] }
    }

    /// This call's entry.
    fn entry(&self, sent: Instant) -> Document {
        let AcquireRequest { timing, joins, .. } = self.request.as_ref();
        let life = joins.map_or(timing.ttl, |joins| joins.life);
        let id = literal(self.request.call_id.grant(self.attempt).as_str());
        let mut entry = doc! {
            entry::VALUE: literal(&self.request.value),
            entry::ID: { "$ifNull": [format!("{OLD}.{}", entry::ID), id] },
            entry::TTL_MS: Bson::Int64(millis_up(timing.ttl)),
            entry::MAX_CLOCK_SKEW_MS: Bson::Int64(millis_up(timing.max_clock_skew)),
            entry::OWNER: literal(&*self.request.owner),
            entry::METADATA: literal(self.request.metadata.clone()),
            entry::PERMITS: Bson::Int64(self.permits.count().into()),
            entry::LIMIT: Bson::Int64(self.permits.limit().into()),
        };
        entry.extend(queue::heartbeat_fields(OLD, echo(sent), millis_up(life)));
        entry
    }

    /// The holders that stay. A grant that is ours already is only ever prolonged.
    fn refreshed(&self, sent: Instant) -> Document {
        let timing = &self.request.timing;
        let longest = |field: &str, duration| {
            doc! { "$max": [of_each(field), Bson::Int64(millis_up(duration))] }
        };
        let until = now_plus(timing.ttl + timing.max_clock_skew);
        let again = doc! {
            holder::EXPIRES_AT: { "$max": [of_each(holder::EXPIRES_AT), until] },
            holder::SENT_MICROS: echo(sent),
            holder::TTL_MS: longest(holder::TTL_MS, timing.ttl),
            holder::MAX_CLOCK_SKEW_MS: longest(holder::MAX_CLOCK_SKEW_MS, timing.max_clock_skew),
            holder::WRITES: one_more(&of_each(holder::WRITES)),
        };
        let again = doc! { "$mergeObjects": [EACH, again] };
        let each = doc! { "$cond": [is_of(&self.request.value), again, EACH] };
        doc! { "$map": { "input": KEPT, "as": "entry", "in": each } }
    }
}

impl Command for FastAdmit {
    type Reply = AcquireReply;

    fn lane(&self) -> Lane {
        Lane::Acquire
    }

    fn build(&self, collection: &str, sent: Instant) -> Document {
        let query = doc! { format::NAME: &self.request.name };
        let id = self.request.call_id.grant(self.attempt);
        let mut fields = fast_projection(&self.request.value, id.as_str());
        fields.insert(HAS_QUEUE, doc! { "$not": has_no_queue() });
        upsert(collection, query, self.admitted_or_unchanged(sent), fields)
    }

    fn decode(&self, reply: &Document, sent: Instant) -> Result<AcquireReply, Cause> {
        let found = read(reply, &self.request)?;
        let token = if self.request.has_oplog { Some(token::of_reply(reply)?) } else { None };
        let id = self.request.call_id.grant(self.attempt);
        let is_of_this_value = found.snapshot.info.value.as_ref() == Some(&self.request.value);
        let LeaseSnapshot { info, server_ms, .. } = found.snapshot;
        let is_held = info.state == LeaseState::Held;
        match found.own {
            Some(own) if own.id == id => Ok(own.granted(sent, token, info, self.permits)),
            None if is_held
                && !is_of_this_value
                && !found.has_queue
                && self.request.joins.is_none() =>
            {
                Ok(AcquireReply::Refused(Refused { sent, info, ahead: None, at: token, server_ms }))
            }
            Some(_) | None => Ok(AcquireReply::UseFullForm { maybe_granted: false }),
        }
    }
}

impl FastAdmit {
    fn admitted_or_unchanged(&self, sent: Instant) -> Document {
        let AcquireRequest { value, timing, .. } = self.request.as_ref();
        let (permits, limit) = (i64::from(self.permits.count()), i64::from(self.permits.limit()));
        let own = doc! {
            holder::VALUE: literal(value),
            holder::ID: literal(self.request.call_id.grant(self.attempt).as_str()),
            holder::SENT_MICROS: echo(sent),
            holder::OWNER: literal(&*self.request.owner),
            holder::ACQUIRED_AT: "$$NOW",
            holder::EXPIRES_AT: now_plus(timing.ttl + timing.max_clock_skew),
            holder::TTL_MS: Bson::Int64(millis_up(timing.ttl)),
            holder::MAX_CLOCK_SKEW_MS: Bson::Int64(millis_up(timing.max_clock_skew)),
            holder::METADATA: literal(self.request.metadata.clone()),
            holder::PERMITS: Bson::Int64(permits),
            holder::LIMIT: Bson::Int64(limit),
            holder::WRITES: 1_i64,
        };
        let admitted = doc! {
            format::VALUE: format::SHARED_VALUE,
            format::HOLDERS: "$$all",
            format::EXPIRES_AT: { "$max": format!("$$all.{}", holder::EXPIRES_AT) },
        };
        let admitted = with("all", doc! { "$concatArrays": [KEPT, [own]] }, admitted);
        let limits = doc! { "$concatArrays": [of_kept(holder::LIMIT), [limit]] };
        let in_use = doc! { "$add": [{ "$sum": of_kept(holder::PERMITS) }, permits] };
        let fits = doc! {
            "$and": [
                has_no_queue(),
                // A late first attempt finds the grant of the second one.
                { "$not": { "$in": [literal(value), of_kept(holder::VALUE)] } },
                { "$or": [has_no_holder(), { "$gt": [{ "$size": KEPT }, 0] }] },
                { "$lte": [in_use, { "$min": limits }] },
            ],
        };
        let changes = doc! { "$cond": [fits, admitted, {}] };
        let changes = with_elements(with("kept", kept(is_unexpired()), changes));
        doc! { "$mergeObjects": ["$$ROOT", changes] }
    }
}

/// A condition: the queue is missing or empty. Any element, dead or corrupt, leaves the call to the full form.
fn has_no_queue() -> Document {
    doc! { "$in": [{ "$ifNull": [path(format::QUEUE), []] }, [[]]] }
}

/// The holders that fit this condition, where the lease is in shared use.
fn kept(stays: Document) -> Document {
    doc! { "$cond": [is_shared(), queue::filter(ELEMENTS, stays), []] }
}
