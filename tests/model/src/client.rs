//! What clients do, as the shell around the rules does it: `acquire.rs`, `lease.rs`, `renewer.rs` and `reaper.rs`.
//!
//! What may be believed and what has to be given back is decided by the library's own `rules::holder` and
//! `rules::attempts`, and by nothing here.

use std::time::Duration;

use crate::bounds::{Bounds, Variant};
use crate::rules::attempts::{Effect, Next as NextOfCall, Taken};
use crate::rules::holder::{Event, Holder, Next as NextOfLease};
use crate::rules::time::Instant;
use crate::server::{GrantId, Key, Value, Which};
use crate::state::{Command, Does, Handed, Held, Reply, Says, Stage, World};

/// A client's acts in the world.
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

/// What is not answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Silence {
    Attempt,
    Renewal { sent: i64 },
    Release,
    Guard,
}

impl Acting<'_> {
    /// An attempt goes out.
    pub(crate) fn ask(&mut self) {
        let client = &mut self.world.clients[self.client];
        client.started += 1;
        let attempt = u8::try_from(client.attempts.start()).unwrap_or(u8::MAX);
        self.world.send(self.client, Does::Acquire { attempt });
    }

    /// Time has passed: the renewer asks the rules.
    pub(crate) fn look(&mut self) {
        if let Some(NextOfLease::Renew { .. }) = self.tell(Event::Tick) {
            self.renew();
        }
    }

    /// A renewal goes out: the renewer's, or the caller's own at any moment.
    pub(crate) fn renew(&mut self) {
        let Some(key) = self.key() else {
            return;
        };
        self.world.clients[self.client].renewals += 1;
        self.world.send(self.client, Does::Renew { key });
    }

    /// The caller's transaction begins with a guard.
    pub(crate) fn guard(&mut self) {
        let (Some(key), Some(held)) = (self.key(), self.held()) else {
            return;
        };
        let is_overtaken = held.is_overtaken;
        let _ = self.tell(Event::Guarded);
        self.world.clients[self.client].guards += 1;
        self.world.send(self.client, Does::Guard { key, is_overtaken });
    }

    /// `Lease::release`: believes no more, and sends.
    pub(crate) fn release(&mut self) {
        if let Some(held) = self.held() {
            let id = held.id;
            self.world.clients[self.client].stage = Stage::Releasing(id);
            self.world.send(self.client, Does::Release { which: Which::Grant(id) });
        }
    }

    /// The lease is dropped.
    pub(crate) fn drop_lease(&mut self) {
        if let Some(held) = self.held() {
            let which = Which::Grant(held.id);
            self.give_back(which);
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
            Says::Granted { id, token, granted_at, is_overtaken } => {
                self.answered(Effect::MaybeGranted);
                let handed = Handed { granted_at, token, client: self.client };
                self.take(reply.sent, id, is_overtaken, handed);
            }
            Says::Refused => self.answered(Effect::Nothing),
            Says::Renewed { id, matched } => {
                let sent = self.counts_from(reply.sent);
                if matched && self.bounds.variant == Variant::LossRevoked {
                    self.revoke_loss(sent);
                }
                if self.held().is_some_and(|held| held.id == id) {
                    let event = if matched { Event::Renewed { sent } } else { Event::NotOurs };
                    let _ = self.tell(event);
                }
            }
            Says::Released => self.released(),
            Says::NotGuarded => {
                let _ = self.tell(Event::NotOurs);
            }
        }
    }

    /// A reply will never come: nobody knows what the command did.
    pub(crate) fn hear_nothing(&mut self, silence: Silence) {
        match silence {
            Silence::Attempt if self.bounds.variant == Variant::GivenBackAtOnce => {
                self.give_back(self.rest_of_call());
            }
            Silence::Attempt => self.answered(Effect::MaybeGranted),
            Silence::Renewal { sent } => {
                let sent = self.bounds.clock(self.client, sent);
                let retry_after = Duration::from_millis(1);
                let _ = self.tell(Event::RenewalFailed { sent, retry_after });
            }
            Silence::Release => {
                if let Stage::Releasing(id) = self.world.clients[self.client].stage {
                    // The lease is dropped with its error, and the reaper tries again.
                    self.end_call();
                    self.give_back(Which::Grant(id));
                }
            }
            Silence::Guard => {}
        }
    }

    /// Makes a lease of a grant, unless its validity has passed, or the caller has gone or has one.
    fn take(&mut self, sent: i64, id: GrantId, is_overtaken: bool, handed: Handed) {
        let timing = self.bounds.timing();
        let counts_from = self.counts_from(sent);
        let holder = Holder::granted(&timing, Bounds::terms(), counts_from);
        let now = self.now();
        let taken = Taken::Answer { sent: counts_from };
        let client = &mut self.world.clients[self.client];
        if client.stage != Stage::Asking || !holder.is_valid(now) || !client.attempts.take(taken) {
            return;
        }
        client.stage = Stage::Holding(Held { holder, id, is_overtaken, sent });
        client.taken = Some(id);
        let others = self.world.handed.iter().filter(|earlier| earlier.client != self.client);
        let is_in_order = |earlier: &Handed| {
            let by_grant = earlier.granted_at.cmp(&handed.granted_at);
            by_grant.is_ne() && by_grant == earlier.token.cmp(&handed.token)
        };
        let all_are = others.into_iter().all(is_in_order);
        self.world.wrongs.tokens_out_of_order |= !all_are;
        self.world.handed.push(handed);
    }

    /// What a careless holder would do: as if it had been granted anew.
    fn revoke_loss(&mut self, sent: Instant) {
        let now = self.now();
        let holder = Holder::granted(&self.bounds.timing(), Bounds::terms(), sent);
        if let Stage::Holding(held) = &mut self.world.clients[self.client].stage
            && !held.holder.is_valid(now)
        {
            held.holder = holder;
        }
    }

    fn answered(&mut self, effect: Effect) {
        let next = self.world.clients[self.client].attempts.answered(effect);
        self.carry_out(next);
    }

    fn released(&mut self) {
        if matches!(self.world.clients[self.client].stage, Stage::Releasing(_)) {
            self.end_call();
        }
    }

    fn end_call(&mut self) {
        self.world.clients[self.client].stage = Stage::Ended;
        let next = self.world.clients[self.client].attempts.settle();
        if self.bounds.variant != Variant::LateGrantForgotten {
            self.carry_out(next);
        }
    }

    fn carry_out(&mut self, next: NextOfCall) {
        match next {
            NextOfCall::Nothing => {}
            NextOfCall::GiveBack | NextOfCall::Leave => self.give_back(self.rest_of_call()),
        }
    }

    /// Whatever the call may have been granted beside what its caller took.
    fn rest_of_call(&self) -> Which {
        Which::Call(call_of(self.client), self.world.clients[self.client].taken)
    }

    /// The reaper's command. Nobody waits for its reply.
    fn give_back(&mut self, which: Which) {
        self.world.send(self.client, Does::Release { which });
        if let Some(command) = self.world.commands.last_mut() {
            command.is_heard = false;
        }
    }

    fn tell(&mut self, event: Event) -> Option<NextOfLease> {
        let timing = self.bounds.timing();
        let now = self.now();
        match &mut self.world.clients[self.client].stage {
            Stage::Holding(held) => Some(held.holder.on(&timing, now, event)),
            Stage::Asking | Stage::Releasing(_) | Stage::Ended | Stage::Crashed => None,
        }
    }

    fn held(&self) -> Option<&Held> {
        self.world.clients[self.client].held()
    }

    fn key(&self) -> Option<Key> {
        let value = value_of(self.bounds, self.client);
        self.held().map(|held| Key { value, id: held.id })
    }

    fn now(&self) -> Instant {
        self.bounds.clock(self.client, self.world.tick)
    }

    /// From when what was sent then is valid.
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
            Does::Acquire { .. } => Silence::Attempt,
            Does::Renew { .. } => Silence::Renewal { sent: command.sent },
            Does::Release { .. } => Silence::Release,
            Does::Guard { .. } => Silence::Guard,
        }
    }
}

impl From<&Reply> for Silence {
    fn from(reply: &Reply) -> Silence {
        match reply.says {
            Says::Granted { .. } | Says::Refused => Silence::Attempt,
            Says::Renewed { .. } => Silence::Renewal { sent: reply.sent },
            Says::Released => Silence::Release,
            Says::NotGuarded => Silence::Guard,
        }
    }
}
