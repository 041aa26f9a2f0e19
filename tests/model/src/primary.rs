//! The primary's steps with the commands that have arrived, and its failures.

use mongo_lease_core::rules::permits::Permits;
use mongo_lease_core::spec::{self, AcquireAnswer, Element, Expiry, QueueOptions};

use crate::bounds::{Bounds, Clocks, LIFE, MAX_CLOCK_SKEW, TTL, Variant};
use crate::client::{Acting, Silence, call_of, value_of};
use crate::explore::remove;
use crate::server::{AcquireAttempt, Document, GrantId, Key, Queue, Value, holders_grant};
use crate::state::{Command, Does, LastGrant, Reply, Says, World};

/// The value of the foreign program, with the usual hand-written lock.
pub(crate) const FOREIGNER: Value = Value(200);

/// For how long a renewal prolongs.
pub(crate) const LASTS: i64 = TTL + MAX_CLOCK_SKEW;

/// The primary's steps in the world. Each says whether it could be done: a write waits for a transaction.
pub(crate) struct Primary<'a> {
    pub(crate) bounds: &'a Bounds,
    pub(crate) world: &'a mut World,
}

impl Primary<'_> {
    /// The values that `$$NOW` may have for a command that was sent at `sent` and is carried out now. A member takes it
    /// when the command arrives, by a clock that is ahead of real time by at most the maximum clock skew.
    pub(crate) fn stamps(bounds: &Bounds, world: &World, sent: i64) -> Vec<i64> {
        match bounds.clocks {
            Clocks::Bounded { skew, .. } => (sent..=world.tick + skew).collect(),
            // Three moments so far apart that a grant made at one has expired at the next.
            Clocks::Unbounded => vec![0, 10, 20],
        }
    }

    /// Carries a command out, with this `$$NOW`.
    pub(crate) fn carry_out(&mut self, command: Command, now: i64) -> bool {
        let Some(at) = self.world.commands.iter().position(|&each| each == command) else {
            return false;
        };
        let says = match command.does {
            Does::Acquire { attempt, predecessor } => {
                self.acquire(command, attempt, predecessor, now)
            }
            Does::FastAcquire { attempt } => self.take(command, attempt, now),
            Does::Rest { attempt, granted_at } => self.rest(command, attempt, granted_at),
            Does::LookAtTaken { attempt, token } => {
                self.look_at_taken(command, attempt, token, now)
            }
            Does::LookAtEnded { which, by, at } => self.look_at_ended(command, which, by, at),
            Does::Renew { key } => self.renew(command, key, now),
            Does::Heartbeat => self.heartbeat(command, now),
            Does::End { which, by } => self.end(command, which, by, now),
            Does::Guard { key, is_overtaken } => self.guard(command, key, is_overtaken, now),
            Does::Confirm { says, at, is_undone } => self.confirm(command, says, at, is_undone),
        };
        let Some(says) = says else {
            return false;
        };
        self.world.commands.remove(at);
        if self.bounds.replaces && !matches!(command.does, Does::End { .. }) {
            self.tell_again();
        }
        if let (Some(says), true) = (says, command.is_heard) {
            // A write is acknowledged when a majority has it. A confirmation is a read.
            let is_read = matches!(command.does, Does::Confirm { .. });
            let waits = self.world.durable.as_ref().is_some_and(|durable| {
                let is_behind = *durable != self.world.server && !is_read;
                self.bounds.variant != Variant::AcknowledgedByOne && is_behind
            });
            let (client, sent) = (command.client, self.counts_from(command, says));
            let reply = Reply { client, sent, says, is_acknowledged: !waits };
            match waits && self.bounds.confirms {
                true => self.answer_unconfirmed(reply),
                false => self.world.replies.push(reply),
            }
        }
        true
    }

    fn acquire(
        &mut self,
        command: Command,
        attempt: u8,
        predecessor: Option<usize>,
        now: i64,
    ) -> Option<Option<Says>> {
        let client = command.client;
        let waits = self.bounds.clients[client].waits;
        let ask = self.ask_of(command, attempt, predecessor);
        let before = self.world.server.document.clone();
        let (after, answer) = spec::acquire(before.clone(), &ask, now, &self.bounds.protections());
        self.write(after.clone())?;
        // Only a waiting call distinguishes the answers to its attempts.
        let attempt = if waits.is_some() { attempt } else { 0 };
        Some(Some(match answer {
            AcquireAnswer::Refused { ahead, remaining } => {
                self.tell_promotion(before.as_ref(), after.as_ref(), None);
                let ahead = ahead.map(|ahead| u8::try_from(ahead).unwrap_or(u8::MAX));
                let remaining = remaining.filter(|_| waits.is_some());
                let now = if waits.is_some() { now } else { 0 };
                Says::Refused { attempt, ahead, remaining, now }
            }
            AcquireAnswer::Granted(id) => {
                if before.as_ref().and_then(holders_grant) != Some(id) {
                    self.see_turn(before.as_ref(), &ask);
                    self.granted(Some(client), false);
                } else if let Some(grant) = &mut self.world.server.last_grant {
                    grant.is_promotion = false;
                }
                let token = self.world.server.position;
                let granted_at = self.world.server.last_grant.map_or(0, |grant| grant.position);
                Says::Granted { attempt, id, token, granted_at, is_overtaken: false }
            }
            AcquireAnswer::UseSlowForm => unreachable!("it is the slow form"),
        }))
    }

    /// The request that an attempt carries.
    pub(crate) fn ask_of(
        &self,
        command: Command,
        attempt: u8,
        predecessor: Option<usize>,
    ) -> AcquireAttempt {
        let client = command.client;
        let waits = self.bounds.clients[client].waits;
        AcquireAttempt {
            value: value_of(self.bounds, client),
            id: GrantId { call: call_of(client), attempt },
            permits: Permits::EXCLUSIVE,
            ttl: TTL,
            max_clock_skew: MAX_CLOCK_SKEW,
            sent: command.sent,
            joins: waits
                .map(|_| QueueOptions { waiter_ttl: LIFE, max_waiting: self.bounds.max_waiting }),
            predecessor: predecessor.map(|it| value_of(self.bounds, it)),
            details: (),
        }
    }

    fn renew(&mut self, command: Command, key: Key, now: i64) -> Option<Option<Says>> {
        let found = self.world.server.document.clone();
        let id = self.matched_id(Variant::RenewalWithoutGrantId, key);
        let key_sent = Key { id, ..key };
        let protections = self.bounds.protections();
        let (after, matched) =
            spec::renew(found, &key_sent, LASTS, now, command.sent, &protections);
        self.write(after)?;
        let held = self.world.clients[command.client].held();
        let is_overtaken = held.is_some_and(|held| held.id == key.id && held.is_overtaken);
        self.world.wrongs.renewed_after_loss |= matched && is_overtaken;
        Some(Some(Says::Renewed { id: key.id, matched }))
    }

    /// The identity in a command's filter: that of the grant, unless this variant leaves it out.
    pub(crate) fn matched_id(&self, wrong: Variant, key: Key) -> GrantId {
        match self.world.server.document.as_ref().and_then(|document| document.grant) {
            Some(grant) if self.bounds.variant == wrong => grant.id,
            Some(_) | None => key.id,
        }
    }

    /// The TTL monitor runs, at a moment that one of the members' clocks may show.
    pub(crate) fn ttl_delete(&mut self) -> bool {
        let before = self.world.server.document.clone();
        let after = spec::ttl_delete(before.clone(), self.world.tick + self.bounds.skew());
        after != before && self.write(after).is_some()
    }

    /// An operator deletes the document.
    pub(crate) fn force_delete(&mut self) -> bool {
        self.world.server.document.is_some() && self.write(None).is_some()
    }

    /// The foreign program acquires the lease, by a clock as good as the members'.
    pub(crate) fn foreign_take(&mut self, now: i64) -> bool {
        let (after, is_taken) =
            spec::foreign_acquire(self.world.server.document.clone(), FOREIGNER, now, TTL);
        if !is_taken || self.write(after).is_none() {
            return false;
        }
        self.world.foreign_take_overs += 1;
        self.granted(None, false);
        true
    }

    /// The same program gives it up.
    pub(crate) fn foreign_release(&mut self) -> bool {
        let (after, is_deleted) =
            spec::foreign_release(self.world.server.document.clone(), &FOREIGNER);
        is_deleted && self.write(after).is_some()
    }

    /// Another program writes other numbers into the grant and into the queue: times of nothing, and counts that start
    /// again.
    pub(crate) fn damage(&mut self) -> bool {
        let mut after = self.world.server.document.clone();
        if self.bounds.damages_expiry {
            if let Some(document) = &mut after {
                document.expiry = Expiry::Damaged;
            }
            let changes = after != self.world.server.document && self.write(after).is_some();
            self.world.damages += u8::from(changes);
            return changes;
        }
        if let Some(Queue::List(elements)) = after.as_mut().map(|document| &mut document.queue) {
            for element in elements {
                if let Element::Entry(entry) = element {
                    (entry.ttl, entry.max_clock_skew) = (0, 0);
                }
            }
        }
        if let Some(grant) = after.as_mut().and_then(|document| document.grant.as_mut()) {
            (grant.ttl, grant.max_clock_skew, grant.sent, grant.writes) = (0, 0, 0, 0);
        }
        let changes = after != self.world.server.document && self.write(after).is_some();
        self.world.damages += u8::from(changes);
        changes
    }

    /// Answers once more, from the stored result and with the newest time.
    pub(crate) fn answer_again(&mut self, mut reply: Reply) {
        remove(&mut self.world.replies, &reply);
        if let Says::Granted { token, .. } = &mut reply.says {
            *token = self.world.server.position;
        }
        self.world.replies.push(reply);
    }

    /// A majority has everything that was written so far.
    pub(crate) fn replicate(&mut self) -> bool {
        let is_behind = self.world.durable.as_ref().is_some_and(|it| *it != self.world.server);
        if is_behind {
            self.world.durable = Some(self.world.server.clone());
            self.world.replies.iter_mut().for_each(|reply| reply.is_acknowledged = true);
        }
        is_behind
    }

    /// The primary is lost, with all that no majority has. A client that waits for an acknowledgement learns of the
    /// break.
    pub(crate) fn roll_back(&mut self) -> bool {
        let Some(durable) = self.world.durable.clone().filter(|it| *it != self.world.server) else {
            return false;
        };
        // Writes without an acknowledgement are not checked: their commands have broken.
        let is_lost = |command: &Command| match command.does {
            Does::Rest { .. } => true,
            Does::LookAtTaken { token: at, .. } | Does::LookAtEnded { at, .. } => {
                at > durable.position
            }
            Does::Acquire { .. }
            | Does::FastAcquire { .. }
            | Does::Renew { .. }
            | Does::Heartbeat
            | Does::End { .. }
            | Does::Guard { .. }
            | Does::Confirm { .. } => false,
        };
        let commands = std::mem::take(&mut self.world.commands);
        let (lost, kept): (Vec<_>, Vec<_>) = commands.into_iter().partition(is_lost);
        self.world.commands = kept;
        self.ask_the_next_primary(durable.position);
        self.world.server = durable;
        self.world.rollbacks += 1;
        self.world.see_undone_grants();
        for command in lost.into_iter().filter(|command| command.is_heard) {
            let mut acting =
                Acting { bounds: self.bounds, world: self.world, client: command.client };
            acting.hear_nothing(Silence::from(&command));
        }
        let replies = std::mem::take(&mut self.world.replies);
        let (kept, broken): (Vec<_>, Vec<_>) =
            replies.into_iter().partition(|reply| reply.is_acknowledged);
        self.world.replies = kept;
        for reply in broken {
            let mut acting =
                Acting { bounds: self.bounds, world: self.world, client: reply.client };
            acting.hear_nothing(Silence::from(&reply));
        }
        true
    }

    /// Writes the document. `None` when a transaction has it, and the write has to wait.
    pub(crate) fn write(&mut self, after: Option<Document>) -> Option<()> {
        if after == self.world.server.document {
            return Some(());
        }
        let has_written = self.bounds.variant != Variant::GuardThatWritesNothing;
        if self.world.transaction.is_some() && has_written {
            return None;
        }
        self.see_order(after.as_ref());
        let before = self.world.server.document.as_ref();
        self.world.wrongs.wrote_damaged |= before.is_some_and(|it| it.expiry == Expiry::Damaged);
        self.world.server.document = after;
        self.world.server.position += 1;
        for begun in self.world.clients.iter_mut().filter_map(|client| client.begun.as_mut()) {
            begun.is_behind = true;
        }
        if let (Some(document), false) = (&mut self.world.server.document, self.bounds.replaces) {
            // The stream's events are made at the write itself.
            document.promoted = None;
        }
        Some(())
    }

    pub(crate) fn granted(&mut self, client: Option<usize>, is_promotion: bool) {
        let position = self.world.server.position;
        self.world.server.last_grant = Some(LastGrant { client, position, is_promotion });
        self.world.overtake(client);
    }
}
