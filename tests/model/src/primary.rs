//! What the primary does with the commands that have come, and what befalls it.

use crate::bounds::{ALLOWANCE, Bounds, Clocks, TTL, Variant};
use crate::client::{Acting, Silence, call_of, value_of};
use crate::properties::believes;
use crate::server::{self, Acquired, Ask, Document, GrantId, Key, Value, Which, Write};
use crate::state::{Command, Does, LastGrant, Reply, Says, Transaction, World};

/// The value of the program with the usual recipe.
const FOREIGNER: Value = Value(200);

/// The primary's acts in the world. Each says whether it could be done: a write waits for a transaction.
pub(crate) struct Primary<'a> {
    pub(crate) bounds: &'a Bounds,
    pub(crate) world: &'a mut World,
}

impl Primary<'_> {
    /// What `$$NOW` may be for a command that was sent at `sent` and is carried out now: it was taken when the
    /// command arrived, by a member whose clock is ahead of real time by something within the allowance.
    pub(crate) fn stamps(bounds: &Bounds, world: &World, sent: i64) -> Vec<i64> {
        match bounds.clocks {
            Clocks::Bounded { skew, .. } => (sent..=world.tick + skew).collect(),
            // Three moments so far from each other that at each what was granted at one before has run out.
            Clocks::Unbounded => vec![0, 10, 20],
        }
    }

    /// Carries a command out, with this `$$NOW`.
    pub(crate) fn carry_out(&mut self, command: Command, now: i64) -> bool {
        let Some(at) = self.world.commands.iter().position(|&each| each == command) else {
            return false;
        };
        let says = match command.does {
            Does::Acquire { attempt } => self.acquire(command, attempt, now),
            Does::Renew { key } => self.renew(key, now),
            Does::Release { which } => self.release(command.client, which),
            Does::Guard { key, is_overtaken } => self.guard(command.client, key, is_overtaken, now),
        };
        let Some(says) = says else {
            return false;
        };
        self.world.commands.remove(at);
        if let (Some(says), true) = (says, command.is_heard) {
            // What was written is acknowledged when a majority has it.
            let waits = self.world.durable.as_ref().is_some_and(|durable| {
                self.bounds.variant != Variant::AcknowledgedByOne && *durable != self.world.server
            });
            let (client, sent) = (command.client, command.sent);
            self.world.replies.push(Reply { client, sent, says, is_acknowledged: !waits });
        }
        true
    }

    fn acquire(&mut self, command: Command, attempt: u8, now: i64) -> Option<Option<Says>> {
        let client = command.client;
        let ask = Ask {
            value: value_of(self.bounds, client),
            id: GrantId { call: call_of(client), attempt },
            ttl: TTL,
            allowance: ALLOWANCE,
            sent: command.sent,
        };
        let again = self.written_by(Variant::PlainSetInRepeatedAcquire);
        let before = self.world.server.document;
        let (after, answer) = server::acquire(before, &ask, now, again);
        self.write(after)?;
        Some(Some(match answer {
            Acquired::Refused => Says::Refused,
            Acquired::Granted(id) => {
                if before.and_then(|document| document.holders_grant()) != Some(id) {
                    self.granted(Some(client));
                }
                let token = self.world.server.position;
                let granted_at = self.world.server.last_grant.map_or(0, |grant| grant.position);
                Says::Granted { id, token, granted_at, is_overtaken: false }
            }
        }))
    }

    fn renew(&mut self, key: Key, now: i64) -> Option<Option<Says>> {
        let write = self.written_by(Variant::PlainSetInRenewal);
        let (after, matched) = server::renew(self.world.server.document, key, now, 0, write);
        self.write(after)?;
        Some(Some(Says::Renewed { id: key.id, matched }))
    }

    fn release(&mut self, client: usize, which: Which) -> Option<Option<Says>> {
        let before = self.world.server.document;
        let value = value_of(self.bounds, client);
        let (after, is_deleted) = match self.bounds.variant == Variant::ReleaseByName {
            true => (None, before.is_some()),
            false => server::release(before, value, which),
        };
        self.write(after)?;
        if is_deleted {
            let holder = self.world.server.last_grant.and_then(|grant| grant.client);
            self.world.wrongs.released_anothers |= holder != Some(client);
            self.world.wrongs.released_what_is_held |= believes(self.bounds, self.world, client);
        }
        Some(Some(Says::Released))
    }

    fn guard(
        &mut self,
        client: usize,
        key: Key,
        is_overtaken: bool,
        now: i64,
    ) -> Option<Option<Says>> {
        if self.world.transaction.is_some() {
            return None;
        }
        let found = self.world.server.document;
        let id = match (self.bounds.variant == Variant::GuardWithoutGrantId, found) {
            (true, Some(Document { grant: Some(grant), .. })) => grant.id,
            (true, Some(_) | None) | (false, _) => key.id,
        };
        match server::guard(found, Key { value: key.value, id }, now, 0) {
            None => Some(Some(Says::NotGuarded)),
            Some(commits) => {
                self.world.transaction = Some(Transaction { client, commits, is_overtaken });
                // The caller hears of it, and commits or not.
                Some(None)
            }
        }
    }

    /// A transaction commits: now everybody sees what its guard wrote, and what the caller wrote with it.
    pub(crate) fn commit(&mut self) -> bool {
        let Some(transaction) = self.world.transaction.take() else {
            return false;
        };
        self.world.wrongs.committed_after_loss |= transaction.is_overtaken;
        if self.bounds.variant != Variant::GuardThatWritesNothing {
            let _ = self.write(Some(transaction.commits));
        }
        true
    }

    /// The TTL monitor looks, at a moment that one of the members' clocks may show.
    pub(crate) fn ttl_delete(&mut self) -> bool {
        let before = self.world.server.document;
        let after = server::ttl_delete(before, self.world.tick + self.bounds.skew());
        after != before && self.write(after).is_some()
    }

    /// An operator deletes what is there.
    pub(crate) fn force_delete(&mut self) -> bool {
        self.world.server.document.is_some() && self.write(None).is_some()
    }

    /// A program with the usual recipe, whose clock is as good as the members'.
    pub(crate) fn foreign_take(&mut self, now: i64) -> bool {
        let (after, is_taken) =
            server::foreign_take(self.world.server.document, FOREIGNER, now, TTL);
        if !is_taken || self.write(after).is_none() {
            return false;
        }
        self.world.foreign_take_overs += 1;
        self.granted(None);
        true
    }

    /// The same program gives it up.
    pub(crate) fn foreign_release(&mut self) -> bool {
        let (after, is_deleted) =
            server::release(self.world.server.document, FOREIGNER, Which::Any);
        is_deleted && self.write(after).is_some()
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

    /// The primary is lost, and with it what no majority has. Who waits for an acknowledgement learns that it broke.
    pub(crate) fn roll_back(&mut self) -> bool {
        let Some(durable) = self.world.durable.clone().filter(|it| *it != self.world.server) else {
            return false;
        };
        self.world.server = durable;
        self.world.rollbacks += 1;
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

    /// How an expiry is written, where this variant writes it wrongly.
    fn written_by(&self, wrong: Variant) -> Write {
        if self.bounds.variant == wrong { Write::Plain } else { Write::Max }
    }

    /// Nothing when a transaction has the document, and the write has to wait for it.
    fn write(&mut self, after: Option<Document>) -> Option<()> {
        if after == self.world.server.document {
            return Some(());
        }
        let has_written = self.bounds.variant != Variant::GuardThatWritesNothing;
        if self.world.transaction.is_some() && has_written {
            return None;
        }
        self.world.server.document = after;
        self.world.server.position += 1;
        Some(())
    }

    fn granted(&mut self, client: Option<usize>) {
        let position = self.world.server.position;
        self.world.server.last_grant = Some(LastGrant { client, position });
        self.world.overtake(client);
    }
}
