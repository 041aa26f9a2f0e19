//! The primary's steps with attempts, renewals and heartbeats.

use mongo_lease_core::rules::attempts::Effect;
use mongo_lease_core::spec::{
    self, AcquireAnswer, Element, Expiry, HolderElement, Holders, QueueOptions,
};

use crate::client::call_of;
use crate::handing_on::until;
use crate::permits::bounds::{PermitBounds, PermitVariant, TTL};
use crate::permits::client::Calling;
use crate::permits::state::{Answer, Does, Order, Permitting, Says, Stage};
use crate::primary::FOREIGNER;
use crate::server::{AcquireAttempt, Document, GrantId, Key, Promoted, Queue, Value};

/// The primary's steps in the world.
pub(crate) struct Carrying<'a> {
    pub(crate) bounds: &'a PermitBounds,
    pub(crate) world: &'a mut Permitting,
}

pub(crate) fn value_of(client: usize) -> Value {
    Value(call_of(client))
}

/// The grants that the document shows, in either form, each with its value.
pub(crate) fn grants_in(document: Option<&Document>) -> Vec<(Value, GrantId)> {
    let Some(document) = document else {
        return Vec::new();
    };
    let exclusive = document.holders_grant().map(|grant| (grant.value, grant.id));
    let shared = document.sharers().into_iter().map(|holder| (holder.grant.value, holder.grant.id));
    shared.chain(exclusive).collect()
}

impl Carrying<'_> {
    /// The values that `$$NOW` may have for a command that was sent at `sent` and is carried out now.
    pub(crate) fn stamps(bounds: &PermitBounds, world: &Permitting, order: &Order) -> Vec<i64> {
        (order.sent..=world.tick + bounds.skew).collect()
    }

    /// Carries a command out, with this `$$NOW`.
    pub(crate) fn carry_out(&mut self, order: Order, now: i64) {
        match order.does {
            Does::FastAttempt { attempt } => self.fast_attempt(order, attempt, now),
            Does::FullAttempt { attempt } => self.full_attempt(order, attempt, now),
            Does::Renew { id } => self.renew(order, id, now),
            Does::Heartbeat => {
                let (client, waiter_ttl) = (order.client, self.bounds.waiter_ttl);
                let found = self.world.document.take();
                let variant = self.bounds.variant;
                let value = value_of(client);
                let (after, _) =
                    spec::heartbeat(found, &value, now, order.sent, waiter_ttl, &variant);
                self.world.document = after;
            }
            Does::End { which, by, comes_again } => self.end(order, (which, by), comes_again, now),
        }
    }

    fn request(&self, order: Order, attempt: u8) -> AcquireAttempt {
        AcquireAttempt {
            value: value_of(order.client),
            id: GrantId { call: call_of(order.client), attempt },
            permits: self.bounds.clients[order.client].permits(),
            ttl: TTL,
            max_clock_skew: self.bounds.skew,
            sent: order.sent,
            joins: Some(QueueOptions { waiter_ttl: self.bounds.waiter_ttl, max_waiting: u32::MAX }),
            predecessor: None,
            details: (),
        }
    }

    /// Whether a client uses the fast attempts and the renewals of exclusive leases.
    fn is_exclusive(&self, client: usize) -> bool {
        self.bounds.clients[client].permits().is_exclusive()
    }

    fn fast_attempt(&mut self, order: Order, attempt: u8, now: i64) {
        let request = self.request(order, attempt);
        let (found, variant) = (self.world.document.clone(), &self.bounds.variant);
        let (after, reply) = match self.is_exclusive(order.client) {
            true => spec::fast_acquire(found, &request, now, variant),
            false => spec::fast_admit(found, &request, now, variant),
        };
        let token = self.written(after, None);
        match reply {
            AcquireAnswer::Granted(_) => {
                self.answer(order, Says::Granted { id: request.id, token })
            }
            // Only the count of answers changes with it, so it is heard at once.
            AcquireAnswer::Refused { .. } | AcquireAnswer::UseSlowForm => {
                if self.world.clients[order.client].stage != Stage::Crashed {
                    self.calling(order.client).answered(Effect::Nothing);
                }
            }
        }
    }

    fn full_attempt(&mut self, order: Order, attempt: u8, now: i64) {
        let request = self.request(order, attempt);
        let found = self.world.document.clone();
        let (after, reply) = spec::acquire(found, &request, now, &self.bounds.variant);
        let token = self.written(after, None);
        self.see_sleeper(now);
        self.answer(
            order,
            match reply {
                AcquireAnswer::Granted(id) => Says::Granted { id, token },
                AcquireAnswer::Refused { .. } => Says::Refused { now },
                AcquireAnswer::UseSlowForm => unreachable!("it is the slow form"),
            },
        );
    }

    fn renew(&mut self, order: Order, id: GrantId, now: i64) {
        let (found, variant) = (self.world.document.take(), &self.bounds.variant);
        let (value, lasts) = (value_of(order.client), TTL + self.bounds.skew);
        let (mut after, mut matched) = match self.is_exclusive(order.client) {
            true => spec::renew(found, &Key { value, id }, lasts, now, order.sent, variant),
            false => spec::renew_holders(found, &[(id, lasts)], now, order.sent, variant),
        };
        if !matched && self.bounds.is(PermitVariant::RenewalRevives) {
            matched = self.revive(&mut after, order, id, now);
        }
        self.world.document = after;
        self.answer(order, Says::Renewed { id, matched });
    }

    /// The mistake: the renewal adds its holder to a document that several hold.
    fn revive(&self, document: &mut Option<Document>, order: Order, id: GrantId, now: i64) -> bool {
        let Some(document) = document.as_mut().filter(|document| document.is_in_shared_use())
        else {
            return false;
        };
        let request = self.request(order, id.attempt);
        let alone = spec::acquire(None, &request, now, &spec::AsBuilt).0;
        let (Some(alone), Holders::List(holders)) = (alone, &mut document.holders) else {
            return false;
        };
        let revived = alone.sharers().into_iter().map(HolderElement::Holder);
        holders.extend(revived);
        if let (Expiry::At(old), Expiry::At(until)) = (document.expiry, alone.expiry) {
            document.expiry = Expiry::At(old.max(until));
        }
        true
    }

    /// The document after a write with this token, which it returns. The stream tells who was promoted or admitted, and
    /// the claims about the step are checked. `leaver`: the client that releases or leaves the queue.
    pub(crate) fn written(
        &mut self,
        mut after: Option<Document>,
        leaver: Option<usize>,
    ) -> crate::state::Position {
        let token = self.world.next_token();
        self.see_order(after.as_ref(), leaver);
        if let Some(document) = &mut after {
            let until = until(document);
            let promoted = document.promoted.take().and_then(|promoted| match promoted {
                Promoted::Entry { id, sent } => Some((id, sent, until)),
                Promoted::Recheck { .. } => None,
            });
            let admitted = std::mem::take(&mut document.admitted);
            let admitted = admitted.iter().map(|it| (it.id, it.sent, it.until));
            for (id, sent, until) in promoted.into_iter().chain(admitted) {
                let client = usize::from(id.call);
                let says = Says::Admitted { id, until, token };
                self.world.answers.push(Answer { client, sent, says });
            }
        }
        self.world.document = after;
        token
    }

    /// Checks that nobody is admitted before a waiter which is alive by every clock and stands before it.
    fn see_order(&mut self, after: Option<&Document>, leaver: Option<usize>) {
        let before = self.world.document.as_ref();
        let held = grants_in(before);
        let holds = |value: Value| held.iter().any(|(holder, _)| *holder == value);
        let mut new: Vec<Value> = grants_in(after).into_iter().map(|it| it.0).collect();
        new.retain(|value| !holds(*value));
        let Some(before) = before else {
            return;
        };
        let is_alive = |expires_at| expires_at > self.world.tick + self.bounds.skew;
        let leaver = leaver.map(value_of);
        let is_passed = new.iter().any(|admitted| {
            let mut earlier = before.queue.entries().take_while(|entry| entry.value != *admitted);
            earlier.any(|entry| {
                let waits = !new.contains(&entry.value) && !holds(entry.value);
                is_alive(entry.expires_at) && waits && Some(entry.value) != leaver
            })
        });
        self.world.seen.passed_over |= is_passed;
    }

    pub(crate) fn answer(&mut self, order: Order, says: Says) {
        let Order { client, sent, .. } = order;
        self.world.answers.push(Answer { client, sent, says });
    }

    fn calling(&mut self, client: usize) -> Calling<'_> {
        Calling { bounds: self.bounds, world: self.world, client }
    }

    /// The TTL monitor runs, at a moment that one of the members' clocks may show.
    pub(crate) fn ttl_delete(&mut self) -> bool {
        let before = self.world.document.take();
        let was_there = before.is_some();
        self.world.document = spec::ttl_delete(before, self.world.tick + self.bounds.skew);
        was_there && self.world.document.is_none()
    }

    /// Another program writes other times into all holders and into the queue.
    pub(crate) fn damage(&mut self) -> bool {
        let before = self.world.document.clone();
        let elements = self.world.document.as_mut().map(|document| document.holders.elements_mut());
        for element in elements.into_iter().flatten() {
            if let HolderElement::Holder(holder) = element {
                let grant = &mut holder.grant;
                (grant.ttl, grant.max_clock_skew, grant.sent, grant.writes) = (0, 0, 0, 0);
            }
        }
        let queue = self.world.document.as_mut().map(|document| &mut document.queue);
        if let Some(Queue::List(elements)) = queue {
            for element in elements {
                if let Element::Entry(entry) = element {
                    (entry.ttl, entry.max_clock_skew) = (0, 0);
                }
            }
        }
        let changes = before != self.world.document;
        self.world.damages += u8::from(changes);
        changes
    }

    /// The other program acquires the lease, by a clock as good as the members'.
    pub(crate) fn foreign_take(&mut self) -> bool {
        let (found, now) = (self.world.document.take(), self.world.tick);
        let (after, is_taken) = spec::foreign_acquire(found, FOREIGNER, now, TTL);
        self.world.document = after;
        self.world.foreign_take_overs += u8::from(is_taken);
        is_taken
    }

    /// The same program gives it up.
    pub(crate) fn foreign_release(&mut self) -> bool {
        let found = self.world.document.take();
        let (after, is_deleted) = spec::foreign_release(found, &FOREIGNER);
        self.world.document = after;
        is_deleted
    }
}
