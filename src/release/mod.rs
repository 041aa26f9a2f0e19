//! Ends leases: for holders, the background releaser and operators.
//!
//! The document of a holder that is alone is deleted, or becomes a tombstone. Beside other holders, or with a queue, a
//! release ends its own grant and admits the waiters that fit then. Each command checks its own conditions, so the
//! order of the commands affects speed only: the last command matches every remaining state.
//!
//! The first attempts of many releases share a command. Attempts that must be repeated share commands only with other
//! repeated ones: after a lost reply it is unknown which leases of the command had already ended.

pub(crate) mod background;
pub(crate) mod call_state;
pub(crate) mod pending;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::Stream;
use futures_util::stream::FuturesUnordered;
use mongo_lease_core::commands::{EndLater, FindLeases, Form, ReleaseTarget};
use mongo_lease_core::info::{LeaseInfo, LeaseState};
use mongo_lease_core::rules::Permits;
use mongo_lease_core::spec::EndScope;

use crate::batch::Batcher;
use crate::batch::releases::{EndItem, EndReply, ReleaseBatch, ReleaseStep, Tombstones};
use crate::batch::single::SingleSender;
use crate::error::{Error, Result};
use crate::hints::NameHint;
use crate::mistake::{Mistake, is_made};
use crate::release::pending::EndSignal;
use crate::retry::{self, RetryPolicy};
use crate::runner::{AttemptResult, Pace, Pending, PriorEffect, Runner};

/// The most leases of one query.
const NAMES_MAX: usize = 1_000;

/// A lease to be ended.
#[derive(Clone, Debug)]
pub(crate) struct Ending {
    pub(crate) target: ReleaseTarget,
    pub(crate) hint: ReleaseHint,
    /// Whether the lease was still valid for its holder at the time of the release.
    pub(crate) was_valid: bool,
    /// Cancelled when the release is applied. A majority may be late.
    pub(crate) applied: Option<EndSignal>,
}

impl Ending {
    fn item(&self) -> EndItem {
        EndItem::new(self.target.clone(), self.applied.clone())
    }
}

/// The state in which a release is likely to find its grant. A wrong guess costs a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReleaseHint {
    /// The only holder, with an empty queue.
    Alone,
    /// A holder beside others, or with waiters.
    BesideOthers,
    /// Nobody knows whether it holds or waits. The release also takes the entry out of the queue.
    MaybeQueued {
        /// Whether it is more likely to hold, alone.
        is_alone: bool,
    },
}

impl ReleaseHint {
    /// For a grant that a reply has shown, with these permits.
    pub(crate) fn of_grant(permits: Permits, info: &LeaseInfo) -> ReleaseHint {
        let is_only_holder = permits.is_exclusive() || info.in_use == Some(permits.count());
        match is_only_holder && info.waiting == 0 {
            true => ReleaseHint::Alone,
            false => ReleaseHint::BesideOthers,
        }
    }

    /// The commands of the release, in the order in which they are sent.
    fn steps(self) -> &'static [ReleaseStep] {
        const FREE: ReleaseStep = ReleaseStep::Free;
        const BESIDE_OTHERS: ReleaseStep = ReleaseStep::End(EndScope::BesideOthers);
        const ANYWHERE: ReleaseStep = ReleaseStep::End(EndScope::Anywhere);
        const HELD_OR_QUEUED: ReleaseStep = ReleaseStep::End(EndScope::HeldOrQueued);
        match self {
            ReleaseHint::Alone => &[FREE, ANYWHERE],
            ReleaseHint::BesideOthers => &[BESIDE_OTHERS, FREE, ANYWHERE],
            ReleaseHint::MaybeQueued { is_alone: true } => &[FREE, HELD_OR_QUEUED],
            ReleaseHint::MaybeQueued { is_alone: false } => &[HELD_OR_QUEUED],
        }
    }
}

/// The outcome of a release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Released {
    /// The lease was held under this name and value, and is released.
    Released,
    /// The lease was not held under this name and value. Nothing changed.
    NotHeld,
    /// The lease is not held under this name and value. This release may have ended it: an earlier attempt was not
    /// answered; or the server cut that off, in a release by name and value or of a lease that was not valid any more;
    /// or it shared a command with releases of others, one of whose leases another process had ended.
    Unknown,
}

/// Ends leases of one collection. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Releaser {
    shared: Arc<Inner>,
}

struct Inner {
    runner: Runner,
    blocked: NameHint,
    alone: SingleSender,
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

impl Releaser {
    pub(crate) fn new(runner: &Runner, tombstones: bool, blocked: &NameHint) -> Releaser {
        let pace = Pace::default();
        let tombstones = Tombstones::new(tombstones);
        let attempts = |step| {
            let op = ReleaseBatch { step, tombstones: tombstones.clone() };
            let batcher = |op| Batcher::new(runner.clone(), op, pace.clone(), blocked.clone());
            StepBatchers { first: batcher(op.clone()), again: batcher(op) }
        };
        let shared = Inner {
            runner: runner.clone(),
            blocked: blocked.clone(),
            alone: SingleSender::new(runner.clone(), Some(pace.clone()), blocked.clone()),
            free: attempts(ReleaseStep::Free),
            beside_others: attempts(ReleaseStep::End(EndScope::BesideOthers)),
            anywhere: attempts(ReleaseStep::End(EndScope::Anywhere)),
            held_or_queued: attempts(ReleaseStep::End(EndScope::HeldOrQueued)),
        };
        Releaser { shared: Arc::new(shared) }
    }

    /// Ends one lease. If it is likely to have no waiters, the first command may be shared with other calls.
    pub(crate) async fn end(&self, ending: Ending, policy: RetryPolicy) -> AttemptResult<Released> {
        self.shared.end(ending, policy, None).await
    }

    /// Ends many leases, each with its own limits, in as few commands as possible. Yields each result as it arrives,
    /// with its index in the list.
    pub(crate) fn end_all(
        &self,
        endings: Vec<(Ending, RetryPolicy)>,
    ) -> impl Stream<Item = (usize, AttemptResult<Released>)> + Send + use<> {
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
                (ending.item(), policy.attempt_time())
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
        was_valid: bool,
        hold_at_least: Duration,
        policy: RetryPolicy,
    ) -> AttemptResult<Released> {
        let name = target.name.clone();
        let values = self.shared.runner.clock().tombstone_values()?;
        let command = EndLater { target: target.clone(), hold_at_least, values };
        let answer = retry::run_alone(&self.shared.alone, &name, command, policy).await?;
        Ok(match answer.reply {
            true => Released::Released,
            false => self.shared.by_earlier(answer.earlier, was_valid, Some(&target), policy).await,
        })
    }

    /// Fails if the document of this lease, which a release has not ended, is damaged.
    pub(crate) async fn check_sound(
        &self,
        target: ReleaseTarget,
        policy: RetryPolicy,
    ) -> Result<()> {
        match self.damaged(&[target], policy).await.into_iter().next() {
            Some((name, found)) => Err(Error::damaged(&name, found)),
            None => Ok(()),
        }
    }

    /// Those of the leases whose documents are damaged, by name, with the types of their expiries.
    ///
    /// One that several hold counts whoever its holders are: the query does not read them. Where no query is answered
    /// in time, no lease counts: then the answer to the release is all that is known.
    pub(crate) async fn damaged(
        &self,
        targets: &[ReleaseTarget],
        policy: RetryPolicy,
    ) -> BTreeMap<String, String> {
        self.shared.damaged(targets, policy).await
    }

    /// Whether this lease's document is likely to be blocked.
    pub(crate) fn is_blocked(&self, name: &str) -> bool {
        self.shared.blocked.has(name)
    }
}

impl Inner {
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
    ) -> AttemptResult<Released> {
        let is_one_of_many = first.is_some();
        let is_plain = ending.target.form == Form::Plain;
        let (mut earlier, mut is_gone) = (PriorEffect::NotApplied, false);
        for &step in ending.hint.steps() {
            if earlier == PriorEffect::NotApplied
                && is_made(Mistake::HintBelieved)
                && step != ending.hint.steps()[0]
            {
                break;
            }
            let attempts = self.attempts(step);
            let mut next = if earlier == PriorEffect::NotApplied {
                // The reply to a command that is not shared says what it did, and no query is needed.
                let is_shared = step == ReleaseStep::Free || is_one_of_many;
                (&attempts.first, is_plain && is_shared)
            } else {
                // After a reply that was lost with many releases, each would send a command.
                (&attempts.again, is_plain)
            };
            let mut is_repeated = earlier > PriorEffect::NotApplied;
            let start = |time| {
                // No query tells about one of several holders.
                let (batcher, is_shared) =
                    std::mem::replace(&mut next, (&attempts.again, is_plain));
                let again = std::mem::replace(&mut is_repeated, true);
                let item = ending.item().repeated(again);
                match first.take() {
                    Some(started) => started,
                    None if is_shared => batcher.start(item, time, |_| ()),
                    None => batcher.start_alone(item, time, |_| ()),
                }
            };
            let clock = self.runner.clock();
            let answer = retry::until_answered(clock, policy, start, |_| false).await?;
            earlier = earlier.max(answer.earlier);
            match answer.reply {
                EndReply::Ended => return Ok(Released::Released),
                EndReply::NotEnded(before) => earlier = earlier.max(before),
                EndReply::Gone(before) => {
                    (earlier, is_gone) = (earlier.max(before), true);
                    // It is no longer the holder, but may still have a queue entry.
                    if !matches!(ending.hint, ReleaseHint::MaybeQueued { .. }) {
                        break;
                    }
                }
            }
        }
        // A look that has not found the lease would have found its damaged document.
        let may_be_damaged = (!is_gone).then_some(&ending.target);
        Ok(self.by_earlier(earlier, ending.was_valid, may_be_damaged, policy).await)
    }

    /// The outcome of a release whose last command has found no such holder.
    async fn by_earlier(
        &self,
        earlier: PriorEffect,
        was_valid: bool,
        may_be_damaged: Option<&ReleaseTarget>,
        policy: RetryPolicy,
    ) -> Released {
        match earlier {
            PriorEffect::NotApplied => Released::NotHeld,
            // The lease was valid at the time of the release, and a command of ours was answered: so we ended it, or
            // it has expired since, or an operator ended it. Or its document is damaged, and nothing is written there.
            PriorEffect::CutOff if was_valid => {
                let damaged =
                    self.damaged(may_be_damaged.map_or(&[], std::slice::from_ref), policy).await;
                if damaged.is_empty() { Released::Released } else { Released::NotHeld }
            }
            PriorEffect::CutOff | PriorEffect::Unanswered => Released::Unknown,
        }
    }

    /// See [`Releaser::damaged`].
    async fn damaged(
        &self,
        targets: &[ReleaseTarget],
        policy: RetryPolicy,
    ) -> BTreeMap<String, String> {
        let mut all = BTreeMap::new();
        for targets in targets.chunks(NAMES_MAX) {
            let by_name: BTreeMap<&str, &ReleaseTarget> =
                targets.iter().map(|target| (target.name.as_str(), target)).collect();
            let names = by_name.keys().map(|&name| name.to_owned()).collect();
            let look = FindLeases { names, after: None };
            let Ok(answer) = retry::run(&self.runner, look, policy).await else {
                continue;
            };
            for mut seen in answer.reply {
                if let [only] = targets {
                    // Another program's name may match without being a string.
                    seen.info.name.clone_from(&only.name);
                }
                let target = by_name.get(seen.info.name.as_str());
                let is_target = target.is_some_and(|it| it.is(&seen) || seen.info.shared);
                if let LeaseState::Damaged { found } = seen.info.state
                    && is_target
                {
                    all.insert(seen.info.name, found);
                }
            }
        }
        all
    }
}
