//! Ends leases: for holders, the background releaser and operators.
//!
//! The document of a holder that is alone is deleted, or becomes a tombstone. Beside other holders, or with a queue, a
//! release ends its own grant and admits the waiters that fit then. If all waiters have died, the lease ends, and the
//! server removes the document. Each command checks its own conditions, so the order of the commands affects speed
//! only: the last command matches every remaining state.
//!
//! The first attempts of many releases share a command. Attempts that must be repeated share commands only with other
//! repeated ones: after a lost reply it is unknown which leases of the command had already ended.

pub(crate) mod background;
pub(crate) mod call_state;
mod damaged;
mod hint;
pub(crate) mod pending;

use std::sync::Arc;
use std::time::Duration;

use futures_util::Stream;
use futures_util::stream::FuturesUnordered;
use mongo_lease_core::commands::{EndLater, Form, ReleaseTarget};
use mongo_lease_core::spec::EndScope;

use crate::batch::Batcher;
use crate::batch::alone::Alone;
use crate::batch::releases::{EndItem, EndReply, Freeing, How, ReleaseBatch};
use crate::clock;
use crate::failure::Failure;
use crate::hints::NameHint;
use crate::retry::{self, Answer, RetryPolicy};
use crate::runner::{Earlier, Pace, Pending, Runner};
pub(crate) use hint::ReleaseHint;
use hint::ReleaseStep;

/// A lease to be ended.
#[derive(Clone, Debug)]
pub(crate) struct Ending {
    pub(crate) target: ReleaseTarget,
    pub(crate) hint: ReleaseHint,
    /// Whether the lease was still valid for its holder at the time of the release.
    pub(crate) was_valid: bool,
}

/// The outcome of a release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Released {
    /// The lease was held under this name and value, and is released.
    Released,
    /// The lease was not held under this name and value. Nothing changed.
    NotHeld,
    /// The lease is not held under this name and value. This release may have ended it.
    ///
    /// Either an earlier attempt of the same release was not answered. Or the release shared a command with others,
    /// another process had ended one of those leases, and the server's count does not tell which one.
    Unknown,
}

/// Ends leases of one collection. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Releaser {
    shared: Arc<Shared>,
}

struct Shared {
    runner: Runner,
    held_up: NameHint,
    alone: Alone,
    free: StepBatchers,
    beside_others: StepBatchers,
    anywhere: StepBatchers,
    held_or_queued: StepBatchers,
}

/// The batchers for one kind of command. Attempts that may repeat an applied command go in batches of their own.
struct StepBatchers {
    first: Batcher<ReleaseBatch>,
    again: Batcher<ReleaseBatch>,
}

/// The releases with which the first attempt of a command shares it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SharedWith {
    /// Other first attempts.
    First,
    /// None: the reply to an unshared command says what it did, and no query is needed.
    None,
    /// Other releases whose earlier command may have been applied. After a reply that was lost with many releases, each
    /// would send a command.
    Repeated,
}

impl Releaser {
    pub(crate) fn new(runner: &Runner, tombstones: bool, held_up: &NameHint) -> Releaser {
        let pace = Pace::default();
        let attempts = |how: How| {
            let op = ReleaseBatch { how };
            let batcher = |op| Batcher::new(runner.clone(), op, pace.clone(), held_up.clone());
            StepBatchers { first: batcher(op.clone()), again: batcher(op) }
        };
        let shared = Shared {
            runner: runner.clone(),
            held_up: held_up.clone(),
            alone: Alone::new(runner.clone(), Some(pace.clone()), held_up.clone()),
            free: attempts(How::Free(Freeing::new(tombstones))),
            beside_others: attempts(How::End(EndScope::BesideOthers)),
            anywhere: attempts(How::End(EndScope::Anywhere)),
            held_or_queued: attempts(How::End(EndScope::HeldOrQueued)),
        };
        Releaser { shared: Arc::new(shared) }
    }

    /// Ends one lease. If it is likely to have no waiters, the first command may be shared with other calls.
    pub(crate) async fn end(
        &self,
        ending: Ending,
        policy: RetryPolicy,
    ) -> Result<Released, Failure> {
        self.shared.end(ending, policy, None).await
    }

    /// Ends many leases, each with its own limits, in as few commands as possible. Yields each result as it arrives,
    /// with its index in the list.
    pub(crate) fn end_all(
        &self,
        endings: Vec<(Ending, RetryPolicy)>,
    ) -> impl Stream<Item = (usize, Result<Released, Failure>)> + Send + use<> {
        let mut first: Vec<Option<Pending<EndReply>>> = endings.iter().map(|_| None).collect();
        for step in [
            ReleaseStep::Free,
            ReleaseStep::End(EndScope::BesideOthers),
            ReleaseStep::End(EndScope::HeldOrQueued),
        ] {
            let is_shared = |ending: &Ending| {
                ending.target.form == Form::Plain && ending.hint.steps().first() == Some(&step)
            };
            let places = endings.iter().enumerate().filter(|(_, (ending, _))| is_shared(ending));
            let places: Vec<_> = places.map(|(place, _)| place).collect();
            let items = places.iter().map(|&place| {
                let (ending, policy) = &endings[place];
                (EndItem::new(ending.target.clone()), policy.attempt_time())
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

    /// Ends a lease, but reserves its name until the minimum hold time is over.
    pub(crate) async fn end_later(
        &self,
        target: ReleaseTarget,
        hold_at_least: Duration,
        policy: RetryPolicy,
    ) -> Result<Released, Failure> {
        let name = target.name.clone();
        let values = clock::tombstone_values()?;
        let command = EndLater { target, hold_at_least, values };
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
            ReleaseStep::End(EndScope::BesideOthers) => &self.beside_others,
            ReleaseStep::End(EndScope::Anywhere) => &self.anywhere,
            ReleaseStep::End(EndScope::HeldOrQueued) => &self.held_or_queued,
        }
    }

    /// Ends one lease. `first` is its first attempt, if a shared command has already started it.
    async fn end(
        &self,
        ending: Ending,
        policy: RetryPolicy,
        mut first: Option<Pending<EndReply>>,
    ) -> Result<Released, Failure> {
        let is_one_of_many = first.is_some();
        let mut earlier = Earlier::NotApplied;
        for &step in ending.hint.steps() {
            let first = first.take();
            let shared_with = match earlier {
                // No query tells about one of several holders.
                _ if ending.target.form != Form::Plain => SharedWith::None,
                Earlier::CutOff | Earlier::Unanswered => SharedWith::Repeated,
                Earlier::NotApplied if step == ReleaseStep::Free || is_one_of_many => {
                    SharedWith::First
                }
                Earlier::NotApplied => SharedWith::None,
            };
            let answer = self.end_batched(step, &ending.target, policy, first, shared_with).await?;
            earlier = earlier.max(answer.earlier);
            match answer.reply {
                EndReply::Ended => return Ok(Released::Released),
                EndReply::NotEnded(before) => earlier = earlier.max(before),
                EndReply::Gone(before) => {
                    earlier = earlier.max(before);
                    // It is no longer the holder, but may still have a queue entry.
                    if !matches!(ending.hint, ReleaseHint::MaybeQueued { .. }) {
                        break;
                    }
                }
            }
        }
        // The lease was valid at the time of the release, and a command of ours was answered: so either we ended it, or
        // it has expired since.
        Ok(match earlier {
            Earlier::NotApplied => Released::NotHeld,
            Earlier::CutOff if ending.was_valid => Released::Released,
            Earlier::CutOff | Earlier::Unanswered => Released::Unknown,
        })
    }

    /// Sends one command of those that may be about many leases, until it is answered.
    async fn end_batched(
        &self,
        step: ReleaseStep,
        target: &ReleaseTarget,
        policy: RetryPolicy,
        mut first: Option<Pending<EndReply>>,
        shared_with: SharedWith,
    ) -> Result<Answer<EndReply>, Failure> {
        let attempts = self.attempts(step);
        let mut is_first = true;
        retry::until_answered(self.runner.clock(), policy, |time| {
            let item = EndItem::new(target.clone());
            let started = first.take();
            match (started, std::mem::take(&mut is_first)) {
                (Some(started), _) => started,
                (None, true) => match shared_with {
                    SharedWith::First => attempts.first.start(item, time, |_| ()),
                    SharedWith::None => attempts.first.start_alone(item, time, |_| ()),
                    SharedWith::Repeated => attempts.again.start(item, time, |_| ()),
                },
                (None, false) if target.form == Form::Plain => {
                    attempts.again.start(item, time, |_| ())
                }
                (None, false) => attempts.again.start_alone(item, time, |_| ()),
            }
        })
        .await
    }
}
