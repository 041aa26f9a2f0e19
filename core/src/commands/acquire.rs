//! Slow acquire: an upsert whose pipeline grants to the caller, or adds it to the queue.

use super::acquire_reply::{AHEAD, projection, read};
use super::admission::{Beside, LENGTH_MAX, Room, is_of, is_unexpired, waits};
use super::fast_acquire::{anew, upsert};
use super::*;

pub use super::acquire_parts::{AcquireReply, AcquireRequest, Granted, GrantedShare, Refused};
pub use crate::spec::QueueOptions;

/// An attempt that can join the queue. Its effect is `spec::acquire`.
#[derive(Clone, Debug)]
pub struct SlowAcquire {
    /// The request of its call.
    pub request: Arc<AcquireRequest>,
    /// The number of the attempt.
    pub attempt_no: u32,
    /// The value of an earlier call of this process that gave up. This call inherits its queue entry, and any grant
    /// that it got meanwhile. No lease relies on that grant.
    pub predecessor: Option<String>,
}

impl Command for SlowAcquire {
    type Reply = AcquireReply;
    const LANE: Lane = Lane::Acquire;
    const IS_TRACED: bool = true;

    fn build(&self, collection: &str, sent: Instant) -> Document {
        let mut fields = projection(&self.request);
        if self.request.joins.is_some() {
            fields.insert(AHEAD, queue::index_of(&self.request.value));
        }
        let query = doc! { format::NAME: &self.request.name };
        upsert(collection, query, merge("$$ROOT", self.changes(sent)), fields)
    }

    fn relies_on(&self, reply: &AcquireReply) -> Reliance {
        self.request.relies_on(reply)
    }

    fn decode(&self, reply: &Document, sent: Instant) -> Result<AcquireReply, DecodeError> {
        let found = read(reply, &self.request)?;
        let LeaseSnapshot { info, server_ms, .. } = found.snapshot;
        Ok(match found.own {
            Some((grant_id, share)) => {
                let token = self.request.token(reply)?;
                AcquireReply::Granted(Granted { sent, grant_id, token, info, share })
            }
            None => {
                let (ahead, at) = (found.ahead, reply::token(reply).ok());
                AcquireReply::Refused(Refused { sent, info, ahead, at, server_ms })
            }
        })
    }
}

impl SlowAcquire {
    fn grant_id(&self) -> GrantId {
        self.request.call_id.grant(self.attempt_no)
    }

    /// The fields that change: those of a grant, of an admission, or of the queue; or none.
    fn changes(&self, sent: Instant) -> Document {
        in_scope(|scope| match self.request.permits.is_exclusive() {
            true => self.taken_or_queued(scope, sent),
            false => self.admitted_or_queued(scope, sent),
        })
    }

    /// The same for a call for the exclusive lease. It grants to this call alone, so it has no part for other holders.
    fn taken_or_queued(&self, scope: &mut Scope, sent: Instant) -> Document {
        let mine = scope.bind("mine", is_held_by(&self.request.value));
        let own = self.position(scope, queue::is_live, sent);
        let mut free = vec![admission::has_no_holder()];
        free.extend(self.inherits_lease());
        let free = scope.bind("free", any(free));
        let takes = doc! { "$and": [free, eq(own.at, 0)] };
        let otherwise = self.request.joins.map_or_else(Document::new, |joins| {
            let queued = bind("waiting", own.with_me(), |waiting| {
                let head = doc! { "$arrayElemAt": [waiting.field(entry::ID), 0] };
                let told = cond(free, queue::recheck_of(head), "$$REMOVE");
                doc! { format::QUEUE: waiting, format::PROMOTED: told }
            });
            let may_join = any([own.is_in_it(), own.has_room(joins)]);
            cond(all([has_sound_expiry(), may_join]), queued, doc! {})
        });
        cond(mine, self.granted_again(own), cond(takes, self.taken(own), otherwise))
    }

    /// The same for a call for permits.
    fn admitted_or_queued(&self, scope: &mut Scope, sent: Instant) -> Document {
        let value = &self.request.value;
        let elements = scope.bind("elements", admission::elements());
        // The holders that stay: those that have not expired, and the caller.
        let stays = |each| any([is_unexpired(each), is_of(each, value)]);
        let kept = cond(admission::is_shared(elements), filter(elements, stays), NO_ELEMENT);
        let kept = scope.bind("kept", kept);
        let own = self.position(scope, |each| waits(each, kept), sent);
        // A lease that one has, even by this very value, is not free for its share.
        let open = any([admission::has_no_holder(), doc! { "$ne": [kept, []] }]);
        let open = scope.bind("open", open);
        let is_among = |values: String| is_in(literal(value), values);
        let holds = is_among(kept.field(holder::VALUE));
        let asking = cond(&holds, own.others, own.with_me());

        let room = Room { asker: Some(&self.request), beside: Some(Beside { kept, open }) };
        let of = room.of_line(scope, asking);
        let queue = doc! { format::QUEUE: queue::left(of.rest) };
        let changes = room.changes(of, self.refreshed(kept, sent), queue);
        let is_granted = doc! { "$or": [holds, is_among(of.admitted.field(entry::VALUE))] };
        let Some(joins) = self.request.joins else { return cond(is_granted, changes, doc! {}) };
        let may_join = any([own.is_in_it(), own.has_room(joins), is_granted]);
        cond(all([has_sound_expiry(), may_join]), changes, doc! {})
    }

    /// Binds the line of the entries that count: the caller's own, and those that wait.
    fn position(
        &self,
        scope: &mut Scope,
        waits: impl Fn(Variable) -> Document,
        sent: Instant,
    ) -> Position {
        let counts = |each| any([self.owns(each), waits(each)]);
        let line = filter(queue::entries(), |each| all([queue::is_entry(each), counts(each)]));
        let line = scope.bind("line", line);
        let place = scope.bind("place", self.place_in(line));
        let old = doc! { "$arrayElemAt": [line, place] };
        let old = scope.bind("old", cond(is_there(place), old, doc! {}));
        let me = scope.bind("me", self.entry(old, sent));
        let others = scope.bind("others", filter(line, |each| not(self.owns(each))));
        let mut at = cond(is_there(place), place, doc! { "$size": others });
        if let Some(inherits) = self.inherits_lease() {
            at = cond(inherits, 0, at);
        }
        let at = scope.bind("at", at);
        Position { line, place, me, others, at }
    }

    /// A condition: this value is the caller's own, or that of the call whose entry it inherits.
    fn owns(&self, each: Variable) -> Document {
        let own = &self.request.value;
        let Some(predecessor) = &self.predecessor else { return is_of(each, own) };
        is_in(each.field(entry::VALUE), vec![literal(own), literal(predecessor)])
    }

    /// The index of the caller's first entry; -1 when there is none.
    fn place_in(&self, line: Variable) -> Document {
        let values = line.field(entry::VALUE);
        let place_of = |value: &str| doc! { "$indexOfArray": [&values, literal(value)] };
        let own = place_of(&self.request.value);
        let Some(predecessor) = &self.predecessor else { return own };
        let there = filter(vec![own, place_of(predecessor)], is_there);
        doc! { "$ifNull": [{ "$min": there }, -1] }
    }

    /// A condition: the call whose entry this one inherits has the exclusive lease. It is free for this call alone.
    fn inherits_lease(&self) -> Option<Document> {
        self.predecessor.as_deref().map(is_held_by)
    }

    /// This call's entry, where `old` is the one that it has.
    fn entry(&self, old: Variable, sent: Instant) -> Document {
        let AcquireRequest { timing, joins, permits, .. } = self.request.as_ref();
        let waiter_ttl = joins.map_or_else(|| millis_up(timing.ttl), |joins| joins.waiter_ttl);
        let (id, before) = (literal(self.grant_id().as_str()), old.field(entry::ID));
        let id = match self.predecessor {
            None => doc! { "$ifNull": [before, id] },
            // An inherited entry gets an id of this call, by which the process finds it.
            Some(_) => cond(is_of(old, &self.request.value), before, id),
        };
        let mut entry = doc! {
            entry::VALUE: literal(&self.request.value),
            entry::ID: id,
            entry::TTL_MS: millis_up(timing.ttl),
            entry::MAX_CLOCK_SKEW_MS: millis_up(timing.max_clock_skew),
            entry::OWNER: literal(&*self.request.owner),
            entry::METADATA: literal(self.request.metadata.clone()),
            entry::PERMITS: i64::from(permits.count()),
            entry::LIMIT: i64::from(permits.limit()),
        };
        entry.extend(queue::heartbeat_fields(old, echo(sent), waiter_ttl));
        entry
    }

    /// The holders that stay. A grant that is the caller's already is only ever prolonged.
    fn refreshed(&self, kept: Variable, sent: Instant) -> Bson {
        let Timing { ttl, max_clock_skew, .. } = *self.request.timing;
        let again = |each: Variable| {
            let longest = |field, duration| max(each.field(field), millis_up(duration));
            let until = now_plus(self.request.lasts_ms());
            doc! {
                holder::EXPIRES_AT: max(each.field(holder::EXPIRES_AT), until),
                holder::SENT_MICROS: echo(sent),
                holder::TTL_MS: longest(holder::TTL_MS, ttl),
                holder::MAX_CLOCK_SKEW_MS: longest(holder::MAX_CLOCK_SKEW_MS, max_clock_skew),
                holder::WRITES: one_more(&each.field(holder::WRITES)),
            }
        };
        let value = &self.request.value;
        map(kept, |each| cond(is_of(each, value), merge(each, again(each)), each)).into()
    }

    /// The fields that change where the call is granted the exclusive lease.
    fn taken(&self, own: Position) -> Document {
        let grant = own.me.fields([
            grant::VALUE,
            grant::ID,
            grant::SENT_MICROS,
            grant::OWNER,
            grant::TTL_MS,
            grant::MAX_CLOCK_SKEW_MS,
            grant::METADATA,
        ]);
        let new = doc! { grant::ACQUIRED_AT: "$$NOW", grant::WRITES: one_more_write() };
        doc! {
            format::VALUE: own.me.field(entry::VALUE),
            format::GRANT: grant.into_iter().chain(new).collect::<Document>(),
            format::EXPIRES_AT: self.until(own.me),
            format::QUEUE: queue::left(own.others),
            format::HOLDERS: admission::no_holders(),
        }
    }

    /// Until when the exclusive lease lasts: it counts from the caller's newest heartbeat where `$$NOW` is older than
    /// that, because a promotion would.
    fn until(&self, me: Variable) -> Document {
        doc! { "$add": [me.field(entry::HEARTBEAT_AT), self.request.lasts_ms()] }
    }

    /// The fields that change where the caller has the exclusive lease already: it is only ever prolonged, for `$$NOW`
    /// may be older than that of an attempt that overtook.
    fn granted_again(&self, own: Position) -> Document {
        let granted_to_me = eq(grant_path(grant::VALUE), literal(&self.request.value));
        let sent = own.me.field(entry::SENT_MICROS);
        let anew = anew(&self.request, &self.grant_id(), sent.as_str(), None);
        let grant = bind("grant", cond(granted_to_me, path(format::GRANT), anew), |grant| {
            // The id stays. The longest ttl counts, because the attempt that was granted first may rely on it.
            let longest = |field, duration| max(grant.field(field), millis_up(duration));
            let Timing { ttl, max_clock_skew, .. } = *self.request.timing;
            let again = doc! {
                grant::SENT_MICROS: sent,
                grant::TTL_MS: longest(grant::TTL_MS, ttl),
                grant::MAX_CLOCK_SKEW_MS: longest(grant::MAX_CLOCK_SKEW_MS, max_clock_skew),
                grant::WRITES: one_more_write(),
            };
            merge(grant, again)
        });
        doc! {
            format::EXPIRES_AT: max(path(format::EXPIRES_AT), self.until(own.me)),
            format::GRANT: grant,
            format::QUEUE: queue::left(own.others),
        }
    }
}

/// The entries that count, and this call's position among them.
#[derive(Clone, Copy)]
struct Position {
    line: Variable,
    /// The index of this call's first entry in it, or -1.
    place: Variable,
    /// This call's entry.
    me: Variable,
    others: Variable,
    /// How many of the others are before this call.
    at: Variable,
}

impl Position {
    /// The others with this call's entry in its place.
    fn with_me(self) -> Document {
        let Position { me, others, at, .. } = self;
        // The server refuses to take no element of a list.
        let ahead = cond(eq(at, 0), NO_ELEMENT, doc! { "$slice": [others, at] });
        let behind = doc! { "$slice": [others, at, LENGTH_MAX] };
        doc! { "$concatArrays": [ahead, [me], behind] }
    }

    /// A condition: this call has an entry already.
    fn is_in_it(self) -> Document {
        is_there(self.place)
    }

    /// A condition: the queue is not full.
    fn has_room(self, joins: QueueOptions) -> Document {
        doc! { "$lt": [{ "$size": self.line }, i64::from(joins.max_waiting)] }
    }
}

/// A condition: this value has the exclusive lease, and the expiry is not corrupt.
fn is_held_by(value: &str) -> Document {
    all([eq(path(format::VALUE), literal(value)), has_sound_expiry()])
}

/// A condition: the place of an element is not -1, which stands for none.
fn is_there(place: Variable) -> Document {
    doc! { "$gte": [place, 0] }
}
