//! The steps of clients, as the shell around the rules takes them: `asking.rs`, `call.rs`, `lease.rs`, the renewer and
//! the background releaser. Waiting is in `waiting.rs`.
//!
//! Only the library's own `rules::holder` and `rules::attempts` decide what may be believed and what must be given
//! back.

use std::time::Duration;

use mongo_lease_core::rules::attempts::{Accepted, CleanupAction, Effect};
use mongo_lease_core::rules::holder::{HoldAction, HoldEvent, Holder};
use mongo_lease_core::rules::time::Instant;

use crate::bounds::{Bounds, First, Variant};
use crate::releases::Ending;
use crate::server::{GrantId, GrantMatch, Key, Value};
use crate::state::{Command, Does, Handed, Held, Leaving, Reply, Says, Stage, World};

/// A client with the world that it acts in.
pub(crate) struct Acting<'a> {
    pub(crate) bounds: &'a Bounds,
    pub(crate) world: &'a mut World,
    pub(crate) client: usize,
}

/// The number of a client as its call's.
pub(crate) fn call_of(client: usize) -> u8 {
    u8::try_from(client).unwrap_or(u8::MAX)
}

/// A client's value: its own, unless two are to share one.
pub(crate) fn value_of(bounds: &Bounds, client: usize) -> Value {
    if bounds.variant == Variant::ValueUsedTwice { Value(0) } else { Value(call_of(client)) }
}

/// Why a command has no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Silence {
    Attempt,
    Renewal { sent: i64 },
    Release,
    Guard,
    Heartbeat,
}

/// A grant that the client has won, by an attempt or by a promotion.
pub(crate) struct Won {
    pub(crate) holder: Holder,
    pub(crate) taken: Accepted,
    /// When the command was sent from which its validity counts.
    pub(crate) sent: i64,
    pub(crate) id: GrantId,
    pub(crate) is_overtaken: bool,
    pub(crate) handed: Handed,
}

impl Acting<'_> {
    /// An attempt is sent. While none of the call is answered, it goes in a batch as the first one does.
    pub(crate) fn ask(&mut self, is_unanswered: bool) {
        let client = &mut self.world.clients[self.client];
        client.started += 1;
        let attempt = u8::try_from(client.attempts.start()).unwrap_or(u8::MAX);
        let predecessor = client.line.as_ref().and_then(|line| line.heirloom);
        let is_again = is_unanswered && self.bounds.first == First::Together;
        let is_fast = self.bounds.first != First::Whole && (attempt == 1 || is_again);
        let is_short = is_fast && predecessor.is_none();
        let does = match is_short {
            true => Does::FastAcquire { attempt },
            false => Does::Acquire { attempt, predecessor },
        };
        self.world.send(self.client, does);
    }

    /// Time has passed: the renewer asks the rules.
    pub(crate) fn look(&mut self) {
        if let Some(HoldAction::Renew { .. }) = self.tell(HoldEvent::Timer)
            && !self.world.clients[self.client].is_held_back_for_ever(self.bounds)
        {
            self.renew();
        }
    }

    /// A renewal is sent: by the renewer, or by the caller at any moment.
    pub(crate) fn renew(&mut self) {
        let Some(key) = self.key() else {
            return;
        };
        self.world.clients[self.client].renewals += 1;
        self.world.send(self.client, Does::Renew { key });
    }

    /// `Lease::release`: the client stops believing, and sends the release.
    pub(crate) fn release(&mut self) {
        if let Some(held) = self.held() {
            let (id, by) = (held.id, Ending::first(held.was_promoted));
            let leaving = self.leaving(held);
            self.world.clients[self.client].stage = Stage::Releasing(leaving);
            self.world.send(self.client, Does::End { which: GrantMatch::Grant(id), by });
        }
    }

    /// The lease is dropped.
    pub(crate) fn drop_lease(&mut self) {
        if let Some(held) = self.held() {
            let which = GrantMatch::Grant(held.id);
            let by = Ending::first(held.was_promoted);
            self.give_back(which, by);
            if self.bounds.variant == Variant::CallNotSettled {
                self.world.clients[self.client].stage = Stage::Ended;
            } else {
                self.end_call();
            }
        }
    }

    /// The call is dropped before it has a lease.
    pub(crate) fn abandon(&mut self) {
        let next = self.world.clients[self.client].attempts.abandon();
        self.world.clients[self.client].stage = Stage::Ended;
        self.carry_out(next);
    }

    /// A reply has come.
    pub(crate) fn hear(&mut self, reply: &Reply) {
        match reply.says {
            Says::Granted { attempt, id, token, granted_at, is_overtaken } => {
                self.answered(Effect::MaybeGranted);
                let handed = Handed { granted_at, token, client: self.client };
                self.hear_granted(attempt, reply.sent, id, is_overtaken, handed);
            }
            Says::Refused { attempt, ahead, remaining, now } => {
                let sent = self.clock(reply.sent);
                let joined = ahead.map_or(Effect::Nothing, |_| Effect::Joined(sent));
                self.answered(joined);
                self.hear_refused(attempt, reply.sent, (ahead, remaining), now);
            }
            Says::AskAgain { attempt, maybe_granted } => {
                let effect = if maybe_granted { Effect::MaybeGranted } else { Effect::Nothing };
                self.answered(effect);
                self.ask_by_the_whole_form(attempt);
            }
            Says::HeartbeatConfirmed { matched } => self.heartbeat_confirmed(reply.sent, matched),
            Says::Renewed { id, matched } => {
                let sent = self.counts_from(reply.sent);
                if matched && self.bounds.variant == Variant::LossRevoked {
                    self.revoke_loss(sent);
                }
                if self.held().is_some_and(|held| held.id == id) {
                    let event = if matched { HoldEvent::Renewed(sent) } else { HoldEvent::NotOurs };
                    let _ = self.tell(event);
                }
            }
            Says::Released { matched } => self.hear_released(matched),
            Says::Gone => self.hear_gone(),
            Says::NotGuarded => {
                let _ = self.tell(HoldEvent::NotOurs);
            }
            // The caller may begin another transaction.
            Says::Conflicted => {}
        }
    }

    /// A reply will never come: nobody knows what the command did.
    pub(crate) fn hear_nothing(&mut self, silence: Silence) {
        match silence {
            Silence::Attempt if self.bounds.variant == Variant::GivenBackAtOnce => {
                self.give_back(self.rest_of_call(), Ending::Delete);
            }
            Silence::Attempt => {
                self.answered(Effect::MaybeGranted);
                self.ask_beside(true);
            }
            Silence::Renewal { sent } => {
                let sent = self.bounds.clock(self.client, sent);
                let retry_after = Duration::from_millis(1);
                let _ = self.tell(HoldEvent::RenewalFailed { sent, retry_after });
            }
            Silence::Release => {
                if let Stage::Releasing(Leaving { id, .. }) = self.world.clients[self.client].stage
                {
                    // The lease is dropped with its error, and the background releaser tries again.
                    self.end_call();
                    self.give_back(GrantMatch::Grant(id), Ending::Delete);
                }
            }
            Silence::Guard | Silence::Heartbeat => {}
        }
    }

    /// The grant in an answer.
    pub(crate) fn won(&self, sent: i64, id: GrantId, is_overtaken: bool, handed: Handed) -> Won {
        let counts_from = self.counts_from(sent);
        let holder = Holder::granted(&self.bounds.timing(), Bounds::terms(), counts_from);
        let taken = Accepted::Answer(counts_from);
        Won { holder, taken, sent, id, is_overtaken, handed }
    }

    /// Makes a lease of the grant, and says whether it did. It does not if the validity has passed, or if the caller
    /// has gone or has a lease.
    pub(crate) fn take(&mut self, won: Won) -> bool {
        let Won { holder, taken, sent, id, is_overtaken, handed } = won;
        let now = self.now();
        let client = &mut self.world.clients[self.client];
        let is_remembered = !client.attempts.has_one_grant_only(taken);
        if client.stage != Stage::Acquiring
            || !holder.is_valid(now)
            || !client.attempts.accept(taken)
        {
            return false;
        }
        let was_promoted = matches!(taken, Accepted::Promotion(_));
        client.stage = Stage::Holding(Held { holder, id, is_overtaken, sent, was_promoted });
        client.taken = Some(id);
        client.is_remembered = is_remembered;
        let others = self.world.handed.iter().filter(|earlier| earlier.client != self.client);
        let is_in_order = |earlier: &Handed| {
            let by_grant = earlier.granted_at.cmp(&handed.granted_at);
            by_grant.is_ne() && by_grant == earlier.token.cmp(&handed.token)
        };
        let all_are = others.into_iter().all(is_in_order);
        self.world.wrongs.tokens_out_of_order |= !all_are;
        self.world.handed.push(handed);
        true
    }

    /// The mistake of a careless holder: it acts as if the lease had been granted anew.
    fn revoke_loss(&mut self, sent: Instant) {
        let now = self.now();
        let holder = Holder::granted(&self.bounds.timing(), Bounds::terms(), sent);
        if let Stage::Holding(held) = &mut self.world.clients[self.client].stage
            && !held.holder.is_valid(now)
        {
            held.holder = holder;
        }
    }

    pub(crate) fn answered(&mut self, effect: Effect) {
        let next = self.world.clients[self.client].attempts.answered(effect);
        self.carry_out(next);
    }

    pub(crate) fn end_call(&mut self) {
        let client = &mut self.world.clients[self.client];
        client.stage = Stage::Ended;
        if !client.is_remembered {
            return;
        }
        let next = client.attempts.settle();
        if self.bounds.variant != Variant::LateGrantForgotten {
            self.carry_out(next);
        }
    }

    pub(crate) fn carry_out(&mut self, next: CleanupAction) {
        let waits = self.bounds.clients[self.client].waits.is_some();
        let by = match (next, waits) {
            (CleanupAction::Nothing, _) => return,
            (CleanupAction::LeaveQueue, _) | (CleanupAction::GiveBack, true) => {
                Ending::HELD_OR_QUEUED
            }
            (CleanupAction::GiveBack, false) => Ending::Delete,
        };
        if self.bounds.variant == Variant::LeavesOnce {
            let client = &mut self.world.clients[self.client];
            if std::mem::replace(&mut client.has_left, true) {
                return;
            }
        }
        self.give_back(self.rest_of_call(), by);
    }

    /// Every grant that the call may have, except the one that its caller got.
    fn rest_of_call(&self) -> GrantMatch {
        let except = self.world.clients[self.client].taken;
        GrantMatch::Call { call_id: call_of(self.client), except }
    }

    /// The command of the background releaser. Nobody waits for its reply.
    fn give_back(&mut self, which: GrantMatch, by: Ending) {
        self.world.send(self.client, Does::End { which, by });
        if let Some(command) = self.world.commands.last_mut() {
            command.is_heard = false;
        }
    }

    pub(crate) fn tell(&mut self, event: HoldEvent) -> Option<HoldAction> {
        let (timing, now) = (self.bounds.timing(), self.now());
        let Stage::Holding(held) = &mut self.world.clients[self.client].stage else {
            return None;
        };
        Some(held.holder.on(&timing, now, event))
    }

    pub(crate) fn held(&self) -> Option<&Held> {
        self.world.clients[self.client].held()
    }

    pub(crate) fn key(&self) -> Option<Key> {
        let value = value_of(self.bounds, self.client);
        self.held().map(|held| Key { value, id: held.id })
    }

    pub(crate) fn now(&self) -> Instant {
        self.clock(self.world.tick)
    }

    /// The client's own clock at that time.
    pub(crate) fn clock(&self, tick: i64) -> Instant {
        self.bounds.clock(self.client, tick)
    }

    /// The moment from which a command that was sent at `sent` is valid.
    fn counts_from(&self, sent: i64) -> Instant {
        if self.bounds.variant == Variant::ValidityFromReply {
            return self.now();
        }
        self.bounds.clock(self.client, sent)
    }
}

impl From<&Command> for Silence {
    fn from(command: &Command) -> Silence {
        match command.does {
            Does::Acquire { .. }
            | Does::FastAcquire { .. }
            | Does::Rest { .. }
            | Does::LookAtTaken { .. } => Silence::Attempt,
            Does::Renew { .. } => Silence::Renewal { sent: command.sent },
            Does::Heartbeat => Silence::Heartbeat,
            Does::End { .. } | Does::LookAtEnded { .. } => Silence::Release,
            Does::Guard { .. } => Silence::Guard,
            Does::Confirm { says, .. } => {
                let Command { client, sent, .. } = *command;
                Silence::from(&Reply { client, sent, says, is_acknowledged: false })
            }
        }
    }
}

impl From<&Reply> for Silence {
    fn from(reply: &Reply) -> Silence {
        match reply.says {
            Says::Granted { .. } | Says::Refused { .. } | Says::AskAgain { .. } => Silence::Attempt,
            Says::HeartbeatConfirmed { .. } => Silence::Heartbeat,
            Says::Renewed { .. } => Silence::Renewal { sent: reply.sent },
            Says::Released { .. } | Says::Gone => Silence::Release,
            Says::NotGuarded | Says::Conflicted => Silence::Guard,
        }
    }
}
