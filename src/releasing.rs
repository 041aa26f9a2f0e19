//! Ending leases, for whoever does it: in one command where it can be told beforehand which, and never by halves.
//!
//! A lease with an empty line is deleted, or becomes a tombstone where that was asked for; one for which somebody waits
//! is handed on; and where all in line have died it ends, and the server removes the document. The conditions are the commands'
//! own, so it is a question of speed alone which goes first: the last of them matches whatever is still there.

mod freeing;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use crate::clock;
use crate::combining::{Combine, Combiner};
use crate::commands::inspect::Look;
use crate::commands::release::{Deleted, HandOn, Successor, Target};
use crate::commands::seen::Seen;
use crate::error::{Cause, Failure};
use crate::rules::outcome::MAYBE_APPLIED;
use crate::rules::time::Instant;
use crate::runner::{Answered, Lane, Limits, Runner};

/// What is likely to be found where a lease is to be ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Expected {
    /// Held, and nobody waits.
    NobodyWaits,
    /// Held, and somebody waits.
    SomebodyWaits,
    /// Held or in line: who is named leaves the line as well.
    HeldOrInLine,
    /// In line.
    InLine,
}

/// The commands that end leases, one after the other until all have been found.
enum Step {
    /// Deletes, or makes a tombstone: as the manager's option says.
    Free,
    HandOn(Successor),
}

impl Expected {
    pub(crate) const ALL: [Expected; 4] =
        [Expected::NobodyWaits, Expected::SomebodyWaits, Expected::HeldOrInLine, Expected::InLine];

    fn steps(self) -> &'static [Step] {
        match self {
            Expected::NobodyWaits => &[Step::Free, Step::HandOn(Successor::Anybody)],
            Expected::SomebodyWaits => {
                &[Step::HandOn(Successor::Somebody), Step::Free, Step::HandOn(Successor::Anybody)]
            }
            Expected::HeldOrInLine => &[Step::Free, Step::HandOn(Successor::AnybodyAfterLeaving)],
            Expected::InLine => &[Step::HandOn(Successor::AnybodyAfterLeaving)],
        }
    }
}

/// How many leases were ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ended {
    /// How many were there.
    pub(crate) leases: usize,
    /// More may have been: an earlier attempt of a command went unanswered.
    pub(crate) maybe_more: bool,
}

/// Ends these leases.
pub(crate) async fn end_leases(
    runner: &Runner,
    releases: &Releases,
    targets: &[Target],
    expected: Expected,
    limits: Limits,
) -> Result<Ended, Failure> {
    in_steps(runner, releases, targets, expected.steps(), limits).await
}

async fn in_steps(
    runner: &Runner,
    releases: &Releases,
    targets: &[Target],
    steps: &[Step],
    limits: Limits,
) -> Result<Ended, Failure> {
    let mut ended = Ended { leases: 0, maybe_more: false };
    for step in steps {
        // The server takes no command without a statement either.
        if ended.leases >= targets.len() {
            break;
        }
        let targets = targets.to_vec();
        let (count, maybe_more) = match step {
            Step::Free => {
                let answer = releases.free(runner, targets, limits).await?;
                (answer.reply.count, answer.earlier_maybe_applied)
            }
            &Step::HandOn(to) => {
                let collection = releases.collection.clone();
                let values = clock::tombstone_values()?;
                let command = HandOn { collection, targets, to, values };
                let answer = runner.run(command, limits).await?;
                (answer.reply, answer.earlier_maybe_applied)
            }
        };
        ended.leases += usize::try_from(count).unwrap_or(0);
        ended.maybe_more |= maybe_more;
    }
    Ok(ended)
}

/// Ends one lease. Where nobody is likely to wait for it, the first command may be one with other calls' leases in it.
pub(crate) async fn end_lease(
    combiner: &Combiner<Releases>,
    runner: &Runner,
    releases: &Releases,
    target: Target,
    expected: Expected,
    limits: Limits,
) -> Result<Ended, Failure> {
    let targets = [target];
    let steps = expected.steps();
    let [Step::Free, rest @ ..] = steps else {
        return in_steps(runner, releases, &targets, steps, limits).await;
    };
    let mut is_first = true;
    let answer = runner.run_attempts(limits, |deadline| {
        let target = targets[0].clone();
        match std::mem::take(&mut is_first) {
            true => combiner.start(target, deadline, |_| ()),
            // Whatever was wrong may have been its company's fault.
            false => combiner.start_alone(target, deadline, |_| ()),
        }
    });
    let answer = answer.await?;
    let mut ended = Ended { leases: usize::from(answer.reply), maybe_more: false };
    if ended.leases == 0 {
        ended = in_steps(runner, releases, &targets, rest, limits).await?;
    }
    ended.maybe_more |= answer.earlier_maybe_applied;
    Ok(ended)
}

/// Releases of leases of one collection for which nobody waits.
#[derive(Clone, Debug)]
pub(crate) struct Releases {
    pub(crate) collection: String,
    /// Whether a release makes a tombstone.
    tombstones: bool,
    /// Whether somebody has been told that the server refuses tombstones.
    told_of_refusal: Arc<AtomicBool>,
}

impl Combine for Releases {
    type Item = Target;
    /// Whether it was there, and is not any more.
    type Reply = bool;

    async fn carry_out(
        &self,
        runner: &Runner,
        targets: Vec<Target>,
        deadline: Instant,
    ) -> Vec<Answered<bool>> {
        let ended = self.free_once(runner, targets.clone(), deadline).await;
        match ended {
            Err(failure) => targets.iter().map(|_| Err(failure.clone())).collect(),
            Ok(ended) if ended.are_all_of(targets.len()) => {
                targets.iter().map(|_| Ok(true)).collect()
            }
            Ok(Deleted { count: 0, .. }) => targets.iter().map(|_| Ok(false)).collect(),
            Ok(ended) => self.which_of(runner, &targets, ended, deadline).await,
        }
    }
}

impl Releases {
    pub(crate) fn new(collection: &str, tombstones: bool) -> Releases {
        let told_of_refusal = Arc::default();
        Releases { collection: collection.to_owned(), tombstones, told_of_refusal }
    }

    /// Some were there, and others were not, or somebody waits for them: looks which.
    async fn which_of(
        &self,
        runner: &Runner,
        targets: &[Target],
        deleted: Deleted,
        deadline: Instant,
    ) -> Vec<Answered<bool>> {
        let look = Look {
            collection: self.collection.clone(),
            names: targets.iter().map(|target| target.name.clone()).collect(),
            lane: Lane::Keep,
            after: deleted.at,
        };
        match runner.attempt(&look, deadline).await {
            Ok(found) => who_was_deleted(targets, deleted, &found),
            Err(failure) => {
                let failure = failure.or_maybe(true);
                targets.iter().map(|_| Err(failure.clone())).collect()
            }
        }
    }
}

/// What stands there still was not deleted. All the rest was, if there are as many as the server says; else some of it
/// was not there before, and which, nobody knows.
fn who_was_deleted(targets: &[Target], deleted: Deleted, found: &[Seen]) -> Vec<Answered<bool>> {
    let stands: Vec<bool> =
        targets.iter().map(|target| found.iter().any(|seen| target.is(seen))).collect();
    let gone = stands.iter().filter(|stands| !**stands).count();
    let is_known = deleted.are_all_of(gone);
    let answer = |stands: bool| match stands {
        true => Ok(false),
        false if is_known => Ok(true),
        false => {
            let reason = "fewer leases were deleted than have gone".to_owned();
            Err(Failure { outcome: MAYBE_APPLIED, cause: Cause::Reply(reason) })
        }
    };
    stands.into_iter().map(answer).collect()
}

#[cfg(test)]
mod tests;
