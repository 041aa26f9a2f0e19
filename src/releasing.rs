//! Ending leases, for whoever does it: in one command where it can be told beforehand which, and never by halves.
//!
//! A lease with an empty line is deleted; one for which somebody waits is handed on; and where all in line have died it
//! ends, and the server removes the document. The conditions are the commands' own, so it is a question of speed alone
//! which goes first: the last of them matches whatever is still there.

use crate::commands::release::{HandOn, Release, Successor, Target};
use crate::error::Failure;
use crate::runner::{Limits, Runner};

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

enum Step {
    Delete,
    HandOn(Successor),
}

impl Expected {
    pub(crate) const ALL: [Expected; 4] =
        [Expected::NobodyWaits, Expected::SomebodyWaits, Expected::HeldOrInLine, Expected::InLine];

    fn steps(self) -> &'static [Step] {
        match self {
            Expected::NobodyWaits => &[Step::Delete, Step::HandOn(Successor::Anybody)],
            Expected::SomebodyWaits => {
                &[Step::HandOn(Successor::Somebody), Step::Delete, Step::HandOn(Successor::Anybody)]
            }
            Expected::HeldOrInLine => &[Step::Delete, Step::HandOn(Successor::AnybodyAfterLeaving)],
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
    collection: &str,
    targets: &[Target],
    expected: Expected,
    limits: Limits,
) -> Result<Ended, Failure> {
    let mut ended = Ended { leases: 0, maybe_more: false };
    for step in expected.steps() {
        // The server takes no command without a statement either.
        if ended.leases >= targets.len() {
            break;
        }
        let (collection, targets) = (collection.to_owned(), targets.to_vec());
        let answer = match step {
            Step::Delete => runner.run(Release { collection, targets }, limits).await?,
            &Step::HandOn(to) => runner.run(HandOn { collection, targets, to }, limits).await?,
        };
        ended.leases += usize::try_from(answer.reply).unwrap_or(0);
        ended.maybe_more |= answer.earlier_maybe_applied;
    }
    Ok(ended)
}
