//! Full acquire: an upsert whose pipeline grants the lease if it is free.

use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};
use mongo_lease_core::format::{self, entry, grant};
use mongo_lease_core::rules::ids::{CallId, GrantId};
use mongo_lease_core::rules::permits::Permits;
use mongo_lease_core::rules::slots::Lane;
use mongo_lease_core::rules::time::{Instant, millis_up};
use mongo_lease_core::rules::timing::Timing;
use mongodb::bson::{Bson, Document, doc};

use super::queue::{self, QueueWaiter};
use super::snapshot::{self, LeaseSnapshot};
use super::{
    echo, grant_field, has_sound_expiry, is_date, literal, majority, one_more_write, path,
    simple_collation, token,
};
use crate::commands::Command;
use crate::commands::failure::Cause;
use crate::info::{LeaseInfo, LeaseState};
use crate::token::Token;

/// The request of one acquire call, the same for all of its attempts.
#[derive(Clone, Debug)]
pub(crate) struct AcquireRequest {
    pub(crate) name: String,
    pub(crate) value: String,
    /// Begins with the manager's id. Unique to this call, even where the caller chose the value.
    pub(crate) call_id: CallId,
    /// Shared by the calls of the manager, unless the caller chose the label.
    pub(crate) owner: Arc<str>,
    pub(crate) metadata: Document,
    pub(crate) timing: Arc<Timing>,
    /// Whether the server has an oplog, which provides the tokens.
    pub(crate) has_oplog: bool,
    /// How the call waits in the queue; `None` when it does not wait.
    pub(crate) joins: Option<QueueOptions>,
}

/// How a call waits in the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct QueueOptions {
    /// How long the queue entry counts after a heartbeat.
    pub(crate) life: Duration,
    /// The most entries that a queue may have.
    pub(crate) queue_max: u32,
}

/// One attempt of a call. Its effect is `spec::acquire`.
#[derive(Clone, Debug)]
pub(crate) struct FullAcquire {
    pub(crate) request: Arc<AcquireRequest>,
    pub(crate) attempt: u32,
    /// The value of an earlier call of this process that gave up. This call inherits its queue entry, and any grant
    /// that it got meanwhile. No lease relies on that grant.
    pub(crate) predecessor: Option<String>,
}

/// The server's answer to an attempt.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum AcquireReply {
    /// The lease is granted to this call.
    Granted(Granted),
    /// Another holder has the lease, or the document does not show who has it.
    Refused(Refused),
    /// The fast-path acquire could not tell, or could not do all that the call needs.
    UseFullForm {
        /// Whether the fast-path acquire may have granted the lease all the same.
        maybe_granted: bool,
    },
}

impl AcquireReply {
    /// Whether the answer shows that the document was written to.
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
    /// When the attempt was sent.
    pub(crate) sent: Instant,
    pub(crate) info: LeaseInfo,
    /// How many entries are ahead of this call's in the queue; `None` when it is not queued.
    pub(crate) ahead: Option<u32>,
    /// When the attempt was carried out, by the oplog.
    pub(crate) at: Option<Token>,
    /// The same by the server's clock, in milliseconds.
    pub(crate) server_ms: Option<i64>,
}

/// A grant.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Granted {
    /// When the attempt was sent whose answer showed the grant: validity counts from here.
    pub(crate) sent: Instant,
    /// The attempt that was granted, which need not be the one whose answer showed it.
    pub(crate) grant_id: GrantId,
    /// `None` where the server has no oplog: then a `StandaloneToken` command has to follow.
    pub(crate) token: Option<Token>,
    pub(crate) info: LeaseInfo,
    /// The caller's own part of a lease in shared use.
    pub(crate) share: Option<GrantedShare>,
}

impl Granted {
    /// The permits of the grant, where the call asked for these, and when it expires.
    pub(crate) fn terms(&self, asked: Permits) -> (Permits, Option<DateTime<Utc>>) {
        match &self.share {
            Some(share) => (share.permits, share.expires_at),
            None => (asked, self.info.expires_at),
        }
    }
}

/// The part of one holder in a lease in shared use.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct GrantedShare {
    /// Those of its record, which an earlier call with the same value may have made.
    pub(crate) permits: Permits,
    /// The document may expire later, with another holder.
    pub(crate) expires_at: Option<DateTime<Utc>>,
}

impl Command for FullAcquire {
    type Reply = AcquireReply;

    fn lane(&self) -> Lane {
        Lane::Acquire
    }

    fn build(&self, collection: &str, sent: Instant) -> Document {
        let mut fields = snapshot::projection();
        if self.request.joins.is_some() {
            fields.insert(AHEAD, queue::index_of(&self.request.value));
        }
        let query = doc! { format::NAME: &self.request.name };
        upsert(collection, query, self.granted_or_queued(sent), fields)
    }

    fn decode(&self, reply: &Document, sent: Instant) -> Result<AcquireReply, Cause> {
        let document = reply
            .get_document("value")
            .map_err(|_| Cause::Reply("the reply to an acquire contains no document".to_owned()))?;
        let LeaseSnapshot { mut info, grant_id, server_ms, .. } = snapshot::read(document);
        // Another program's name may match ours without being a string: a symbol, or an array that contains ours.
        info.name.clone_from(&self.request.name);
        let is_ours = info.value.as_deref() == Some(&self.request.value);
        match grant_id {
            Some(grant_id) if is_ours && !matches!(info.state, LeaseState::Damaged { .. }) => {
                let token =
                    if self.request.has_oplog { Some(token::of_reply(reply)?) } else { None };
                Ok(AcquireReply::Granted(Granted { sent, grant_id, token, info, share: None }))
            }
            Some(_) | None => {
                // It is -1 when this call is not in the queue.
                let ahead = document.get_i32(AHEAD).ok().and_then(|ahead| ahead.try_into().ok());
                let at = token::of_reply(reply).ok();
                Ok(AcquireReply::Refused(Refused { sent, info, ahead, at, server_ms }))
            }
        }
    }
}

/// One upsert that replaces the document. The reply shows `fields` of the new document.
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
        // The server refuses the hint when the index is missing: without the index, two upserts could both win.
        "hint": { format::NAME: 1 },
        "collation": simple_collation(),
        "writeConcern": majority(),
    }
}

/// How many entries are ahead of this call's.
const AHEAD: &str = "ahead";

/// The variables of the pipeline.
const LINE: &str = "$$line";
const PLACE: &str = "$$place";
const OLD: &str = "$$old";

impl FullAcquire {
    fn waiter(&self) -> QueueWaiter<'_> {
        QueueWaiter { value: &self.request.value, predecessor: self.predecessor.as_deref() }
    }

    /// The new document, in one of three forms.
    ///
    /// Granted to this call if the lease is free and no live waiter comes first; else with this call in the queue, if
    /// it waits; else unchanged, which writes nothing.
    fn granted_or_queued(&self, sent: Instant) -> Document {
        let waiter = self.waiter();
        let is_held_by = |value: &str| doc! { "$eq": [path(format::VALUE), literal(value)] };
        let is_our_turn = doc! {
            "$or": ["$$mine", { "$eq": [PLACE, 0] }, { "$eq": [LINE, []] }],
        };
        let (mine, ours) = match waiter.predecessor {
            None => {
                (is_held_by(&self.request.value), doc! { "$and": [is_free("$$mine"), is_our_turn] })
            }
            // A grant to a call that has given up is free for its successor alone.
            Some(predecessor) => {
                let inherited = is_held_by(predecessor);
                let is_our_turn = doc! { "$or": [is_our_turn, &inherited] };
                let is_free = is_free(doc! { "$or": ["$$mine", inherited] });
                (is_held_by(&self.request.value), doc! { "$and": [is_free, is_our_turn] })
            }
        };
        let changes = match self.request.joins {
            None => doc! { "$cond": [ours, self.granted(sent), {}] },
            Some(joins) => doc! { "$cond": [ours, self.granted(sent), self.queued(joins, sent)] },
        };
        let old = queue::entry_at(LINE, PLACE);
        let changes = doc! { "$let": { "vars": { "old": old, "mine": mine }, "in": changes } };
        let place = queue::index_in(LINE, waiter);
        let changes = doc! { "$let": { "vars": { "place": place }, "in": changes } };
        let changes =
            doc! { "$let": { "vars": { "line": queue::live_entries(waiter) }, "in": changes } };
        doc! { "$mergeObjects": ["$$ROOT", changes] }
    }

    /// The fields that a grant changes. It counts from the waiter's newest heartbeat where `$$NOW` is older than that,
    /// because the waiter relies on the lease from the echo of that heartbeat on.
    fn granted(&self, sent: Instant) -> Document {
        let AcquireRequest { value, timing, .. } = self.request.as_ref();
        let lasts = millis_up(timing.ttl + timing.max_clock_skew);
        let vars = doc! {
            "until": { "$add": [queue::heartbeat_at(OLD), lasts] },
            "sent": queue::echo_of(OLD, echo(sent)),
        };
        let granted_to_me = doc! { "$eq": [path(&grant_field(grant::VALUE)), literal(value)] };
        let changes = doc! {
            format::VALUE: literal(value),
            // A grant that is ours already is only ever prolonged: `$$NOW` may be older than that of an attempt that
            // overtook.
            format::EXPIRES_AT: {
                "$cond": ["$$mine", { "$max": [path(format::EXPIRES_AT), "$$until"] }, "$$until"],
            },
            format::GRANT: {
                "$cond": [
                    { "$and": ["$$mine", granted_to_me] },
                    { "$mergeObjects": [path(format::GRANT), again(&self.request)] },
                    anew(&self.request, &self.request.call_id.grant(self.attempt), "$$sent"),
                ],
            },
        };
        // An existing list stays, even if empty: it is as good as none, and goes with the document.
        let rest = doc! { format::QUEUE: queue::others(LINE, self.waiter()) };
        let rest = doc! { "$cond": [{ "$isArray": [path(format::QUEUE)] }, rest, {}] };
        doc! { "$let": { "vars": vars, "in": { "$mergeObjects": [changes, rest] } } }
    }

    /// The fields that change when the lease is not free.
    fn queued(&self, joins: QueueOptions, sent: Instant) -> Document {
        let mut entry = doc! {
            entry::VALUE: literal(&self.request.value),
            entry::ID: self.entry_id(),
            entry::TTL_MS: Bson::Int64(millis_up(self.request.timing.ttl)),
            entry::MAX_CLOCK_SKEW_MS: Bson::Int64(millis_up(self.request.timing.max_clock_skew)),
            entry::OWNER: literal(&*self.request.owner),
            entry::METADATA: literal(self.request.metadata.clone()),
        };
        entry.extend(queue::heartbeat_fields(OLD, echo(sent), millis_up(joins.life)));
        let has_room = doc! { "$lt": [{ "$size": LINE }, i64::from(joins.queue_max)] };
        let may_join = doc! {
            "$and": [has_sound_expiry(), { "$or": [{ "$gte": [PLACE, 0] }, has_room] }],
        };
        let joined = queue::joined(LINE, PLACE, self.waiter(), entry);
        doc! { "$cond": [may_join, { format::QUEUE: joined }, {}] }
    }

    /// The id of the queue entry: the first one that it got, unless that was the predecessor's.
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

/// True if there is no expiry, or one in the past, or the grant is ours. A non-date `expiresAt` is corrupt and is never
/// granted.
fn is_free(is_ours: impl Into<Bson>) -> Document {
    let absent = doc! { "$in": [{ "$type": path(format::EXPIRES_AT) }, ["missing", "null"]] };
    let expired = doc! { "$lte": [path(format::EXPIRES_AT), "$$NOW"] };
    let known = doc! { "$or": [expired, is_ours.into()] };
    doc! { "$or": [absent, { "$and": [is_date(format::EXPIRES_AT), known] }] }
}

/// The fields of a new grant, with this echo.
pub(super) fn anew(
    request: &AcquireRequest,
    grant_id: &GrantId,
    sent: impl Into<Bson>,
) -> Document {
    doc! {
        grant::VALUE: literal(&request.value),
        grant::ID: literal(grant_id.as_str()),
        grant::SENT_MICROS: sent.into(),
        grant::OWNER: literal(&*request.owner),
        grant::ACQUIRED_AT: "$$NOW",
        grant::TTL_MS: Bson::Int64(millis_up(request.timing.ttl)),
        grant::MAX_CLOCK_SKEW_MS: Bson::Int64(millis_up(request.timing.max_clock_skew)),
        grant::METADATA: literal(request.metadata.clone()),
        grant::WRITES: one_more_write(),
    }
}

/// The fields that change when the value is found to be ours already. The id of the grant stays. The longest ttl
/// counts, because the attempt that was granted first may rely on it.
fn again(request: &AcquireRequest) -> Document {
    let longest = |field: &str, duration| {
        doc! { "$max": [path(&grant_field(field)), millis_up(duration)] }
    };
    let Timing { ttl, max_clock_skew, .. } = *request.timing;
    doc! {
        grant::SENT_MICROS: "$$sent",
        grant::TTL_MS: longest(grant::TTL_MS, ttl),
        grant::MAX_CLOCK_SKEW_MS: longest(grant::MAX_CLOCK_SKEW_MS, max_clock_skew),
        grant::WRITES: one_more_write(),
    }
}
