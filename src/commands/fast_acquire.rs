//! Take: what an acquire asks for first, in few words, alone or with others.
//!
//! It grants a lease that nobody has and nobody is in line for, and else it changes nothing: nobody joins, nothing is
//! prolonged, and a queue whose waiters have all died is left to the whole form in `acquire`. That form is three times
//! as long, and most leases are free when they are asked for.
//!
//! Under churn it is told that there is no document, and looks for none: then it inserts one, or is refused, for the
//! name is taken. Else it would walk over all deleted entries of the index up to the next one that is alive.
//!
//! Only for a call's first attempt, whose value is new: what is found under that value is another attempt's doing, and
//! is never believed here.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use mongodb::bson::{Bson, Document, doc};

use super::acquire::{self, AcquireReply, AcquireRequest, Granted, Refused};
use super::reply::count;
use super::snapshot::{self, LeaseSnapshot};
use super::{echo, is_date, literal, majority, now_plus, path, simple_collation, token};
use crate::commands::Command;
use crate::commands::failure::Cause;
use crate::info::LeaseState;
use crate::rules::churn::FastForm;
use crate::rules::ids::GrantId;
use crate::rules::slots::Lane;
use crate::rules::time::Instant;
use crate::rules::token::Token;
use crate::schema;

/// The first attempt of one call.
#[derive(Clone, Debug)]
pub(crate) struct FastAcquire {
    pub(crate) request: Arc<AcquireRequest>,
    pub(crate) attempt: u32,
    /// How the server goes about it.
    pub(crate) form: FastForm,
    /// How often it was sent before, in commands that were answered and may have granted it.
    pub(crate) resends: u32,
}

impl FastAcquire {
    /// The identity of what this sending is granted. Each sending has its own: a later one must not grant once more,
    /// under an identity that its caller had and gave back, what an attempt beside it has found meanwhile.
    fn grant_id(&self) -> GrantId {
        self.request.call_id.resent_grant(self.attempt, self.resends)
    }

    /// Whether this is the identity of what this sending, or one before it, was granted.
    fn is_own(&self, grant_id: &GrantId) -> bool {
        let id = |resends| self.request.call_id.resent_grant(self.attempt, resends);
        (0..=self.resends).any(|resends| id(resends) == *grant_id)
    }

    /// Which document is meant. An empty list has no bounds in the index, so nothing is looked at; and the hint makes
    /// the server refuse all the same when the index has gone.
    fn filter(&self) -> Document {
        match self.form {
            FastForm::LookUp => doc! { schema::NAME: &self.request.name },
            FastForm::Insert => doc! { schema::NAME: { "$in": [] } },
        }
    }

    /// The document as it is to be.
    fn granted_or_unchanged(&self, sent: Instant) -> Document {
        let request = self.request.as_ref();
        let granted = doc! {
            schema::VALUE: literal(&request.value),
            schema::EXPIRES_AT: now_plus(request.timing.ttl + request.timing.max_clock_skew),
            schema::GRANT: acquire::anew(request, &self.grant_id(), echo(sent)),
        };
        let is_free = doc! { "$and": [has_no_holder(), has_no_queue()] };
        let changes = doc! { "$cond": [is_free, granted, {}] };
        match self.form {
            FastForm::LookUp => doc! { "$mergeObjects": ["$$ROOT", changes] },
            // The filter has not named it.
            FastForm::Insert => {
                let name = doc! { schema::NAME: literal(&self.request.name) };
                doc! { "$mergeObjects": ["$$ROOT", name, changes] }
            }
        }
    }

    /// What a document says to this attempt, as it was found behind it. The token is that of the grant, if it is one.
    fn read(&self, found: LeaseSnapshot, sent: Instant, token: Option<Token>) -> AcquireReply {
        let LeaseSnapshot { mut info, grant_id, sent: echo, .. } = found;
        // Another program's name may be equal to ours without being a text.
        info.name.clone_from(&self.request.name);
        let is_of_this_value = info.value.as_deref() == Some(&self.request.value);
        let own = grant_id.filter(|id| is_of_this_value && self.is_own(id));
        let is_own = own.is_some();
        // Of a statement that was sent again, the first sending may have granted: validity counts from that.
        let echo = echo.and_then(|echo| u64::try_from(echo).ok()).map(Instant::from_nanos);
        match (&info.state, own, echo) {
            (LeaseState::Held | LeaseState::Free, Some(grant_id), Some(echo)) => {
                let sent = echo.min(sent);
                AcquireReply::Granted(Granted { sent, grant_id, token, info })
            }
            // Who waits has to join the line, and that is the whole form's.
            (LeaseState::Held, None, _) if !is_of_this_value && self.request.joins.is_none() => {
                AcquireReply::Refused(Refused { sent, info, ahead: None, at: token })
            }
            (LeaseState::Held | LeaseState::Free | LeaseState::Damaged { .. }, _, _) => {
                AcquireReply::UseFullForm { maybe_granted: is_own }
            }
        }
    }
}

impl Command for FastAcquire {
    type Reply = AcquireReply;

    fn lane(&self) -> Lane {
        Lane::Acquire
    }

    fn build(&self, collection: &str, sent: Instant) -> Document {
        let replacement = self.granted_or_unchanged(sent);
        acquire::upsert(collection, self.filter(), replacement, snapshot::projection())
    }

    fn decode(&self, reply: &Document, sent: Instant) -> Result<AcquireReply, Cause> {
        let document = reply
            .get_document("value")
            .map_err(|_| Cause::Reply("the reply to an acquire contains no document".to_owned()))?;
        let token = if self.request.has_oplog { Some(token::of_reply(reply)?) } else { None };
        Ok(self.read(snapshot::read(document), sent, token))
    }
}

/// The first attempts of many calls in one command. It does not tell who was granted what: [`who_was_granted`] does.
#[derive(Clone, Debug)]
pub(crate) struct FastAcquireMany {
    pub(crate) acquires: Vec<FastAcquire>,
}

/// What came of it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct FastAcquired {
    /// When it was sent: validity counts from here.
    pub(crate) sent: Instant,
    /// The time of its last write or a later one. No older than any of its grants, and newer than any earlier one.
    pub(crate) at: Token,
    /// The places of the statements that the server refused.
    pub(crate) refused: HashSet<usize>,
}

impl Command for FastAcquireMany {
    type Reply = FastAcquired;

    fn lane(&self) -> Lane {
        Lane::Acquire
    }

    fn build(&self, collection: &str, sent: Instant) -> Document {
        let statement = |take: &FastAcquire| {
            Bson::from(doc! {
                "q": take.filter(),
                "u": [{ "$replaceWith": take.granted_or_unchanged(sent) }],
                "upsert": true,
                "hint": { schema::NAME: 1 },
                "collation": simple_collation(),
            })
        };
        doc! {
            "update": collection,
            "updates": self.acquires.iter().map(statement).collect::<Vec<_>>(),
            "ordered": false,
            "writeConcern": majority(),
        }
    }

    fn decode(&self, reply: &Document, sent: Instant) -> Result<FastAcquired, Cause> {
        if count(reply).is_none() {
            return Err(Cause::Reply("the reply to an update contains no count".to_owned()));
        }
        let at = token::of_reply(reply)?;
        let errors = reply.get_array("writeErrors").map(Vec::as_slice).unwrap_or_default();
        let place = |error: &Bson| {
            let place = error.as_document().and_then(|error| error.get_i32("index").ok());
            place.and_then(|place| usize::try_from(place).ok())
        };
        let refused = errors.iter().map(place).collect::<Option<_>>();
        let unplaced =
            || Cause::Reply("a write failed, and the server does not say which".to_owned());
        Ok(FastAcquired { sent, at, refused: refused.ok_or_else(unplaced)? })
    }
}

/// Who has been granted what of a [`FastAcquireMany`], by what a look saw that came after it, in the order of the
/// attempts.
///
/// A token has to be newer than all grants of its name that came before, and older than all that come after. The time
/// of the command is the first: none of its statements was carried out later. It is the second where a look that sees
/// everything up to that time finds the very grant still standing: whoever is granted the lease after that look is
/// granted it at a later time. No clock is in this, and no ttl.
pub(crate) fn who_was_granted(
    acquires: &[FastAcquire],
    taken: &FastAcquired,
    found: Vec<LeaseSnapshot>,
) -> Vec<AcquireReply> {
    let found: HashMap<_, _> =
        found.into_iter().map(|seen| (seen.info.name.clone(), seen)).collect();
    let reply = |(place, take): (usize, &FastAcquire)| match found.get(&take.request.name) {
        Some(seen) => take.read(seen.clone(), taken.sent, Some(taken.at)),
        // Refused, or granted and gone: it is for the call to find out by itself.
        None => AcquireReply::UseFullForm { maybe_granted: !taken.refused.contains(&place) },
    };
    acquires.iter().enumerate().map(reply).collect()
}

/// No expiry, or one in the past. An expiry that is no date is damage, and nobody's to take.
fn has_no_holder() -> Document {
    let absent = doc! { "$in": [{ "$type": path(schema::EXPIRES_AT) }, ["missing", "null"]] };
    let expired = doc! { "$lte": [path(schema::EXPIRES_AT), "$$NOW"] };
    doc! { "$or": [absent, { "$and": [is_date(schema::EXPIRES_AT), expired] }] }
}

/// Nobody is in line, dead or alive.
fn has_no_queue() -> Document {
    doc! { "$in": [{ "$ifNull": [path(schema::QUEUE), []] }, [[]]] }
}
