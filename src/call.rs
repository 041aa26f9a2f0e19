//! One acquire call: what its attempts, its place in line and its lease share.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use tokio_util::sync::CancellationToken;

use crate::clock;
use crate::commands::acquire::Ask;
use crate::commands::release::{Target, Which};
use crate::release::Expected;
use crate::release::background::{BackgroundReleaser, GiveBack};
use crate::rules::attempts::{Attempts, Effect, Next, Taken};

/// One acquire call, as its attempts and its lease share it.
#[derive(Debug)]
pub(crate) struct Call {
    attempts: Mutex<Attempts>,
    pub(crate) ask: Arc<Ask>,
    /// The grant that the caller took.
    taken: OnceLock<String>,
    background: BackgroundReleaser,
    /// Cancelled when the manager takes no more: then nobody takes what is granted from now on.
    closing: CancellationToken,
}

impl Call {
    pub(crate) fn new(
        ask: Arc<Ask>,
        background: BackgroundReleaser,
        closing: CancellationToken,
    ) -> Arc<Call> {
        let attempts = Mutex::new(Attempts::new());
        Arc::new(Call { attempts, ask, taken: OnceLock::new(), background, closing })
    }

    /// An attempt goes out; the answer is its number.
    pub(crate) fn start(&self) -> u32 {
        self.with(Attempts::start)
    }

    /// Whether any attempt has gone out.
    pub(crate) fn has_asked(&self) -> bool {
        self.with(|attempts| attempts.has_started())
    }

    /// An attempt has been answered.
    pub(crate) fn answered(&self, effect: Effect) {
        let next = self.with(|attempts| match attempts.answered(effect) {
            // The caller may look only when the reaper has gone.
            Next::Nothing if self.closing.is_cancelled() => attempts.abandon(),
            next @ (Next::Nothing | Next::GiveBack | Next::Leave) => next,
        });
        self.carry_out(next);
    }

    /// The caller takes what was granted. False when it had gone.
    pub(crate) fn take(&self, grant_id: &str, taken: Taken) -> bool {
        // Before anybody can hear of it: what is given back from now on is another grant.
        let _ = self.taken.set(grant_id.to_owned());
        self.with(|attempts| attempts.take(taken))
    }

    /// Whether nothing can come of this call but what its caller is about to take.
    pub(crate) fn has_one_grant_only(&self, taken: Taken) -> bool {
        self.with(|attempts| attempts.has_one_grant_only(taken))
    }

    /// Whether another call may take over its place in line. Not where the caller chose the value: it may use it again,
    /// and then what looks like this call's is not.
    pub(crate) fn has_an_heirloom(&self) -> bool {
        self.ask.value == self.ask.call_id && self.with(|attempts| attempts.is_in_line_only())
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

    fn carry_out(&self, next: Next) {
        let expected = match (next, self.ask.joins) {
            (Next::Nothing, _) => return,
            (Next::Leave, _) => Expected::InLine,
            (Next::GiveBack, Some(_)) => Expected::HeldOrInLine,
            (Next::GiveBack, None) => Expected::NobodyWaits,
        };
        let ask = &self.ask;
        let grant = Which::Call { call_id: ask.call_id.clone(), except: self.taken.get().cloned() };
        let target = Target { name: ask.name.clone(), value: ask.value.clone(), grant };
        // For so long a grant can stand that nobody renews, and an entry is gone before.
        let until = clock::now().after(ask.timing.ttl).after(ask.timing.max_clock_skew);
        self.background.give_back(GiveBack {
            target,
            until,
            hold_at_least: None,
            expected,
            pending: None,
        });
    }
}
