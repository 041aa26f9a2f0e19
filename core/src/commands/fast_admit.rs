//! Fast admit: an upsert that admits a call for permits beside other holders, and otherwise changes nothing.

use super::acquire_reply::{HAS_QUEUE, fast_projection, read};
use super::admission::is_unexpired;
use super::fast_acquire::{anew, upsert};
use super::*;

/// The first attempt of a call under a limit above 1, whose value is new. Its effect is `spec::fast_admit`, and its
/// reply that of `spec::fast_admit_reply`.
#[derive(Clone, Debug)]
pub struct FastAdmit {
    /// The request of its call.
    pub request: Arc<AcquireRequest>,
    /// The number of the attempt.
    pub attempt_no: u32,
}

impl Command for FastAdmit {
    type Reply = AcquireReply;
    const LANE: Lane = Lane::Acquire;

    fn build(&self, collection: &str, sent: Instant) -> Document {
        let query = doc! { format::NAME: &self.request.name };
        let mut fields = fast_projection(&self.request.value, self.grant_id().as_str());
        fields.insert(HAS_QUEUE, not(queue::is_empty()));
        upsert(collection, query, self.admitted_or_unchanged(sent), fields)
    }

    fn decode(&self, reply: &Document, sent: Instant) -> Result<AcquireReply, DecodeError> {
        let found = read(reply, &self.request)?;
        let token = self.request.token(reply)?;
        let LeaseSnapshot { info, server_ms, .. } = found.snapshot;
        let is_refused = info.state == LeaseState::Held
            && info.value.as_ref() != Some(&self.request.value)
            && !found.has_queue
            && self.request.joins.is_none();
        Ok(match found.own {
            Some((grant_id, share)) if grant_id == self.grant_id() => {
                AcquireReply::Granted(Granted { sent, grant_id, token, info, share })
            }
            None if is_refused => {
                AcquireReply::Refused(Refused { sent, info, ahead: None, at: token, server_ms })
            }
            Some(_) | None => AcquireReply::UseSlowForm { maybe_granted: false },
        })
    }
}

impl FastAdmit {
    fn grant_id(&self) -> GrantId {
        self.request.call_id.grant(self.attempt_no)
    }

    fn admitted_or_unchanged(&self, sent: Instant) -> Document {
        let AcquireRequest { value, permits, .. } = self.request.as_ref();
        let (count, limit) = (i64::from(permits.count()), i64::from(permits.limit()));
        let until = now_plus(self.request.lasts_ms());
        let mut own = anew(&self.request, &self.grant_id(), echo(sent), Some(until));
        own.extend(doc! { holder::PERMITS: count, holder::LIMIT: limit, holder::WRITES: 1_i64 });
        let changes = in_scope(|scope| {
            let elements = scope.bind("elements", admission::elements());
            let unexpired = filter(elements, is_unexpired);
            let kept = cond(admission::is_shared(elements), unexpired, NO_ELEMENT);
            let kept = scope.bind("kept", kept);
            let admitted = bind("all", doc! { "$concatArrays": [kept, [own]] }, |all| {
                doc! {
                    format::VALUE: format::SHARED_VALUE,
                    format::HOLDERS: all,
                    format::EXPIRES_AT: { "$max": all.field(holder::EXPIRES_AT) },
                }
            });
            let limits = doc! { "$concatArrays": [kept.field(holder::LIMIT), [limit]] };
            let in_use = doc! { "$add": [{ "$sum": kept.field(holder::PERMITS) }, count] };
            let is_any = doc! { "$gt": [{ "$size": kept }, 0] };
            let fits = all([
                queue::is_empty(),
                // A late first attempt finds the grant of the second one.
                not(is_in(literal(value), kept.field(holder::VALUE))),
                any([admission::has_no_holder(), is_any]),
                doc! { "$lte": [in_use, { "$min": limits }] },
            ]);
            cond(fits, admitted, doc! {})
        });
        merge("$$ROOT", changes)
    }
}
