//! The clients' steps, as the shell around the rules takes them.

use mongo_lease_core::rules::attempts::{Accepted, CleanupAction, Effect};
use mongo_lease_core::rules::holder::{HoldEvent, Holder};
use mongo_lease_core::rules::time::Instant;
use mongo_lease_core::rules::waiter::ServerTime;

use crate::bounds::Bounds;
use crate::client::call_of;
use crate::permits::bounds::{PermitBounds, PermitVariant, TTL};
use crate::permits::state::{Answer, Caller, Does, Permitting, Says, Stage};
use crate::releases::Ending;
use crate::server::{GrantId, GrantMatch};
use crate::state::Position;

/// A client with the world that it acts in.
pub(crate) struct Calling<'a> {
    pub(crate) bounds: &'a PermitBounds,
    pub(crate) world: &'a mut Permitting,
    pub(crate) client: usize,
}

impl Calling<'_> {
    fn caller(&mut self) -> &mut Caller {
        &mut self.world.clients[self.client]
    }

    /// The client's own clock at that time.
    fn clock(&self, tick: i64) -> Instant {
        self.bounds.clock(self.client, tick)
    }

    fn now(&self) -> Instant {
        self.clock(self.world.tick)
    }

    /// An attempt is sent.
    pub(crate) fn ask(&mut self, is_fast: bool) {
        let caller = self.caller();
        caller.started += 1;
        let attempt = u8::try_from(caller.attempts.start()).unwrap_or(u8::MAX);
        let does = match is_fast {
            true => Does::FastAttempt { attempt },
            false => Does::FullAttempt { attempt },
        };
        self.world.send(self.client, does);
    }

    pub(crate) fn heartbeat(&mut self) {
        self.caller().heartbeats += 1;
        self.world.send(self.client, Does::Heartbeat);
    }

    pub(crate) fn renew(&mut self) {
        let caller = self.caller();
        if let Stage::Holding(_, id, _) = caller.stage {
            caller.renewals += 1;
            self.world.send(self.client, Does::Renew { id });
        }
    }

    /// The lease is dropped: its own grant is released by its id, and then whatever else the call may have.
    pub(crate) fn drop_lease(&mut self) {
        let caller = self.caller();
        if let Stage::Holding(_, id, by) = caller.stage {
            caller.stage = Stage::Ended;
            let next = caller.attempts.settle();
            self.release(GrantMatch::Grant(id), by);
            self.clean_up(next);
        }
    }

    /// The call is dropped before it has a lease.
    pub(crate) fn give_up(&mut self) {
        let caller = self.caller();
        caller.stage = Stage::Ended;
        let next = caller.attempts.abandon();
        self.clean_up(next);
    }

    fn release(&mut self, which: GrantMatch, by: Ending) {
        let comes_again = self.bounds.repeats_releases;
        self.world.send(self.client, Does::End { which, by, comes_again });
    }

    fn clean_up(&mut self, next: CleanupAction) {
        match next {
            CleanupAction::Nothing => {}
            CleanupAction::GiveBack | CleanupAction::LeaveQueue => {
                let (call_id, except) = (call_of(self.client), self.caller().accepted);
                let which = GrantMatch::Call { call_id, except };
                self.release(which, Ending::HELD_OR_QUEUED);
            }
        }
    }

    /// An attempt was answered, or it is certain that no answer will come.
    pub(crate) fn answered(&mut self, effect: Effect) {
        let next = self.caller().attempts.answered(effect);
        let has_ended = self.caller().stage == Stage::Ended;
        if !has_ended || !self.bounds.is(PermitVariant::LateGrantForgotten) {
            self.clean_up(next);
        }
    }

    pub(crate) fn hear(&mut self, answer: &Answer) {
        let sent = answer.sent;
        match answer.says {
            Says::Granted { id, token } => {
                self.answered(Effect::MaybeGranted);
                let from = self.counts_from(sent, PermitVariant::ValidityFromReply);
                let (timing, options) = (self.bounds.timing(), PermitBounds::hold_options());
                let holder = Holder::granted(&timing, options, from);
                self.accept(holder, id, token, Accepted::Answer(from));
            }
            Says::Refused { now } => {
                let clock = self.clock(sent);
                self.answered(Effect::Joined(clock));
                let caller = self.caller();
                if sent >= caller.refused_at {
                    (caller.refused_at, caller.server_time) = (sent, Some(now));
                }
            }
            Says::Renewed { id, matched } => {
                let event = match matched {
                    true => HoldEvent::Renewed(self.clock(sent)),
                    false => HoldEvent::NotOurs,
                };
                let (timing, now) = (self.bounds.timing(), self.now());
                if let Stage::Holding(holder, held, _) = &mut self.caller().stage
                    && *held == id
                {
                    let _ = holder.on(&timing, now, event);
                }
            }
            Says::Admitted { id, until, token } => {
                if sent < self.caller().refused_at {
                    return;
                }
                let from = self.counts_from(sent, PermitVariant::PromotionFromHearing);
                let (timing, options) = (self.bounds.timing(), PermitBounds::hold_options());
                let own_term = Bounds::ticks(TTL.min(self.bounds.waiter_ttl));
                let term = match self.bounds.variant.trusts_promotions() {
                    true => own_term,
                    false => own_term.min(self.expires_at(until).since(from)),
                };
                let holder = Holder::promoted(&timing, options, self.now(), from, term);
                self.accept(holder, id, token, Accepted::Promotion(from));
            }
        }
    }

    /// An answer is lost: nobody knows what the command did.
    pub(crate) fn hear_nothing(&mut self, answer: &Answer) {
        match answer.says {
            Says::Granted { .. } | Says::Refused { .. } => self.answered(Effect::MaybeGranted),
            // Another renewal may be sent at any moment.
            Says::Renewed { .. } | Says::Admitted { .. } => {}
        }
    }

    /// When a promotion expires, by the client's clock and its newest refusal.
    fn expires_at(&mut self, until: i64) -> Instant {
        let Caller { refused_at, server_time, .. } = *self.caller();
        let Some(now) = server_time else {
            return Instant::START;
        };
        let server = ServerTime { at: self.clock(refused_at), ms: Bounds::server_ms(now) };
        server.until(&self.bounds.timing(), Bounds::server_ms(until))
    }

    /// The moment from which an answer counts, unless this mistake counts from when it is heard.
    fn counts_from(&self, sent: i64, mistake: PermitVariant) -> Instant {
        if self.bounds.is(mistake) { self.now() } else { self.clock(sent) }
    }

    /// Makes a lease of the grant, if it is valid and the caller still waits for it.
    fn accept(&mut self, holder: Holder, id: GrantId, token: Position, accepted: Accepted) {
        let (now, mistaken) = (self.now(), self.bounds.mistaken_hints);
        let caller = self.caller();
        let waits = caller.stage == Stage::Acquiring && holder.is_valid(now);
        if !waits || !caller.attempts.accept(accepted) {
            return;
        }
        let is_beside_others = matches!(accepted, Accepted::Promotion(_)) != mistaken;
        caller.stage = Stage::Holding(holder, id, Ending::first(is_beside_others));
        caller.accepted = Some(id);
        caller.token = token;
        let own = self.client;
        let is_later = |(other, caller): (usize, &Caller)| {
            other != own && caller.token >= token && !self.bounds.fit([other, own])
        };
        let is_out_of_order = self.world.clients.iter().enumerate().any(is_later);
        self.world.seen.tokens_out_of_order |= is_out_of_order;
    }
}
