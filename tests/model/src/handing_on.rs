//! The primary's steps with the queue: heartbeats, leases that end, promotions, and the stream's events.
//!
//! The claims about each such step stand beside it.

use mongo_lease_core::spec::{self, Expiry};

use crate::bounds::{Bounds, LIFE, Variant};
use crate::client::value_of;
use crate::primary::Primary;
use crate::properties::believes;
use crate::releases::Ending;
use crate::server::{
    AcquireAttempt, Document, Entry, GrantId, GrantMatch, Promoted, Queue, Value, holders_grant,
};
use crate::state::{Command, Does, Says, Stage, StreamEvent, World};

impl Primary<'_> {
    pub(crate) fn heartbeat(&mut self, command: Command, now: i64) -> Option<Option<Says>> {
        let value = value_of(self.bounds, command.client);
        let found = self.world.server.document.clone();
        let protections = self.bounds.protections();
        let (after, matched) =
            spec::heartbeat(found, &value, now, command.sent, LIFE, &protections);
        self.write(after)?;
        Some(Some(Says::HeartbeatConfirmed { matched }))
    }

    /// Ends a lease, and promotes. Where this command matches nothing, the next one is sent.
    pub(crate) fn end(
        &mut self,
        command: Command,
        which: GrantMatch,
        by: Ending,
        now: i64,
    ) -> Option<Option<Says>> {
        let matched = self.end_now(command.client, which, by, now)?;
        match by.next() {
            Some(next) if !matched => {
                let does = Does::End { which, by: next };
                let sent = self.world.tick;
                self.world.commands.push(Command { sent, does, ..command });
                Some(None)
            }
            Some(_) | None => Some(Some(Says::Released { matched })),
        }
    }

    /// Carries out one of these commands, and says whether it matched.
    pub(crate) fn end_now(
        &mut self,
        client: usize,
        which: GrantMatch,
        by: Ending,
        now: i64,
    ) -> Option<bool> {
        let value = value_of(self.bounds, client);
        let before = self.world.server.document.clone();
        let protections = self.bounds.protections();
        let is_by_name = by == Ending::Delete && self.bounds.variant == Variant::ReleaseByName;
        let (after, is_ended) = match is_by_name {
            true => (None, before.is_some()),
            false => {
                let (found, tombstones) = (before.clone(), self.bounds.tombstones);
                by.carry_out(found, (value, which), tombstones, now, &protections)
            }
        };
        self.write(after.clone())?;
        if is_ended && holder(before.as_ref()) != holder(after.as_ref()) {
            let last = self.world.server.last_grant.and_then(|grant| grant.client);
            // A call that only leaves the queue may find an expired lease, as each attempt may.
            let is_free = before.as_ref().is_some_and(|it| has_passed(it.expiry, now));
            let may_take = by == Ending::HELD_OR_QUEUED && is_free;
            self.world.wrongs.released_anothers |= last != Some(client) && !may_take;
            self.world.wrongs.released_what_is_held |= believes(self.bounds, self.world, client);
            self.tell_promotion(before.as_ref(), after.as_ref(), Some(value));
        }
        if is_ended && self.bounds.cuts > 0 && matches!(which, GrantMatch::Grant(_)) {
            self.world.server.ended |= 1 << client;
        }
        Some(is_ended)
    }

    /// Tells the waiter to which a command of another has granted the lease. `leaver`: the value that has ended its
    /// lease, or left the queue.
    pub(crate) fn tell_promotion(
        &mut self,
        before: Option<&Document>,
        after: Option<&Document>,
        leaver: Option<Value>,
    ) {
        if holder(before) == holder(after) {
            return;
        }
        let Some(document) = after else {
            return;
        };
        let Document { value: Some(value), promoted: Some(promoted), .. } = document else {
            return;
        };
        let until = until(document);
        let &Promoted::Entry { id, sent } = promoted else {
            return;
        };
        let client = usize::from(id.call);
        // A lease that was ended keeps the text of the earlier promotion.
        if *value != value_of(self.bounds, client) {
            return;
        }
        if let Some(before) = before {
            let mut earlier = before.queue.entries().take_while(|entry| entry.value != *value);
            self.world.wrongs.passed_over |= earlier.any(|entry| {
                let waits = Some(entry.value) != before.value && Some(entry.value) != leaver;
                waits && self.gave_signs(entry)
            });
        }
        self.granted(Some(client), true);
        let token = self.world.server.position;
        self.tell(
            client,
            StreamEvent { id, sent, until, token, granted_at: token, is_overtaken: false },
        );
    }

    fn tell(&mut self, client: usize, told: StreamEvent) {
        let client = &mut self.world.clients[client];
        let is_there = matches!(client.stage, Stage::Acquiring | Stage::Bequeathed);
        if let Some(line) = client.line.as_mut().filter(|line| is_there && !line.has_no_stream) {
            line.events.push(told);
        }
    }

    /// The whole document reaches the stream, and with it the promotion of the current holder.
    pub(crate) fn tell_again(&mut self) {
        let Some(document) = &self.world.server.document else {
            return;
        };
        let Some(Promoted::Entry { id, sent }) = document.promoted else {
            return;
        };
        if holders_grant(document) == Some(id) {
            let token = self.world.server.position;
            let granted_at = self.world.server.last_grant.map_or(0, |grant| grant.position);
            let until = until(document);
            let told = StreamEvent { id, sent, until, token, granted_at, is_overtaken: false };
            self.tell(usize::from(id.call), told);
        }
    }

    /// Whether its newest heartbeat still counts by every clock.
    fn gave_signs(&self, entry: &Entry) -> bool {
        entry.expires_at > self.world.tick + self.bounds.skew()
    }

    /// Checks a grant to a caller: no other live waiter may stand before it.
    pub(crate) fn see_turn(&mut self, before: Option<&Document>, ask: &AcquireAttempt) {
        let Some(before) = before else {
            return;
        };
        // The predecessor's entry is the caller's own.
        if before.value.is_some() && before.value == ask.predecessor {
            return;
        }
        let is_own =
            |entry: &Entry| entry.value == ask.value || Some(entry.value) == ask.predecessor;
        let mut before_own = before.queue.entries().take_while(|entry| !is_own(entry));
        let counts = |entry: &Entry| Some(entry.value) != before.value && self.gave_signs(entry);
        self.world.wrongs.barged |= before_own.any(counts);
    }

    /// Checks that waiters which are in the queue before and after a write keep their order.
    pub(crate) fn see_order(&mut self, after: Option<&Document>) {
        let (Some(before), Some(after)) = (&self.world.server.document, after) else {
            return;
        };
        let has = |queue: &Queue, value| queue.entries().any(|entry| entry.value == value);
        // A call that takes over an entry keeps that entry's position.
        let as_after = |entry: &Entry| {
            let heir = heir_of(self.bounds, entry.value);
            let is_new = |heir: &Value| has(&after.queue, *heir) && !has(&before.queue, *heir);
            heir.filter(is_new).unwrap_or(entry.value)
        };
        let old: Vec<Value> = before.queue.entries().map(as_after).collect();
        let new: Vec<Value> = after.queue.entries().map(|entry| entry.value).collect();
        let kept: Vec<_> = old.iter().filter(|value| new.contains(value)).collect();
        let found: Vec<_> = new.iter().filter(|value| old.contains(value)).collect();
        let is_shorter = |entry: &Entry| {
            let same =
                before.queue.entries().find(|old| (old.value, old.id) == (entry.value, entry.id));
            same.is_some_and(|old| entry.expires_at < old.expires_at)
        };
        let is_shortened = after.queue.entries().any(is_shorter);
        self.world.wrongs.reordered |= kept != found;
        self.world.wrongs.shortened |= is_shortened;
    }
}

/// The holder of the lease, and its grant.
fn holder(document: Option<&Document>) -> Option<(Option<Value>, Option<GrantId>)> {
    document.map(|document| (document.value, holders_grant(document)))
}

fn has_passed(expiry: Expiry, now: i64) -> bool {
    matches!(expiry, Expiry::At(at) if at <= now)
}

/// The value of the call behind this one in the local queue of their process.
fn heir_of(bounds: &Bounds, value: Value) -> Option<Value> {
    let follows = |client: &usize| {
        let waits = bounds.clients[*client].waits;
        waits.and_then(|waits| waits.follows).map(|first| value_of(bounds, first)) == Some(value)
    };
    (0..bounds.clients.len()).find(follows).map(|heir| value_of(bounds, heir))
}

/// Whether a live client holds the lease that the document shows.
pub(crate) fn is_in_living_hands(world: &World) -> bool {
    let holds = |stage: &Stage| matches!(stage, Stage::Holding(_) | Stage::Releasing(_));
    world.clients.iter().any(|client| holds(&client.stage))
}

/// When the lease of this document expires.
pub(crate) fn until(document: &Document) -> i64 {
    match document.expiry {
        Expiry::At(at) => at,
        Expiry::Absent | Expiry::Damaged => 0,
    }
}
