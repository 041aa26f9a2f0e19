//! One held lease: the state that its handle, the renewer and the timer share.

#[cfg(test)]
mod tests;

mod agenda;
pub(crate) mod loss;
mod renewals;
pub(crate) mod renewer;
pub(crate) mod unmatched;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use chrono::{DateTime, Utc};
use mongo_lease_core::commands::{Form, GrantKey, GrantMatch, ReleaseTarget, RenewalTarget};
use mongo_lease_core::rules::{
    HoldAction, HoldEvent, HoldOptions, Holder, Instant, Loss, Permits, Timing,
};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::clock::Clock;
use crate::error::{Error, LostReason};
use crate::lock::Lock;
use crate::release::ReleaseHint;
use crate::release::background::GiveBack;
use crate::release::call_state::CallState;
use crate::telemetry::{Event, Events};
use crate::token::Token;

/// One lease that is or was held.
pub(crate) struct Holding {
    pub(crate) key: Arc<GrantKey>,
    pub(crate) token: Token,
    pub(crate) timing: Arc<Timing>,
    hold_at_least: Option<Duration>,
    /// The call that was granted the lease, if it may still cause other grants.
    call: Option<Arc<CallState>>,
    pub(crate) permits: Permits,
    /// The state in which a release is likely to find the lease.
    pub(crate) hint: ReleaseHint,
    /// The expiry in the server's reply, and when that reply arrived.
    first_expiry: (DateTime<Utc>, Instant),
    holder: Lock<Holder>,
    /// Created when it is first needed.
    lost: OnceLock<CancellationToken>,
    reason: OnceLock<LostReason>,
    /// Notified when a renewal was answered.
    renewal_answered: Notify,
    /// A transaction that was to write to the lease's document last has met a conflict there: the next one does so
    /// first.
    guards_first: AtomicBool,
    /// A transaction that blocked the lease's document was open when the validity ended.
    was_outlived: AtomicBool,
    /// Why the last renewal failed, if none was confirmed since.
    last_error: Lock<Option<String>>,
    events: Events,
    clock: Clock,
}

/// The number of a holding in the renewer's agenda.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct AgendaKey(u64);

/// The parts that a `Holding` is made from.
pub(crate) struct Grant {
    pub(crate) key: GrantKey,
    pub(crate) token: Token,
    pub(crate) timing: Arc<Timing>,
    pub(crate) hold_options: HoldOptions,
    pub(crate) hold_at_least: Option<Duration>,
    pub(crate) sent: Instant,
    /// The first term of a promotion; `None` if the grant is for the whole ttl.
    pub(crate) term: Option<Duration>,
    pub(crate) permits: Permits,
    /// The state in which a release is likely to find the lease.
    pub(crate) hint: ReleaseHint,
    pub(crate) expires_at: DateTime<Utc>,
    pub(crate) call: Option<Arc<CallState>>,
}

impl Holding {
    /// The grant, as a command renews it.
    pub(crate) fn renewal_target(&self) -> RenewalTarget {
        let lasts = self.timing.ttl + self.timing.max_clock_skew;
        RenewalTarget { key: Arc::clone(&self.key), lasts }
    }

    pub(super) fn clock(&self) -> &Clock {
        &self.clock
    }

    pub(crate) fn new(grant: Grant, events: Events, clock: Clock) -> Holding {
        let Grant { timing, hold_options, sent, .. } = &grant;
        let now = clock.now();
        let holder = match grant.term {
            Some(term) => Holder::promoted(timing, *hold_options, now, *sent, term),
            None => Holder::granted(timing, *hold_options, *sent),
        };
        Holding {
            holder: Lock::new(holder),
            permits: grant.permits,
            hint: grant.hint,
            key: Arc::new(grant.key),
            token: grant.token,
            timing: grant.timing,
            hold_at_least: grant.hold_at_least,
            call: grant.call,
            first_expiry: (grant.expires_at, now),
            lost: OnceLock::new(),
            reason: OnceLock::new(),
            renewal_answered: Notify::new(),
            guards_first: AtomicBool::new(false),
            was_outlived: AtomicBool::new(false),
            last_error: Lock::default(),
            events,
            clock,
        }
    }

    /// Whether the holder may rely on the lease now.
    pub(crate) fn is_valid(&self) -> bool {
        !self.has_ended() && self.holder.lock().is_valid(self.clock.now())
    }

    /// Whether it was lost or released.
    pub(crate) fn has_ended(&self) -> bool {
        self.reason.get().is_some()
    }

    /// How long the holder may still rely on the lease.
    pub(crate) fn remaining(&self) -> Duration {
        let holder = self.holder.lock();
        let now = self.clock.now();
        let is_valid = !self.has_ended() && holder.is_valid(now);
        if is_valid { holder.valid_until().since(now) } else { Duration::ZERO }
    }

    /// A lower bound of the server's expiry. The server may have a later one by now.
    pub(crate) fn expires_at(&self) -> DateTime<Utc> {
        let (expires_at, heard) = self.first_expiry;
        let valid_until = self.holder.lock().renewed_until();
        // The server extends the lease when the renewal arrives, which is not before we sent it.
        let renewed = valid_until.before(self.timing.validity());
        let later = chrono::Duration::from_std(renewed.since(heard)).unwrap_or_default();
        expires_at.checked_add_signed(later).unwrap_or(expires_at)
    }

    /// Returns the reason for the loss as an error; `Ok` while the lease is valid.
    pub(crate) fn check(&self) -> Result<(), Error> {
        // The validity may have ended before the timer fired: then this call declares the loss.
        if !self.is_valid() {
            let _ = self.on(HoldEvent::Timer, None);
        }
        match self.reason.get() {
            Some(reason) => Err(self.error(reason)),
            None => Ok(()),
        }
    }

    /// The name, value and grant that a release of this lease must match.
    pub(crate) fn target(&self) -> ReleaseTarget {
        ReleaseTarget {
            name: self.name(),
            value: self.key.value().to_owned(),
            grant: GrantMatch::Grant(self.key.grant_id().into()),
            form: Form::of(self.permits),
        }
    }

    /// The minimum hold time, counted from the grant; `None` when it has certainly passed.
    pub(crate) fn left_to_hold(&self) -> Option<Duration> {
        // The grant was earlier than its reply, so this may be `Some` a little too long. Then the server decides.
        let (_, heard) = self.first_expiry;
        self.hold_at_least.filter(|&hold| self.clock.now() < heard.after(hold))
    }

    /// The data with which the background releaser ends this lease.
    pub(crate) fn give_back(&self) -> GiveBack {
        let until = self.holder.lock().renewed_until().after(self.timing.max_clock_skew);
        let (target, hold_at_least, hint) = (self.target(), self.left_to_hold(), self.hint);
        GiveBack { target, until, hold_at_least, hint, pending: None }
    }

    /// When the rules must be called next.
    pub(crate) fn wake_at(&self) -> Instant {
        self.holder.lock().wake_at(&self.timing)
    }

    pub(crate) fn error(&self, reason: &LostReason) -> Error {
        Error::Lost { name: self.name(), reason: reason.clone() }
    }

    /// A token that is cancelled when the lease is lost or released.
    pub(crate) fn lost(&self) -> &CancellationToken {
        // Under the lock: otherwise a loss could fall between creating the token and reading the reason.
        let _holder = self.holder.lock();
        let lost = self.lost.get_or_init(CancellationToken::new);
        if self.reason.get().is_some() {
            lost.cancel();
        }
        lost
    }

    /// Why the lease was lost; of a valid lease, why it is lost if its validity ends now.
    pub(crate) fn reason_for_end(&self) -> LostReason {
        let holder = self.holder.lock();
        let by_clock = || {
            let now = self.clock.now();
            self.reason_of(holder.reason_for_end(&self.timing, now), None, now)
        };
        self.reason.get().cloned().unwrap_or_else(by_clock)
    }

    /// Applies an event to the rules, and reports a loss. `found` is the reason that the server's document shows.
    pub(crate) fn on(&self, event: HoldEvent, found: Option<LostReason>) -> HoldAction {
        let mut holder = self.holder.lock();
        // Read under the lock: events must be judged in the order of their times.
        let now = self.clock.now();
        let next = holder.on(&self.timing, now, event);
        if event != HoldEvent::Timer || matches!(next, HoldAction::Lost(_)) {
            self.renewal_answered.notify_waiters();
        }
        if let HoldAction::Lost(loss) = next {
            let reason = self.reason_of(loss, found, now);
            // Under the lock: any task that sees the loss also sees the reason.
            let is_first = self.reason.set(reason.clone()).is_ok();
            drop(holder);
            if is_first {
                self.cancel();
                self.events.report(Event::Lost { name: self.name(), token: self.token, reason });
            }
        }
        next
    }

    /// Waits until no renewal is under way, or its time is over.
    pub(crate) async fn no_renewal_under_way(&self) {
        loop {
            let answered = self.renewal_answered.notified();
            let under_way = self.holder.lock().renewal_under_way(&self.timing);
            let Some(deadline) = under_way else { return };
            if self.clock.before(deadline, answered).await.is_none() {
                return;
            }
        }
    }

    pub(crate) fn guards_first(&self) -> bool {
        self.guards_first.load(Ordering::Acquire)
    }

    /// Notes whether the next transaction has to guard first.
    pub(crate) fn guard_first(&self, first: bool) {
        self.guards_first.store(first, Ordering::Release);
    }

    /// Whether a transaction of its own has kept the lease from being renewed until it was lost.
    pub(crate) fn was_outlived(&self) -> bool {
        self.was_outlived.load(Ordering::Acquire)
    }

    /// Notes that a transaction blocked the lease's document when the lease was lost. It counts if renewals failed: a
    /// process that stood still was lost without it.
    pub(crate) fn outlived(&self) {
        if let Some(LostReason::OutOfReach { .. }) = self.reason.get() {
            self.was_outlived.store(true, Ordering::Release);
        }
    }

    /// The reason that a user is told.
    fn reason_of(&self, loss: Loss, found: Option<LostReason>, now: Instant) -> LostReason {
        let mut reason = loss::reason(loss, found, now);
        if let LostReason::OutOfReach { last_error, .. } = &mut reason {
            last_error.clone_from(&self.last_error.lock());
        }
        reason
    }

    /// Notes why a renewal has failed. Before the rules hear of it: they may declare the loss.
    pub(crate) fn note_error(&self, error: &str) {
        *self.last_error.lock() = Some(error.to_owned());
    }

    /// Ends the lease at its holder's wish. Returns false if it had already ended.
    pub(crate) fn end(&self) -> bool {
        let holder = self.holder.lock();
        let is_first = self.reason.set(LostReason::Released).is_ok();
        drop(holder);
        self.cancel();
        is_first
    }

    /// Ends the lease and its call. Any other grant of the call is then given back.
    pub(crate) fn end_with_call(&self) -> bool {
        let is_first = self.end();
        if let Some(call) = &self.call {
            call.settle();
        }
        is_first
    }

    fn cancel(&self) {
        if let Some(lost) = self.lost.get() {
            lost.cancel();
        }
    }

    pub(crate) fn tell_released(&self) {
        self.events.report(Event::Released { name: self.name(), token: self.token });
    }

    pub(crate) fn tell_renewed(&self) {
        *self.last_error.lock() = None;
        let (name, token, remaining) = (self.name(), self.token, self.remaining());
        self.events.report(Event::Renewed { name, token, remaining });
    }

    pub(crate) fn tell_renewal_failed(&self, reason: &str) {
        let (name, token, reason) = (self.name(), self.token, reason.to_owned());
        let remaining = self.remaining();
        self.events.report(Event::RenewalFailed { name, token, remaining, reason });
    }

    fn name(&self) -> String {
        self.key.name().to_owned()
    }
}
