//! Acquire: an upsert whose pipeline grants the lease if it is free.

use std::sync::Arc;

use mongodb::bson::{Bson, Document, doc};

use super::seen::{self, Seen};
use super::{
    echo, grant_field, is_date, literal, majority, now_plus, one_more_write, path,
    simple_collation, token,
};
use crate::error::Cause;
use crate::info::{LeaseInfo, LeaseState};
use crate::rules::time::{Instant, millis_up};
use crate::rules::timing::Timing;
use crate::rules::token::Token;
use crate::runner::{Command, Lane};
use crate::schema::{self, grant};

/// What one acquire call asks for; the same for all of its attempts.
#[derive(Clone, Debug)]
pub(crate) struct Ask {
    pub(crate) collection: String,
    pub(crate) name: String,
    pub(crate) value: String,
    /// Random, and of this call alone, also where the caller chose the value.
    pub(crate) call_id: String,
    pub(crate) owner: String,
    pub(crate) metadata: Document,
    pub(crate) timing: Timing,
    /// Whether the server has an oplog, from which tokens come.
    pub(crate) has_oplog: bool,
}

/// One attempt of a call.
#[derive(Clone, Debug)]
pub(crate) struct Acquire {
    pub(crate) ask: Arc<Ask>,
    pub(crate) attempt: u32,
}

/// What the server answered.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Reply {
    /// The lease is ours.
    Granted(Granted),
    /// Somebody has it, or nobody can say who.
    Refused(LeaseInfo),
}

/// A grant.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Granted {
    /// When the attempt that found us granted was sent: validity counts from here.
    pub(crate) sent: Instant,
    /// The attempt that was granted, which need not be the one that is answered.
    pub(crate) grant_id: String,
    /// `None` where the server has no oplog: then a tick has to follow.
    pub(crate) token: Option<Token>,
    pub(crate) info: LeaseInfo,
}

impl Command for Acquire {
    type Reply = Reply;

    fn lane(&self) -> Lane {
        Lane::Ask
    }

    fn build(&self, sent: Instant) -> Document {
        doc! {
            "findAndModify": &self.ask.collection,
            "query": { schema::NAME: &self.ask.name },
            "update": [{ "$replaceWith": grant_if_free(&self.ask, self.attempt, sent) }],
            "upsert": true,
            "new": true,
            "fields": seen::projection(),
            // Refused by the server when the index has gone: without it, two upserts could both win.
            "hint": { schema::NAME: 1 },
            "collation": simple_collation(),
            "writeConcern": majority(),
        }
    }

    fn decode(&self, reply: &Document, sent: Instant) -> Result<Reply, Cause> {
        let document = reply
            .get_document("value")
            .map_err(|_| Cause::Reply("an acquire was answered without a document".to_owned()))?;
        let Seen { mut info, grant_id, .. } = seen::read(document);
        // Another program's name may be equal to ours without being a text: a symbol, or a list with ours in it.
        info.name.clone_from(&self.ask.name);
        let is_ours = info.value.as_deref() == Some(&self.ask.value);
        match grant_id {
            Some(grant_id) if is_ours && !matches!(info.state, LeaseState::Damaged { .. }) => {
                let token = if self.ask.has_oplog { Some(token::of_reply(reply)?) } else { None };
                Ok(Reply::Granted(Granted { sent, grant_id, token, info }))
            }
            Some(_) | None => Ok(Reply::Refused(info)),
        }
    }
}

/// The document as it is to be: granted to us if it was free, else unchanged, which writes nothing.
fn grant_if_free(ask: &Ask, attempt: u32, sent: Instant) -> Document {
    let mine = doc! { "$eq": [path(schema::VALUE), literal(&ask.value)] };
    let granted_to_me = doc! { "$eq": [path(&grant_field(grant::VALUE)), literal(&ask.value)] };
    let vars = doc! { "mine": mine, "until": now_plus(ask.timing.ttl + ask.timing.allowance) };
    let granted = doc! {
        schema::VALUE: literal(&ask.value),
        // What is ours already is only ever prolonged: `$$NOW` may be older than that of an attempt that overtook.
        schema::EXPIRES_AT: {
            "$cond": ["$$mine", { "$max": [path(schema::EXPIRES_AT), "$$until"] }, "$$until"],
        },
        schema::GRANT: {
            "$cond": [
                { "$and": ["$$mine", granted_to_me] },
                { "$mergeObjects": [path(schema::GRANT), again(ask, sent)] },
                anew(ask, attempt, sent),
            ],
        },
    };
    let choice = doc! {
        "$cond": [is_free(), { "$mergeObjects": ["$$ROOT", granted] }, "$$ROOT"],
    };
    doc! { "$let": { "vars": vars, "in": choice } }
}

/// No expiry, or one in the past, or ours. An expiry that is no date is damage, and nobody's to take.
fn is_free() -> Document {
    let absent = doc! { "$in": [{ "$type": path(schema::EXPIRES_AT) }, ["missing", "null"]] };
    let expired = doc! { "$lte": [path(schema::EXPIRES_AT), "$$NOW"] };
    doc! {
        "$or": [absent, { "$and": [is_date(schema::EXPIRES_AT), { "$or": [expired, "$$mine"] }] }],
    }
}

/// A new grant.
fn anew(ask: &Ask, attempt: u32, sent: Instant) -> Document {
    doc! {
        grant::VALUE: literal(&ask.value),
        grant::ID: literal(grant_id(&ask.call_id, attempt)),
        grant::SENT: echo(sent),
        grant::OWNER: literal(&ask.owner),
        grant::ACQUIRED_AT: "$$NOW",
        grant::TTL_MS: Bson::Int64(millis_up(ask.timing.ttl)),
        grant::ALLOWANCE_MS: Bson::Int64(millis_up(ask.timing.allowance)),
        grant::META: literal(ask.metadata.clone()),
        grant::WRITES: one_more_write(),
    }
}

/// What changes when the value is found to be ours already. The id of the grant stays, and the longest ttl counts:
/// who was granted it may believe in it.
fn again(ask: &Ask, sent: Instant) -> Document {
    let longest = |field: &str, millis: i64| doc! { "$max": [path(&grant_field(field)), millis] };
    doc! {
        grant::SENT: echo(sent),
        grant::TTL_MS: longest(grant::TTL_MS, millis_up(ask.timing.ttl)),
        grant::ALLOWANCE_MS: longest(grant::ALLOWANCE_MS, millis_up(ask.timing.allowance)),
        grant::WRITES: one_more_write(),
    }
}

/// The identity of a grant: the call, and the number of its attempt.
fn grant_id(call_id: &str, attempt: u32) -> String {
    format!("{call_id}.{attempt}")
}

/// The range of the identities that the attempts of one call can have: from the first, up to but without the second.
pub(super) fn grant_ids_of_call(call_id: &str) -> (String, String) {
    // The character after the full stop is the slash.
    (format!("{call_id}."), format!("{call_id}/"))
}
