//! Slow acquire: an upsert whose pipeline admits the waiters and the caller, or adds the caller to the queue.

use std::sync::Arc;

use crate::bson::{Bson, Document, doc};
use crate::format::{self, entry, grant, holder};
use crate::rules::slots::Lane;
use crate::rules::time::{Instant, millis_up};
use crate::rules::timing::Timing;

use super::acquire_parts::{anew, upsert};
use super::acquire_reply::{AHEAD, projection, read};
use super::admission::{self, LENGTH_MAX, Room, is_of, is_unexpired, waits};
use super::snapshot::LeaseSnapshot;
use super::variables::{Variable, bind, filter, map};
use super::{
    echo, grant_field, has_sound_expiry, literal, now_plus, one_more, one_more_write, path, queue,
    token,
};
use crate::commands::Command;
use crate::commands::DecodeError;

pub use super::acquire_parts::{AcquireReply, AcquireRequest, Granted, GrantedShare, Refused};
pub use crate::spec::QueueOptions;

/// An attempt that can join the queue. Its effect is `spec::acquire`.
#[derive(Clone, Debug)]
pub struct SlowAcquire {
    /// The request of its call.
    pub request: Arc<AcquireRequest>,
    /// The number of the attempt.
    pub attempt: u32,
    /// The value of an earlier call of this process that gave up. This call inherits its queue entry, and any grant
    /// that it got meanwhile. No lease relies on that grant.
    pub predecessor: Option<String>,
}

impl Command for SlowAcquire {
    type Reply = AcquireReply;

    fn lane(&self) -> Lane {
        Lane::Acquire
    }

    fn build(&self, collection: &str, sent: Instant) -> Document {
        let mut fields = projection(&self.request);
        if self.request.joins.is_some() {
            fields.insert(AHEAD, queue::index_of(&self.request.value));
        }
        let query = doc! { format::NAME: &self.request.name };
        let changes = self.admitted_or_queued(sent);
        upsert(collection, query, doc! { "$mergeObjects": ["$$ROOT", changes] }, fields)
    }

    fn decode(&self, reply: &Document, sent: Instant) -> Result<AcquireReply, DecodeError> {
        let found = read(reply, &self.request)?;
        let token = token::of_reply(reply);
        match found.own {
            Some(own) => {
                let token = if self.request.has_oplog { Some(token?) } else { None };
                Ok(own.granted(sent, token, found.snapshot.info))
            }
            None => {
                let LeaseSnapshot { info, server_ms, .. } = found.snapshot;
                let (ahead, at) = (found.ahead, token.ok());
                Ok(AcquireReply::Refused(Refused { sent, info, ahead, at, server_ms }))
            }
        }
    }
}

/// The variables in whose scope the changes are chosen.
#[derive(Clone, Copy)]
struct Before {
    /// The holders in shared use that stay.
    kept: Variable,
    /// Whether the caller has the exclusive lease already.
    mine: Variable,
    /// The entries that count, in order.
    line: Variable,
    /// The index of the caller's first entry in the line, or -1.
    place: Variable,
    /// The caller's entry after this write, if it waits.
    me: Variable,
}

impl SlowAcquire {
    /// The fields that change: those of an admission or of the queue, or none.
    fn admitted_or_queued(&self, sent: Instant) -> Document {
        bind("elements", admission::elements(), |elements| {
            bind("kept", self.kept(elements), |kept| {
                bind("mine", self.has_lease(), |mine| {
                    let line = filter(queue::entries(), |each| {
                        let counts = doc! { "$or": [self.owns(each), waits(each, kept)] };
                        doc! { "$and": [queue::is_entry(each), counts] }
                    });
                    bind("line", line, |line| {
                        bind("place", self.place_in(line), |place| {
                            let is_there = doc! { "$gte": [place, 0] };
                            let old = doc! { "$arrayElemAt": [line, place] };
                            let old = doc! { "$cond": [is_there, old, {}] };
                            bind("old", old, |old| {
                                bind("me", self.entry(old, sent), |me| {
                                    self.changes(Before { kept, mine, line, place, me }, sent)
                                })
                            })
                        })
                    })
                })
            })
        })
    }

    /// The holders that stay: those that have not expired, and the caller.
    fn kept(&self, elements: Variable) -> Document {
        let kept = filter(elements, |each| match self.request.permits.is_exclusive() {
            true => is_unexpired(each),
            false => doc! { "$or": [is_unexpired(each), is_of(each, &self.request.value)] },
        });
        doc! { "$cond": [admission::is_shared(elements), kept, []] }
    }

    /// A condition: this value is the caller's own, or that of the call whose entry it inherits.
    fn owns(&self, each: Variable) -> Document {
        match &self.predecessor {
            None => is_of(each, &self.request.value),
            Some(predecessor) => {
                let values =
                    [&self.request.value, predecessor].map(|value| literal(value.as_str()));
                doc! { "$in": [each.field(entry::VALUE), values.to_vec()] }
            }
        }
    }

    /// The index of the caller's first entry; -1 when there is none.
    fn place_in(&self, line: Variable) -> Document {
        let values = line.field(entry::VALUE);
        let place_of = |value: &str| doc! { "$indexOfArray": [&values, literal(value)] };
        let own = place_of(&self.request.value);
        match &self.predecessor {
            None => own,
            Some(predecessor) => {
                let places = vec![Bson::from(own), place_of(predecessor).into()];
                let there = filter(places, |each| doc! { "$gte": [each, 0] });
                doc! { "$ifNull": [{ "$min": there }, -1] }
            }
        }
    }

    /// A condition: this value has the exclusive lease, and the expiry is not corrupt.
    fn is_held_by(value: &str) -> Document {
        let is_value = doc! { "$eq": [path(format::VALUE), literal(value)] };
        doc! { "$and": [is_value, has_sound_expiry()] }
    }

    /// A condition: the caller has the exclusive lease already. A call for a share does not take an exclusive lease for
    /// its own, although both may have one value that their user chose.
    fn has_lease(&self) -> Bson {
        match self.request.permits.is_exclusive() {
            true => SlowAcquire::is_held_by(&self.request.value).into(),
            false => false.into(),
        }
    }

    /// A condition: the call whose entry this one inherits has the exclusive lease. It is free for this call alone.
    fn inherits_lease(&self) -> Option<Document> {
        self.predecessor.as_deref().map(SlowAcquire::is_held_by)
    }

    /// This call's entry, where `old` is the one that it has.
    fn entry(&self, old: Variable, sent: Instant) -> Document {
        let AcquireRequest { timing, joins, permits, .. } = self.request.as_ref();
        let life = joins.map_or_else(|| millis_up(timing.ttl), |joins| joins.life);
        let id = literal(self.request.call_id.grant(self.attempt).as_str());
        let before = old.field(entry::ID);
        let id = match self.predecessor {
            None => doc! { "$ifNull": [before, id] },
            // An inherited entry gets an id of this call, by which the process finds it.
            Some(_) => doc! { "$cond": [is_of(old, &self.request.value), before, id] },
        };
        let mut entry = doc! {
            entry::VALUE: literal(&self.request.value),
            entry::ID: id,
            entry::TTL_MS: Bson::Int64(millis_up(timing.ttl)),
            entry::MAX_CLOCK_SKEW_MS: Bson::Int64(millis_up(timing.max_clock_skew)),
            entry::OWNER: literal(&*self.request.owner),
            entry::METADATA: literal(self.request.metadata.clone()),
            entry::PERMITS: Bson::Int64(permits.count().into()),
            entry::LIMIT: Bson::Int64(permits.limit().into()),
        };
        entry.extend(queue::heartbeat_fields(old, echo(sent), life));
        entry
    }

    /// The fields that change, if this call is admitted or may be in the queue.
    fn changes(&self, before: Before, sent: Instant) -> Document {
        let Before { kept, mine, line, .. } = before;
        let is_any = doc! { "$ne": [kept, []] };
        let mut free = vec![admission::has_no_holder(), is_any];
        free.extend(self.inherits_lease());
        let open = doc! { "$and": [{ "$not": mine }, { "$or": free }] };
        bind("open", open, |open| {
            let room = Room { asker: Some(&self.request.value), kept, open };
            room.of_line(self.line(before), |of| {
                let refreshed = match self.request.permits.is_exclusive() {
                    true => kept.into(),
                    false => self.refreshed(kept, sent),
                };
                let nobody = doc! { format::QUEUE: queue::left(of.rest) };
                let admitted = room.changes(of, refreshed, nobody);
                let again = self.granted_again(before.me, of.rest);
                let changes = doc! { "$cond": [mine, again, admitted] };
                let is_admitted =
                    doc! { "$in": [literal(&self.request.value), of.admitted.field(entry::VALUE)] };
                let is_granted = doc! { "$or": [self.holds(before), is_admitted] };
                let Some(joins) = self.request.joins else {
                    return doc! { "$cond": [is_granted, changes, {}] };
                };
                let has_room = doc! { "$lt": [{ "$size": line }, i64::from(joins.queue_max)] };
                let may_join =
                    doc! { "$or": [{ "$gte": [before.place, 0] }, has_room, is_granted] };
                doc! { "$cond": [{ "$and": [has_sound_expiry(), may_join] }, changes, {}] }
            })
        })
    }

    /// A condition: the caller holds already.
    fn holds(&self, Before { kept, mine, .. }: Before) -> Bson {
        match self.request.permits.is_exclusive() {
            true => mine.into(),
            false => {
                doc! { "$in": [literal(&self.request.value), kept.field(holder::VALUE)] }.into()
            }
        }
    }

    /// The line with this call's entry: in its place, or at the end; without it where the caller holds already.
    fn line(&self, before: Before) -> Document {
        let Before { line, place, me, .. } = before;
        let others = filter(line, |each| doc! { "$not": self.owns(each) });
        bind("others", others, |others| {
            let is_there = doc! { "$gte": [place, 0] };
            let at = doc! { "$cond": [is_there, place, { "$size": others }] };
            let at = match self.inherits_lease() {
                None => at,
                Some(inherits) => doc! { "$cond": [inherits, 0, at] },
            };
            let joined = bind("at", at, |at| {
                // The server refuses to take no element of a list.
                let is_first = doc! { "$eq": [at, 0] };
                let ahead = doc! { "$cond": [is_first, [], { "$slice": [others, at] }] };
                let behind = doc! { "$slice": [others, at, LENGTH_MAX] };
                doc! { "$concatArrays": [ahead, [me], behind] }
            });
            doc! { "$cond": [self.holds(before), others, joined] }
        })
    }

    /// The holders that stay. A grant that is the caller's already is only ever prolonged.
    fn refreshed(&self, kept: Variable, sent: Instant) -> Bson {
        let timing = &self.request.timing;
        let each = |each: Variable| {
            let longest = |field: &str, duration| {
                doc! { "$max": [each.field(field), Bson::Int64(millis_up(duration))] }
            };
            let skew = timing.max_clock_skew;
            let until = now_plus(timing.ttl + timing.max_clock_skew);
            let again = doc! {
                holder::EXPIRES_AT: { "$max": [each.field(holder::EXPIRES_AT), until] },
                holder::SENT_MICROS: echo(sent),
                holder::TTL_MS: longest(holder::TTL_MS, timing.ttl),
                holder::MAX_CLOCK_SKEW_MS: longest(holder::MAX_CLOCK_SKEW_MS, skew),
                holder::WRITES: one_more(&each.field(holder::WRITES)),
            };
            let again = doc! { "$mergeObjects": [each, again] };
            doc! { "$cond": [is_of(each, &self.request.value), again, each] }
        };
        map(kept, each).into()
    }

    /// The fields that change where the caller has the exclusive lease already: it is only ever prolonged, for `$$NOW`
    /// may be older than that of an attempt that overtook.
    ///
    /// It counts from the caller's newest heartbeat where `$$NOW` is older than that, because a promotion would.
    fn granted_again(&self, me: Variable, rest: Variable) -> Document {
        let Timing { ttl, max_clock_skew, .. } = *self.request.timing;
        let lasts = millis_up(ttl + max_clock_skew);
        let until = doc! { "$add": [me.field(entry::HEARTBEAT_AT), lasts] };
        let granted_to_me =
            doc! { "$eq": [path(&grant_field(grant::VALUE)), literal(&self.request.value)] };
        let again = again(&self.request, me.field(entry::SENT_MICROS));
        let again = doc! { "$mergeObjects": [path(format::GRANT), again] };
        let id = self.request.call_id.grant(self.attempt);
        let anew = anew(&self.request, &id, me.field(entry::SENT_MICROS));
        doc! {
            format::EXPIRES_AT: { "$max": [path(format::EXPIRES_AT), until] },
            format::GRANT: { "$cond": [granted_to_me, again, anew] },
            format::QUEUE: queue::left(rest),
        }
    }
}

/// The fields that change when the value is found to be ours already. The id of the grant stays. The longest ttl
/// counts, because the attempt that was granted first may rely on it.
fn again(request: &AcquireRequest, sent: String) -> Document {
    let longest = |field: &str, duration| {
        doc! { "$max": [path(&grant_field(field)), millis_up(duration)] }
    };
    let Timing { ttl, max_clock_skew, .. } = *request.timing;
    doc! {
        grant::SENT_MICROS: sent,
        grant::TTL_MS: longest(grant::TTL_MS, ttl),
        grant::MAX_CLOCK_SKEW_MS: longest(grant::MAX_CLOCK_SKEW_MS, max_clock_skew),
        grant::WRITES: one_more_write(),
    }
}
