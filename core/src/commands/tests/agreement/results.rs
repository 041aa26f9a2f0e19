//! The results of steps that a run has to have seen, so that it shows something.

use crate::spec::{Expiry, HandOffTo, ResumeTerms, Types};

use super::small::{Document, Element, GrantMatch, Promoted, Queue, Small};
use super::steps::{Answer, Step, Write};
use super::texts::NO_TEXT;

const MATCHED: &str = "matched";
const UNMATCHED: &str = "not matched";
const DONE: &str = "done";
const GRANTED: &str = "granted";
const REFUSED: &str = "refused";
const UNCLEAR: &str = "left to the full form";
const PROMOTED: &str = "promoted";
const ENDED: &str = "ended";
/// Only where somebody waits for a share: the comparison of permits has such documents.
const LEFT: &str = "left to admit";

/// Refused, and in the queue behind an entry whose value is no text.
pub(super) const BEHIND_FOREIGN: &str = "behind a value of a foreign type";

/// Each step: its name, the type of its command, and the results that it must have had. Without a command, another
/// program writes.
pub(super) const RESULTS: [(&str, Option<&str>, &[&str]); 28] = [
    (
        "acquire",
        Some("FullAcquire"),
        &[GRANTED, "granted again", "inherited", "first", "behind others", REFUSED],
    ),
    ("fast acquire", Some("FastAcquire"), &[GRANTED, REFUSED, UNCLEAR]),
    ("fast acquire with others", Some("FastAcquireMany"), &[GRANTED, REFUSED, UNCLEAR]),
    ("insert", Some("FastAcquire"), &[GRANTED, UNMATCHED]),
    ("renew", Some("RenewMany"), &[MATCHED, UNMATCHED]),
    ("resume", Some("Resume"), &[MATCHED, UNMATCHED]),
    ("resume with a ttl", Some("Resume"), &[MATCHED, UNMATCHED]),
    ("guard", Some("Guard"), &[MATCHED, UNMATCHED]),
    ("guard that is aborted", Some("Guard"), &[MATCHED, UNMATCHED]),
    ("release", Some("Release"), &[MATCHED, "kept", UNMATCHED]),
    ("tombstone", Some("Tombstone"), &[MATCHED, UNMATCHED]),
    ("release later", Some("ReleaseLater"), &[MATCHED, "rechecked", UNMATCHED]),
    ("heartbeat", Some("Heartbeat"), &[MATCHED, UNMATCHED]),
    ("find entries", Some("FindEntries"), &[MATCHED, UNMATCHED]),
    ("hand off to a waiter", Some("HandOff"), &[PROMOTED, UNMATCHED]),
    ("hand off to a waiter or nobody", Some("HandOff"), &[PROMOTED, ENDED, UNMATCHED]),
    ("leave the queue", Some("HandOff"), &[PROMOTED, ENDED, MATCHED, UNMATCHED]),
    ("foreign acquire", None, &[MATCHED, UNMATCHED]),
    ("foreign release", None, &[MATCHED, UNMATCHED]),
    ("delete by ttl", None, &[MATCHED, UNMATCHED]),
    ("write an expiry", None, &[DONE]),
    ("write a value", None, &[DONE]),
    ("write the time of the grant", None, &[DONE]),
    ("write a ttl", None, &[DONE]),
    ("write a damaged grant", None, &[DONE]),
    ("write a queue", None, &[DONE]),
    ("write a damaged queue", None, &[DONE]),
    ("write a damaged expiry", None, &[DONE]),
];

impl Step {
    /// The name in [`RESULTS`].
    pub(super) fn name(&self) -> &'static str {
        match self {
            Step::Acquire(_) => "acquire",
            Step::FastAcquire { with_others: false, .. } => "fast acquire",
            Step::FastAcquire { with_others: true, .. } => "fast acquire with others",
            Step::Insert(_) => "insert",
            Step::Renew { .. } => "renew",
            Step::Resume { terms: ResumeTerms { ttl: None, .. }, .. } => "resume",
            Step::Resume { .. } => "resume with a ttl",
            Step::Guard { commits: true, .. } => "guard",
            Step::Guard { commits: false, .. } => "guard that is aborted",
            Step::Release { .. } => "release",
            Step::Tombstone { .. } => "tombstone",
            Step::ReleaseLater { .. } => "release later",
            Step::Heartbeat { .. } => "heartbeat",
            Step::FindEntries { .. } => "find entries",
            Step::HandOff { to: HandOffTo::LiveWaiter, .. } => "hand off to a waiter",
            Step::HandOff { to: HandOffTo::LiveWaiterOrNobody, .. } => {
                "hand off to a waiter or nobody"
            }
            Step::HandOff { to: HandOffTo::AfterLeavingQueue, .. } => "leave the queue",
            Step::ForeignAcquire { .. } => "foreign acquire",
            Step::ForeignRelease { .. } => "foreign release",
            Step::TtlDelete => "delete by ttl",
            Step::Write(Write::Expiry { to: Expiry::Damaged, .. }) => "write a damaged expiry",
            Step::Write(Write::Expiry { .. }) => "write an expiry",
            Step::Write(Write::Value(_)) => "write a value",
            Step::Write(Write::GrantedAt) => "write the time of the grant",
            Step::Write(Write::Ttl(_)) => "write a ttl",
            Step::Write(Write::DamagedGrant) => "write a damaged grant",
            Step::Write(Write::Queue(_)) => "write a queue",
            Step::Write(Write::DamagedQueue { .. }) => "write a damaged queue",
        }
    }

    /// The type of its command. `None`: another program writes.
    pub(super) fn command(&self) -> Option<&'static str> {
        RESULTS
            .into_iter()
            .find(|(name, ..)| *name == self.name())
            .and_then(|(_, command, _)| command)
    }
}

/// The result of one step, one of its results in [`RESULTS`].
pub(super) fn result(
    step: &Step,
    answer: Answer,
    before: Option<&Document>,
    after: Option<&Document>,
) -> &'static str {
    let told = |document: Option<&Document>| document.and_then(|document| document.promoted);
    let rechecks =
        matches!(told(after), Some(Promoted::Recheck { .. })) && told(after) != told(before);
    let value = |document: Option<&Document>| document.and_then(|document| document.value);
    let (holder, next) = (value(before), value(after));
    match (step, answer) {
        (Step::Acquire(request), Answer::Granted(_)) => match holder {
            Some(value) if Some(value) == request.predecessor => "inherited",
            Some(value) if value == request.value => "granted again",
            Some(_) | None => GRANTED,
        },
        (_, Answer::Granted(_)) => GRANTED,
        (_, Answer::Refused { ahead: Some(ahead), .. }) if is_behind_foreign(after, ahead) => {
            BEHIND_FOREIGN
        }
        (_, Answer::Refused { ahead: Some(0), .. }) => "first",
        (_, Answer::Refused { ahead: Some(_), .. }) => "behind others",
        (_, Answer::Refused { ahead: None, .. }) => REFUSED,
        (_, Answer::Unclear) => UNCLEAR,
        (_, Answer::Done) => DONE,
        (Step::HandOff { .. }, Answer::Matched(true)) if next != holder => {
            if next == Some(Small::nobody()) { ENDED } else { PROMOTED }
        }
        (Step::ReleaseLater { .. }, Answer::Matched(true)) if rechecks => "rechecked",
        (&Step::Release { value, which: GrantMatch::Any }, Answer::Matched(false))
            if holder == Some(value) =>
        {
            "kept"
        }
        (_, Answer::Matched(true)) => MATCHED,
        (_, Answer::Matched(false)) => UNMATCHED,
        (_, Answer::LeftToAdmit) => LEFT,
    }
}

fn is_behind_foreign(document: Option<&Document>, ahead: usize) -> bool {
    let Some(Queue::List(elements)) = document.map(|document| &document.queue) else {
        return false;
    };
    elements.iter().take(ahead).any(|it| matches!(it, Element::Damaged(Some(NO_TEXT))))
}
