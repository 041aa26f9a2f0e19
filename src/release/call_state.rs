//! The cleanup state of one acquire call: shared by its attempts, queue entry and lease.

use std::sync::{Arc, OnceLock};

use mongo_lease_core::commands::{AcquireRequest, Form, GrantMatch, ReleaseTarget};
use mongo_lease_core::rules::{Accepted, Attempts, CleanupAction, Effect, GrantId};
use tokio_util::sync::CancellationToken;

use crate::lock::Lock;
use crate::mistake::{Mistake, is_made};
use crate::release::ReleaseHint;
use crate::release::background::{BackgroundReleaser, GiveBack};

/// One acquire call, as its attempts and its lease share it.
pub(crate) struct CallState {
    attempts: Lock<Attempts>,
    pub(crate) request: Arc<AcquireRequest>,
    /// The grant that the caller accepted.
    taken: OnceLock<GrantId>,
    background: BackgroundReleaser,
    /// Cancelled when the manager shuts down: from then on no caller accepts a grant.
    closing: CancellationToken,
}

impl CallState {
    pub(crate) fn new(
        request: Arc<AcquireRequest>,
        background: BackgroundReleaser,
        closing: CancellationToken,
    ) -> Arc<CallState> {
        let attempts = Lock::new(Attempts::default());
        let taken = OnceLock::new();
        Arc::new(CallState { attempts, request, taken, background, closing })
    }

    /// Registers a new attempt, and returns its number.
    pub(crate) fn start(&self) -> u32 {
        if is_made(Mistake::AttemptCountedTwice) {
            self.with(Attempts::start);
        }
        self.with(Attempts::start)
    }

    pub(crate) fn has_started(&self) -> bool {
        self.with(|attempts| attempts.has_started())
    }

    /// Registers the answer to an attempt.
    pub(crate) fn answered(&self, effect: Effect) {
        let next = self.with(|attempts| {
            let next = attempts.answered(effect);
            // The caller may be polled only after the background releaser has ended, so the grant is given back here.
            let is_over = next == CleanupAction::Nothing && self.closing.is_cancelled();
            if is_over { attempts.abandon() } else { next }
        });
        let is_early = effect == Effect::MaybeGranted
            && self.taken.get().is_some()
            && is_made(Mistake::GivenBackAtOnce);
        self.carry_out(if is_early { CleanupAction::GiveBack } else { next });
    }

    /// The caller accepts the grant. Returns false if the caller has gone.
    pub(crate) fn accept(&self, grant_id: GrantId, taken: Accepted) -> bool {
        // Set before the caller learns of the grant: anything given back from now on is another grant.
        let _ = self.taken.set(grant_id);
        self.with(|attempts| attempts.accept(taken))
    }

    /// Whether this call can produce no grant except the one about to be accepted.
    pub(crate) fn has_one_grant_only(&self, taken: Accepted) -> bool {
        self.with(|attempts| attempts.has_one_grant_only(taken))
    }

    /// Whether only a queue entry is left, which another call may take over. False if the caller chose the value: it
    /// may use the value again, and another call's entry would look like this one's.
    pub(crate) fn has_only_an_entry(&self) -> bool {
        self.request.value == self.request.call_id.as_str()
            && self.with(|attempts| attempts.is_queued_only())
    }

    /// Another call has taken over the queue entry.
    pub(crate) fn succeeded(&self) {
        self.carry_out(self.with(Attempts::succeeded));
    }

    /// The caller has gone.
    pub(crate) fn abandon(&self) {
        self.carry_out(self.with(Attempts::abandon));
    }

    /// The lease has ended, and so has every grant up to now.
    pub(crate) fn settle(&self) {
        self.carry_out(self.with(Attempts::settle));
    }

    fn with<T>(&self, change: impl FnOnce(&mut Attempts) -> T) -> T {
        change(&mut self.attempts.lock())
    }

    fn carry_out(&self, next: CleanupAction) {
        let is_exclusive = self.request.permits.is_exclusive();
        let hint = match (next, self.request.joins) {
            (CleanupAction::Nothing, _) => return,
            (CleanupAction::LeaveQueue, _) => ReleaseHint::MaybeQueued { is_alone: false },
            (CleanupAction::GiveBack, Some(_)) => {
                ReleaseHint::MaybeQueued { is_alone: is_exclusive }
            }
            (CleanupAction::GiveBack, None) if is_exclusive => ReleaseHint::Alone,
            (CleanupAction::GiveBack, None) => ReleaseHint::BesideOthers,
        };
        let request = &self.request;
        let taken = self.taken.get().filter(|_| !is_made(Mistake::GivenBackAtOnce));
        let (call_id, except) = (request.call_id.clone(), taken.cloned());
        let grant = GrantMatch::Call { call_id, except };
        let (name, value) = (request.name.clone(), request.value.clone());
        let target = ReleaseTarget { name, value, grant, form: Form::of(request.permits) };
        // An unrenewed grant lasts no longer than this, and a queue entry expires earlier.
        let now = self.background.clock.now();
        let until = now.after(request.timing.ttl).after(request.timing.max_clock_skew);
        let (hold_at_least, pending) = (None, None);
        self.background.give_back(GiveBack { target, until, hold_at_least, hint, pending });
    }
}
