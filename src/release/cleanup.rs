//! One acquire call: what its attempts, its place in line and its lease share.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use tokio_util::sync::CancellationToken;

use crate::clock;
use crate::commands::acquire::AcquireRequest;
use crate::commands::release::{GrantMatch, ReleaseTarget};
use crate::release::ReleaseHint;
use crate::release::background::{BackgroundReleaser, GiveBack};
use crate::rules::attempts::{Accepted, Attempts, CleanupAction, Effect};
use crate::rules::ids::GrantId;

/// One acquire call, as its attempts and its lease share it.
#[derive(Debug)]
pub(crate) struct CallCleanup {
    attempts: Mutex<Attempts>,
    pub(crate) request: Arc<AcquireRequest>,
    /// The grant that the caller took.
    taken: OnceLock<GrantId>,
    background: BackgroundReleaser,
    /// Cancelled when the manager takes no more: then nobody takes what is granted from now on.
    closing: CancellationToken,
}

impl CallCleanup {
    pub(crate) fn new(
        request: Arc<AcquireRequest>,
        background: BackgroundReleaser,
        closing: CancellationToken,
    ) -> Arc<CallCleanup> {
        let attempts = Mutex::new(Attempts::new());
        Arc::new(CallCleanup { attempts, request, taken: OnceLock::new(), background, closing })
    }

    /// An attempt goes out; the answer is its number.
    pub(crate) fn start(&self) -> u32 {
        self.with(Attempts::start)
    }

    /// Whether any attempt has gone out.
    pub(crate) fn has_started(&self) -> bool {
        self.with(|attempts| attempts.has_started())
    }

    /// An attempt has been answered.
    pub(crate) fn answered(&self, effect: Effect) {
        let next = self.with(|attempts| match attempts.answered(effect) {
            // The caller may look only when the reaper has gone.
            CleanupAction::Nothing if self.closing.is_cancelled() => attempts.abandon(),
            next @ (CleanupAction::Nothing
            | CleanupAction::GiveBack
            | CleanupAction::LeaveQueue) => next,
        });
        self.carry_out(next);
    }

    /// The caller takes what was granted. False when it had gone.
    pub(crate) fn accept(&self, grant_id: GrantId, taken: Accepted) -> bool {
        // Before anybody can hear of it: what is given back from now on is another grant.
        let _ = self.taken.set(grant_id);
        self.with(|attempts| attempts.accept(taken))
    }

    /// Whether nothing can come of this call but what its caller is about to take.
    pub(crate) fn has_one_grant_only(&self, taken: Accepted) -> bool {
        self.with(|attempts| attempts.has_one_grant_only(taken))
    }

    /// Whether another call may take over its place in line. Not where the caller chose the value: it may use it again,
    /// and then what looks like this call's is not.
    pub(crate) fn has_only_an_entry(&self) -> bool {
        self.request.value == self.request.call_id.as_str()
            && self.with(|attempts| attempts.is_in_line_only())
    }

    /// Another call has taken over its place in line.
    pub(crate) fn succeeded(&self) {
        let next = self.with(Attempts::succeeded);
        self.carry_out(next);
    }

    /// The caller has gone.
    pub(crate) fn abandon(&self) {
        let next = self.with(Attempts::abandon);
        self.carry_out(next);
    }

    /// The lease has ended, and what was granted so far with it.
    pub(crate) fn settle(&self) {
        let next = self.with(Attempts::settle);
        self.carry_out(next);
    }

    fn with<T>(&self, change: impl FnOnce(&mut Attempts) -> T) -> T {
        change(&mut self.attempts.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn carry_out(&self, next: CleanupAction) {
        let hint = match (next, self.request.joins) {
            (CleanupAction::Nothing, _) => return,
            (CleanupAction::LeaveQueue, _) => ReleaseHint::InLine,
            (CleanupAction::GiveBack, Some(_)) => ReleaseHint::HeldOrInLine,
            (CleanupAction::GiveBack, None) => ReleaseHint::NobodyWaits,
        };
        let request = &self.request;
        let grant = GrantMatch::Call {
            call_id: request.call_id.clone(),
            except: self.taken.get().cloned(),
        };
        let target =
            ReleaseTarget { name: request.name.clone(), value: request.value.clone(), grant };
        // For so long a grant can stand that nobody renews, and an entry is gone before.
        let until = clock::now().after(request.timing.ttl).after(request.timing.max_clock_skew);
        self.background.give_back(GiveBack {
            target,
            until,
            hold_at_least: None,
            hint,
            pending: None,
        });
    }
}
