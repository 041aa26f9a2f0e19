//! Ends leases, for whoever does it.
//!
//! A lease without a queue is deleted, or becomes a tombstone; one for which somebody waits is handed on; and where all
//! waiters have died it ends, and the server removes the document. The conditions are the commands' own, so it is a
//! question of speed alone which command goes first: the last of them matches whatever is still there.
//!
//! The first attempts of many releases go in one command. Where it is not answered, they go in one command again with
//! others of which the same is true: behind a lost reply nobody knows which of them had been ended before.

pub(crate) mod background;
pub(crate) mod cleanup;
pub(crate) mod pending;

use std::sync::Arc;
use std::time::Duration;

use futures_util::Stream;
use futures_util::stream::FuturesUnordered;

use crate::batch::Batcher;
use crate::batch::alone::Alone;
use crate::batch::releases::{EndItem, EndReply, Freeing, How, ReleaseBatch};
use crate::clock;
use crate::commands::failure::Failure;
use crate::commands::release::{HandOffTo, ReleaseLater, ReleaseTarget};
use crate::hints::HeldUpNames;
use crate::retry::{self, RetryPolicy};
use crate::runner::{Earlier, Pace, Pending, Runner};

/// The state in which a lease that is to be ended is likely to be found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReleaseHint {
    /// Held, and nobody waits.
    NobodyWaits,
    /// Held, and somebody waits.
    SomebodyWaits,
    /// Held or in the queue: who is named leaves the queue as well.
    HeldOrInLine,
    /// In the queue.
    InLine,
}

/// The commands that end leases, one after the other until all have been found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ReleaseStep {
    Free,
    HandOff(HandOffTo),
}

impl ReleaseHint {
    fn steps(self) -> &'static [ReleaseStep] {
        match self {
            ReleaseHint::NobodyWaits => {
                &[ReleaseStep::Free, ReleaseStep::HandOff(HandOffTo::LiveWaiterOrNobody)]
            }
            ReleaseHint::SomebodyWaits => &[
                ReleaseStep::HandOff(HandOffTo::LiveWaiter),
                ReleaseStep::Free,
                ReleaseStep::HandOff(HandOffTo::LiveWaiterOrNobody),
            ],
            ReleaseHint::HeldOrInLine => {
                &[ReleaseStep::Free, ReleaseStep::HandOff(HandOffTo::AfterLeavingQueue)]
            }
            ReleaseHint::InLine => &[ReleaseStep::HandOff(HandOffTo::AfterLeavingQueue)],
        }
    }
}

/// A lease that is to be ended.
#[derive(Clone, Debug)]
pub(crate) struct Ending {
    pub(crate) target: ReleaseTarget,
    pub(crate) hint: ReleaseHint,
    /// Whether its holder believed that it held it when it let go.
    pub(crate) was_valid: bool,
}

/// The outcome of a release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Released {
    /// It was held under this name and value, and is not any more.
    Released,
    /// It was not held under this name and value. Nothing was touched.
    NotHeld,
    /// It is not held under this name and value now. Nobody knows whether it was until this release: an earlier attempt
    /// of the same release went unanswered; or it was in one command with others, and somebody else had ended one of
    /// these, so that the server's count does not tell which it was.
    Unknown,
}

/// Ends leases of one collection. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Releaser {
    shared: Arc<Shared>,
}

struct Shared {
    held_up: HeldUpNames,
    alone: Alone,
    free: StepBatchers,
    somebody: StepBatchers,
    anybody: StepBatchers,
    after_leaving: StepBatchers,
}

/// Attempts of one kind. Those that may have been applied before go apart from those that were not.
struct StepBatchers {
    first: Batcher<ReleaseBatch>,
    again: Batcher<ReleaseBatch>,
}

impl Releaser {
    pub(crate) fn new(runner: &Runner, tombstones: bool, held_up: &HeldUpNames) -> Releaser {
        let pace = Pace::default();
        let attempts = |how: How| {
            let op = ReleaseBatch { how };
            let batcher = |op| Batcher::new(runner.clone(), op, pace.clone(), held_up.clone());
            StepBatchers { first: batcher(op.clone()), again: batcher(op) }
        };
        let shared = Shared {
            held_up: held_up.clone(),
            alone: Alone::new(runner.clone(), Some(pace.clone()), held_up.clone()),
            free: attempts(How::Free(Freeing::new(tombstones))),
            somebody: attempts(How::HandOff(HandOffTo::LiveWaiter)),
            anybody: attempts(How::HandOff(HandOffTo::LiveWaiterOrNobody)),
            after_leaving: attempts(How::HandOff(HandOffTo::AfterLeavingQueue)),
        };
        Releaser { shared: Arc::new(shared) }
    }

    /// Ends one lease. Where nobody is likely to wait for it, the first command may be one with other calls' leases.
    pub(crate) async fn end(
        &self,
        ending: Ending,
        policy: RetryPolicy,
    ) -> Result<Released, Failure> {
        self.shared.end(ending, policy, None).await
    }

    /// Ends many leases, each with its own limits: in as few commands as may be. What came of each, as it comes, with
    /// its place in the list.
    pub(crate) fn end_all(
        &self,
        endings: Vec<(Ending, RetryPolicy)>,
    ) -> impl Stream<Item = (usize, Result<Released, Failure>)> + Send + use<> {
        let now = clock::now();
        let mut first: Vec<Option<Pending<EndReply>>> = endings.iter().map(|_| None).collect();
        for step in [
            ReleaseStep::Free,
            ReleaseStep::HandOff(HandOffTo::LiveWaiter),
            ReleaseStep::HandOff(HandOffTo::AfterLeavingQueue),
        ] {
            let places: Vec<_> = endings
                .iter()
                .enumerate()
                .filter(|(_, (ending, _))| ending.hint.steps().first() == Some(&step))
                .map(|(place, _)| place)
                .collect();
            let items = places.iter().map(|&place| {
                let (ending, policy) = &endings[place];
                (EndItem::new(ending.target.clone()), policy.attempt_deadline(now))
            });
            let started = self.shared.attempts(step).first.start_all(items);
            for (place, under_way) in places.into_iter().zip(started) {
                first[place] = Some(under_way);
            }
        }
        let ends = endings.into_iter().zip(first).enumerate();
        ends.map(|(place, ((ending, policy), first))| {
            let shared = Arc::clone(&self.shared);
            async move { (place, shared.end(ending, policy, first).await) }
        })
        .collect::<FuturesUnordered<_>>()
    }

    /// Ends a lease, and keeps its name from others until it has been held for so long. Whether it was held.
    pub(crate) async fn end_later(
        &self,
        target: ReleaseTarget,
        hold_at_least: Duration,
        policy: RetryPolicy,
    ) -> Result<Released, Failure> {
        let name = target.name.clone();
        let values = clock::tombstone_values()?;
        let command = ReleaseLater { target, hold_at_least, values };
        let answer = retry::run_alone(&self.shared.alone, &name, command, policy).await?;
        Ok(match (answer.reply, answer.earlier) {
            (true, _) => Released::Released,
            (false, Earlier::NotApplied) => Released::NotHeld,
            (false, Earlier::CutOff | Earlier::Unanswered) => Released::Unknown,
        })
    }

    /// Whether this lease's document is likely to be held up.
    pub(crate) fn is_held_up(&self, name: &str) -> bool {
        self.shared.held_up.has(name)
    }
}

impl Shared {
    fn attempts(&self, step: ReleaseStep) -> &StepBatchers {
        match step {
            ReleaseStep::Free => &self.free,
            ReleaseStep::HandOff(HandOffTo::LiveWaiter) => &self.somebody,
            ReleaseStep::HandOff(HandOffTo::LiveWaiterOrNobody) => &self.anybody,
            ReleaseStep::HandOff(HandOffTo::AfterLeavingQueue) => &self.after_leaving,
        }
    }

    /// `first` is the first attempt at the first step, where that has been started already: with many others.
    async fn end(
        &self,
        ending: Ending,
        policy: RetryPolicy,
        mut first: Option<Pending<EndReply>>,
    ) -> Result<Released, Failure> {
        let is_one_of_many = first.is_some();
        let mut earlier = Earlier::NotApplied;
        for &step in ending.hint.steps() {
            let attempts = self.attempts(step);
            let mut is_first = true;
            let answer = retry::until_answered(policy, |deadline| {
                let item = EndItem::new(ending.target.clone());
                let started = first.take();
                match (started, std::mem::take(&mut is_first)) {
                    (Some(started), _) => started,
                    // A lone hand-off is told what it did, and need not look which it was.
                    (None, true) if step == ReleaseStep::Free || is_one_of_many => {
                        attempts.first.start(item, deadline, |_| ())
                    }
                    (None, true) => attempts.first.start_alone(item, deadline, |_| ()),
                    (None, false) => attempts.again.start(item, deadline, |_| ()),
                }
            });
            let answer = answer.await?;
            earlier = earlier.max(answer.earlier);
            match answer.reply {
                EndReply::Ended => return Ok(Released::Released),
                EndReply::NotEnded(before) => earlier = earlier.max(before),
                EndReply::Gone(before) => {
                    earlier = earlier.max(before);
                    // It is not the holder any more, and may stand in the queue still.
                    if ending.hint != ReleaseHint::HeldOrInLine {
                        break;
                    }
                }
            }
        }
        // The holder held it when it let go, and our command was answered: that has ended it, or it has run out since.
        Ok(match earlier {
            Earlier::NotApplied => Released::NotHeld,
            Earlier::CutOff if ending.was_valid => Released::Released,
            Earlier::CutOff | Earlier::Unanswered => Released::Unknown,
        })
    }
}
