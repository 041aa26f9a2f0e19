//! Acquire: an upsert whose pipeline grants the lease if it is free.

use std::sync::Arc;
use std::time::Duration;

use mongodb::bson::{Bson, Document, doc};

use super::queue::{self, QueueWaiter};
use super::snapshot::{self, LeaseSnapshot};
use super::{
    echo, grant_field, is_date, literal, majority, one_more_write, path, simple_collation, token,
};
use crate::commands::Command;
use crate::commands::failure::Cause;
use crate::info::{LeaseInfo, LeaseState};
use crate::rules::ids::{CallId, GrantId};
use crate::rules::slots::Lane;
use crate::rules::time::{Instant, millis_up};
use crate::rules::timing::Timing;
use crate::rules::token::Token;
use crate::schema::{self, entry, grant};

/// What one acquire call asks for; the same for all of its attempts.
#[derive(Clone, Debug)]
pub(crate) struct AcquireRequest {
    pub(crate) name: String,
    pub(crate) value: String,
    /// Begins with the manager's id, and is of this call alone, also where the caller chose the value.
    pub(crate) call_id: CallId,
    pub(crate) owner: String,
    pub(crate) metadata: Document,
    pub(crate) timing: Timing,
    /// Whether the server has an oplog, from which tokens come.
    pub(crate) has_oplog: bool,
    /// How the call waits in line; nothing when it does not.
    pub(crate) joins: Option<QueueOptions>,
}

/// How a call waits in line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct QueueOptions {
    /// How long the entry counts after a sign of life.
    pub(crate) life: Duration,
    /// The most entries of a queue.
    pub(crate) queue_max: u32,
}

/// One attempt of a call.
#[derive(Clone, Debug)]
pub(crate) struct FullAcquire {
    pub(crate) request: Arc<AcquireRequest>,
    pub(crate) attempt: u32,
    /// The value of a call of this process that has given up: its place in line is this call's, and what it was granted
    /// meanwhile as well. Nobody believes in that.
    pub(crate) predecessor: Option<String>,
}

/// What the server answered.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum AcquireReply {
    /// The lease is ours.
    Granted(Granted),
    /// Somebody has it, or nobody can say who.
    Refused(Refused),
    /// The short form could not tell, or did not do all that the call asks for.
    UseFullForm {
        /// Whether it may have granted all the same.
        maybe_granted: bool,
    },
}

impl AcquireReply {
    /// Whether the answer says that the document was written to.
    pub(crate) fn has_written(&self) -> bool {
        match self {
            AcquireReply::Granted(_) => true,
            AcquireReply::Refused(refused) => refused.ahead.is_some(),
            AcquireReply::UseFullForm { .. } => false,
        }
    }
}

/// A refusal.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Refused {
    /// When it was asked.
    pub(crate) sent: Instant,
    pub(crate) info: LeaseInfo,
    /// How many stand before us, where we stand in line.
    pub(crate) ahead: Option<u32>,
    /// When it was carried out, by the oplog.
    pub(crate) at: Option<Token>,
}

/// A grant.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Granted {
    /// When the attempt that found us granted was sent: validity counts from here.
    pub(crate) sent: Instant,
    /// The attempt that was granted, which need not be the one that is answered.
    pub(crate) grant_id: GrantId,
    /// `None` where the server has no oplog: then a tick has to follow.
    pub(crate) token: Option<Token>,
    pub(crate) info: LeaseInfo,
}

impl Command for FullAcquire {
    type Reply = AcquireReply;

    fn lane(&self) -> Lane {
        Lane::Acquire
    }

    fn build(&self, collection: &str, sent: Instant) -> Document {
        let mut fields = snapshot::projection();
        if self.request.joins.is_some() {
            fields.insert(AHEAD, queue::place(&self.request.value));
        }
        let query = doc! { schema::NAME: &self.request.name };
        upsert(collection, query, self.granted_or_in_line(sent), fields)
    }

    fn decode(&self, reply: &Document, sent: Instant) -> Result<AcquireReply, Cause> {
        let document = reply
            .get_document("value")
            .map_err(|_| Cause::Reply("the reply to an acquire contains no document".to_owned()))?;
        let LeaseSnapshot { mut info, grant_id, .. } = snapshot::read(document);
        // Another program's name may be equal to ours without being a text: a symbol, or a list with ours in it.
        info.name.clone_from(&self.request.name);
        let is_ours = info.value.as_deref() == Some(&self.request.value);
        match grant_id {
            Some(grant_id) if is_ours && !matches!(info.state, LeaseState::Damaged { .. }) => {
                let token =
                    if self.request.has_oplog { Some(token::of_reply(reply)?) } else { None };
                Ok(AcquireReply::Granted(Granted { sent, grant_id, token, info }))
            }
            Some(_) | None => {
                // It is -1 when we are not there.
                let ahead = document.get_i32(AHEAD).ok().and_then(|ahead| ahead.try_into().ok());
                let at = token::of_reply(reply).ok();
                Ok(AcquireReply::Refused(Refused { sent, info, ahead, at }))
            }
        }
    }
}

/// One upsert that replaces the document, and is answered with these fields of what stands there then.
pub(super) fn upsert(
    collection: &str,
    query: Document,
    replacement: Document,
    fields: Document,
) -> Document {
    doc! {
        "findAndModify": collection,
        "query": query,
        "update": [{ "$replaceWith": replacement }],
        "upsert": true,
        "new": true,
        "fields": fields,
        // Refused by the server when the index has gone: without it, two upserts could both win.
        "hint": { schema::NAME: 1 },
        "collation": simple_collation(),
        "writeConcern": majority(),
    }
}

/// How many stand before us.
const AHEAD: &str = "ahead";

/// The variables of the pipeline.
const LINE: &str = "$$line";
const PLACE: &str = "$$place";
const OLD: &str = "$$old";

impl FullAcquire {
    fn waiter(&self) -> QueueWaiter<'_> {
        QueueWaiter { value: &self.request.value, predecessor: self.predecessor.as_deref() }
    }

    /// The document as it is to be: granted to us if it was free and nobody comes before us; else with us in line, if
    /// we mean to wait; else unchanged, which writes nothing.
    fn granted_or_in_line(&self, sent: Instant) -> Document {
        let waiter = self.waiter();
        let is_held_by = |value: &str| doc! { "$eq": [path(schema::VALUE), literal(value)] };
        let is_our_turn = doc! {
            "$or": ["$$mine", { "$eq": [PLACE, 0] }, { "$eq": [LINE, []] }],
        };
        let (mine, ours) = match waiter.predecessor {
            None => {
                (is_held_by(&self.request.value), doc! { "$and": [is_free("$$mine"), is_our_turn] })
            }
            // What a call was granted that has given up is free for its successor alone.
            Some(predecessor) => {
                let inherited = is_held_by(predecessor);
                let is_our_turn = doc! { "$or": [is_our_turn, &inherited] };
                let is_free = is_free(doc! { "$or": ["$$mine", inherited] });
                (is_held_by(&self.request.value), doc! { "$and": [is_free, is_our_turn] })
            }
        };
        let changes = match self.request.joins {
            None => doc! { "$cond": [ours, self.granted(sent), {}] },
            Some(joins) => doc! { "$cond": [ours, self.granted(sent), self.in_line(joins, sent)] },
        };
        let old = queue::entry_at(LINE, PLACE);
        let changes = doc! { "$let": { "vars": { "old": old, "mine": mine }, "in": changes } };
        let place = queue::place_in(LINE, waiter);
        let changes = doc! { "$let": { "vars": { "place": place }, "in": changes } };
        let changes = doc! { "$let": { "vars": { "line": queue::line(waiter) }, "in": changes } };
        doc! { "$mergeObjects": ["$$ROOT", changes] }
    }

    /// What a grant changes. It counts from the waiter's newest sign of life where `$$NOW` is older than that: the
    /// waiter may believe from its echo on.
    fn granted(&self, sent: Instant) -> Document {
        let AcquireRequest { value, timing, .. } = self.request.as_ref();
        let lasts = millis_up(timing.ttl + timing.max_clock_skew);
        let vars = doc! {
            "until": { "$add": [queue::beat_at(OLD), lasts] },
            "sent": queue::echo_of(OLD, echo(sent)),
        };
        let granted_to_me = doc! { "$eq": [path(&grant_field(grant::VALUE)), literal(value)] };
        let changes = doc! {
            schema::VALUE: literal(value),
            // What is ours already is only ever prolonged: `$$NOW` may be older than that of an attempt that overtook.
            schema::EXPIRES_AT: {
                "$cond": ["$$mine", { "$max": [path(schema::EXPIRES_AT), "$$until"] }, "$$until"],
            },
            schema::GRANT: {
                "$cond": [
                    { "$and": ["$$mine", granted_to_me] },
                    { "$mergeObjects": [path(schema::GRANT), again(&self.request)] },
                    anew(&self.request, &self.request.call_id.grant(self.attempt), "$$sent"),
                ],
            },
        };
        // An empty list is left where there was one: it is as good as none, and goes with the document.
        let rest = doc! { schema::QUEUE: queue::others(LINE, self.waiter()) };
        let rest = doc! { "$cond": [{ "$isArray": [path(schema::QUEUE)] }, rest, {}] };
        doc! { "$let": { "vars": vars, "in": { "$mergeObjects": [changes, rest] } } }
    }

    /// What changes when it is not free.
    fn in_line(&self, joins: QueueOptions, sent: Instant) -> Document {
        let mut entry = doc! {
            entry::VALUE: literal(&self.request.value),
            entry::ID: self.entry_id(),
            entry::TTL_MS: Bson::Int64(millis_up(self.request.timing.ttl)),
            entry::MAX_CLOCK_SKEW_MS: Bson::Int64(millis_up(self.request.timing.max_clock_skew)),
            entry::OWNER: literal(&self.request.owner),
            entry::META: literal(self.request.metadata.clone()),
        };
        entry.extend(queue::heartbeat_fields(OLD, echo(sent), millis_up(joins.life)));
        let has_room = doc! { "$lt": [{ "$size": LINE }, i64::from(joins.queue_max)] };
        // Damage is nobody's to change.
        let is_sound = doc! {
            "$in": [{ "$type": path(schema::EXPIRES_AT) }, ["date", "missing", "null"]],
        };
        let may_join = doc! {
            "$and": [is_sound, { "$or": [{ "$gte": [PLACE, 0] }, has_room] }],
        };
        let joined = queue::joined(LINE, PLACE, self.waiter(), entry);
        doc! { "$cond": [may_join, { schema::QUEUE: joined }, {}] }
    }

    /// The id of the entry: the first one that it got, unless it was the predecessor's.
    fn entry_id(&self) -> Document {
        let id = literal(self.request.call_id.grant(self.attempt).as_str());
        let old = format!("{OLD}.{}", entry::ID);
        match self.predecessor {
            None => doc! { "$ifNull": [old, id] },
            Some(_) => {
                let value = format!("{OLD}.{}", entry::VALUE);
                doc! { "$cond": [{ "$eq": [value, literal(&self.request.value)] }, old, id] }
            }
        }
    }
}

/// No expiry, or one in the past, or ours. An expiry that is no date is damage, and nobody's to take.
fn is_free(is_ours: impl Into<Bson>) -> Document {
    let absent = doc! { "$in": [{ "$type": path(schema::EXPIRES_AT) }, ["missing", "null"]] };
    let expired = doc! { "$lte": [path(schema::EXPIRES_AT), "$$NOW"] };
    let known = doc! { "$or": [expired, is_ours.into()] };
    doc! { "$or": [absent, { "$and": [is_date(schema::EXPIRES_AT), known] }] }
}

/// A new grant, with this echo.
pub(super) fn anew(
    request: &AcquireRequest,
    grant_id: &GrantId,
    sent: impl Into<Bson>,
) -> Document {
    doc! {
        grant::VALUE: literal(&request.value),
        grant::ID: literal(grant_id.as_str()),
        grant::SENT: sent.into(),
        grant::OWNER: literal(&request.owner),
        grant::ACQUIRED_AT: "$$NOW",
        grant::TTL_MS: Bson::Int64(millis_up(request.timing.ttl)),
        grant::MAX_CLOCK_SKEW_MS: Bson::Int64(millis_up(request.timing.max_clock_skew)),
        grant::META: literal(request.metadata.clone()),
        grant::WRITES: one_more_write(),
    }
}

/// What changes when the value is found to be ours already. The id of the grant stays, and the longest ttl counts:
/// who was granted it may believe in it.
fn again(request: &AcquireRequest) -> Document {
    let longest = |field: &str, duration| {
        doc! { "$max": [path(&grant_field(field)), millis_up(duration)] }
    };
    let Timing { ttl, max_clock_skew, .. } = request.timing;
    doc! {
        grant::SENT: "$$sent",
        grant::TTL_MS: longest(grant::TTL_MS, ttl),
        grant::MAX_CLOCK_SKEW_MS: longest(grant::MAX_CLOCK_SKEW_MS, max_clock_skew),
        grant::WRITES: one_more_write(),
    }
}
