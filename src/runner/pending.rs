//! An attempt in progress, from its caller's side.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};

use mongo_lease_core::rules::{Advice, Instant, MAYBE_APPLIED, Outcome};
use tokio::sync::oneshot;

use super::AttemptResult;
use super::polls::PollsSince;
use crate::failure::{Cause, Failure};

/// An attempt in progress. It resolves to its answer.
///
/// Dropping it withdraws an attempt that still waits in this process. An attempt that was sent goes on.
pub(crate) struct Pending<T> {
    answer: oneshot::Receiver<AttemptResult<T>>,
    stage: Stage,
    /// Whose tasks send it.
    polls: Option<PollsSince>,
}

/// Whether an attempt waits in this process, was sent, or was withdrawn. Its two owners are the caller and the task
/// that sends it. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stage(Arc<AtomicU64>);

/// The values of a stage that are no times.
const WAITS: u64 = 0;
const WITHDRAWN: u64 = u64::MAX;
/// Marks a time: the primary has carried the attempt out.
const APPLIED: u64 = 1 << 63;

impl Stage {
    /// Notes that the attempt is sent now, for the first time or again. Returns false if its caller has withdrawn it:
    /// then it must not be sent.
    #[must_use]
    pub(crate) fn send(&self, now: Instant) -> bool {
        let now = now.as_nanos().clamp(WAITS + 1, APPLIED - 1);
        let before = self.0.compare_exchange(WAITS, now, Ordering::AcqRel, Ordering::Acquire);
        before != Err(WITHDRAWN)
    }

    /// When it was sent first; `None` if it was not sent.
    pub(crate) fn sent_at(&self) -> Option<Instant> {
        match self.0.load(Ordering::Acquire) {
            WAITS | WITHDRAWN => None,
            sent => Some(Instant::from_nanos(sent & !APPLIED)),
        }
    }

    /// Notes that the attempt is applied, and returns when it was sent first. It waits for a majority now, and is not
    /// repeated meanwhile.
    pub(crate) fn note_applied(&self) -> Instant {
        let sent = self.sent_at().unwrap_or_default();
        self.0.store(sent.as_nanos() | APPLIED, Ordering::Release);
        sent
    }

    /// Whether it is applied, and waits for a majority.
    fn is_applied(&self) -> bool {
        let state = self.0.load(Ordering::Acquire);
        state != WITHDRAWN && state & APPLIED != 0
    }

    pub(crate) fn is_withdrawn(&self) -> bool {
        self.0.load(Ordering::Acquire) == WITHDRAWN
    }

    /// Withdraws the attempt unless it was sent.
    fn withdraw(&self) {
        let _ = self.0.compare_exchange(WAITS, WITHDRAWN, Ordering::AcqRel, Ordering::Acquire);
    }
}

impl<T> Pending<T> {
    /// A pending attempt that is answered through the sender.
    pub(crate) fn pair() -> (oneshot::Sender<AttemptResult<T>>, Stage, Pending<T>) {
        let (sender, answer) = oneshot::channel();
        let stage = Stage::default();
        (sender, stage.clone(), Pending { answer, stage, polls: None })
    }

    /// The same, sent by tasks whose polls are counted here.
    pub(crate) fn sent_by(mut self, polls: PollsSince) -> Pending<T> {
        self.polls = Some(polls);
        self
    }

    /// Whether no task of the manager has run since it was started.
    pub(crate) fn is_not_driven(&self) -> bool {
        self.polls.as_ref().is_some_and(PollsSince::are_none)
    }

    /// When it was sent; `None` if it still waits in this process.
    pub(crate) fn sent_at(&self) -> Option<Instant> {
        self.stage.sent_at()
    }

    /// Whether it is applied, and waits for a majority.
    pub(crate) fn is_applied(&self) -> bool {
        self.stage.is_applied()
    }

    /// Whether it was sent. If not, it is withdrawn.
    pub(crate) fn was_sent_or_withdraw(&self) -> bool {
        self.stage.withdraw();
        self.sent_at().is_some()
    }
}

impl<T> Drop for Pending<T> {
    fn drop(&mut self) {
        self.stage.withdraw();
    }
}

impl<T> Future for Pending<T> {
    type Output = AttemptResult<T>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<AttemptResult<T>> {
        // The task always sends, unless the runtime ends first. Another attempt would end so, too.
        let outcome = Outcome { advice: Advice::Stop, ..MAYBE_APPLIED };
        let ended = Failure { outcome, cause: Cause::RuntimeGone };
        Pin::new(&mut self.answer).poll(context).map(|answered| answered.unwrap_or(Err(ended)))
    }
}
