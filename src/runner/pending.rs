//! An attempt in progress, from its caller's side.

use std::pin::Pin;
use std::task::{Context, Poll};

use mongo_lease_core::rules::{Advice, Instant, MAYBE_APPLIED, Outcome};
use tokio::sync::oneshot;

use super::AttemptResult;
use super::polls::PollsSince;
use super::stage::Stage;
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
        self.stage.was_sent_or_withdraw()
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
