//! Fast admit: an upsert that admits a call for permits beside other holders, and otherwise changes nothing.

use std::sync::Arc;

use crate::bson::{Bson, Document, doc};
use crate::format::{self, holder};
use crate::rules::slots::Lane;
use crate::rules::time::{Instant, millis_up};

use super::acquire_parts::{AcquireReply, AcquireRequest, Refused, upsert};
use super::acquire_reply::{HAS_QUEUE, fast_projection, read};
use super::admission::{self, is_unexpired};
use super::snapshot::LeaseSnapshot;
use super::variables::{bind, filter};
use super::{echo, literal, now_plus, queue, token};
use crate::commands::Command;
use crate::commands::DecodeError;
use crate::info::LeaseState;

/// The first attempt of a call under a limit above 1, whose value is new. Its effect is `spec::fast_admit`, and its
/// reply that of `spec::fast_admit_reply`.
#[derive(Clone, Debug)]
pub struct FastAdmit {
    /// The request of its call.
    pub request: Arc<AcquireRequest>,
    /// The number of the attempt.
    pub attempt: u32,
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
        fields.insert(HAS_QUEUE, doc! { "$not": queue::is_empty() });
        upsert(collection, query, self.admitted_or_unchanged(sent), fields)
    }

    fn decode(&self, reply: &Document, sent: Instant) -> Result<AcquireReply, DecodeError> {
        let found = read(reply, &self.request)?;
        let token = if self.request.has_oplog { Some(token::of_reply(reply)?) } else { None };
        let id = self.request.call_id.grant(self.attempt);
        let is_of_this_value = found.snapshot.info.value.as_ref() == Some(&self.request.value);
        let LeaseSnapshot { info, server_ms, .. } = found.snapshot;
        let is_held = info.state == LeaseState::Held;
        match found.own {
            Some(own) if own.id == id => Ok(own.granted(sent, token, info)),
            None if is_held
                && !is_of_this_value
                && !found.has_queue
                && self.request.joins.is_none() =>
            {
                Ok(AcquireReply::Refused(Refused { sent, info, ahead: None, at: token, server_ms }))
            }
            Some(_) | None => Ok(AcquireReply::UseSlowForm { maybe_granted: false }),
        }
    }
}

impl FastAdmit {
    fn admitted_or_unchanged(&self, sent: Instant) -> Document {
        let AcquireRequest { value, timing, permits, .. } = self.request.as_ref();
        let (count, limit) = (i64::from(permits.count()), i64::from(permits.limit()));
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
            holder::PERMITS: Bson::Int64(count),
            holder::LIMIT: Bson::Int64(limit),
            holder::WRITES: 1_i64,
        };
        let changes = bind("elements", admission::elements(), |elements| {
            let unexpired = filter(elements, is_unexpired);
            let kept = doc! { "$cond": [admission::is_shared(elements), unexpired, []] };
            bind("kept", kept, |kept| {
                let all = doc! { "$concatArrays": [kept, [own]] };
                let admitted = bind("all", all, |all| {
                    doc! {
                        format::VALUE: format::SHARED_VALUE,
                        format::HOLDERS: all,
                        format::EXPIRES_AT: { "$max": all.field(holder::EXPIRES_AT) },
                    }
                });
                let limits = doc! { "$concatArrays": [kept.field(holder::LIMIT), [limit]] };
                let in_use = doc! { "$add": [{ "$sum": kept.field(holder::PERMITS) }, count] };
                let fits = doc! {
                    "$and": [
                        queue::is_empty(),
                        // A late first attempt finds the grant of the second one.
                        { "$not": { "$in": [literal(value), kept.field(holder::VALUE)] } },
                        { "$or": [admission::has_no_holder(), { "$gt": [{ "$size": kept }, 0] }] },
                        { "$lte": [in_use, { "$min": limits }] },
                    ],
                };
                doc! { "$cond": [fits, admitted, {}] }
            })
        });
        doc! { "$mergeObjects": ["$$ROOT", changes] }
    }
}
