//! The results of steps that a run has to have seen, so that it shows something.

use super::queue::NO_TEXT;
use super::small::{Document, Element, GrantMatch, Promoted, Queue, Small};
use super::steps::{Answer, Step};
use crate::spec::{Expiry, HandOffTo, Types};

const MATCHED: &str = "matched";
const UNMATCHED: &str = "not matched";
const DONE: &str = "done";
const GRANTED: &str = "granted";
const REFUSED: &str = "refused";
const UNCLEAR: &str = "left to the full form";
const PROMOTED: &str = "promoted";
const ENDED: &str = "ended";

/// Refused, and in the queue behind an entry whose value is no text.
pub(super) const BEHIND_FOREIGN: &str = "behind a value of a foreign type";

/// Each step with its results.
pub(super) const RESULTS: [(&str, &[&str]); 27] = [
    ("acquire", &[GRANTED, "granted again", "inherited", "first", "behind others", REFUSED]),
    ("fast acquire", &[GRANTED, REFUSED, UNCLEAR]),
    ("fast acquire with others", &[GRANTED, REFUSED, UNCLEAR]),
    ("insert", &[GRANTED, UNMATCHED]),
    ("renew", &[MATCHED, UNMATCHED]),
    ("resume", &[MATCHED, UNMATCHED]),
    ("resume with a ttl", &[MATCHED, UNMATCHED]),
    ("guard", &[MATCHED, UNMATCHED]),
    ("guard that is aborted", &[MATCHED, UNMATCHED]),
    ("release", &[MATCHED, "kept", UNMATCHED]),
    ("tombstone", &[MATCHED, UNMATCHED]),
    ("release later", &[MATCHED, "rechecked", UNMATCHED]),
    ("heartbeat", &[MATCHED, UNMATCHED]),
    ("find entries", &[MATCHED, UNMATCHED]),
    ("hand off to a waiter", &[PROMOTED, UNMATCHED]),
    ("hand off to a waiter or nobody", &[PROMOTED, ENDED, UNMATCHED]),
    ("leave the queue", &[PROMOTED, ENDED, MATCHED, UNMATCHED]),
    ("foreign acquire", &[MATCHED, UNMATCHED]),
    ("foreign release", &[MATCHED, UNMATCHED]),
    ("delete by ttl", &[MATCHED, UNMATCHED]),
    ("set expiry", &[DONE]),
    ("set value", &[DONE]),
    ("set time of grant", &[DONE]),
    ("damage grant", &[DONE]),
    ("set queue", &[DONE]),
    ("damage queue", &[DONE]),
    ("damage expiry", &[DONE]),
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
            Step::Resume { ttl: None, .. } => "resume",
            Step::Resume { ttl: Some(_), .. } => "resume with a ttl",
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
            Step::SetExpiry { to: Expiry::Damaged, .. } => "damage expiry",
            Step::SetExpiry { .. } => "set expiry",
            Step::SetValue { .. } => "set value",
            Step::SetGrantedAt => "set time of grant",
            Step::DamageGrant => "damage grant",
            Step::SetQueue { .. } => "set queue",
            Step::DamageQueue { .. } => "damage queue",
        }
    }

    /// The type of its command. `None`: another program writes.
    pub(super) fn command(&self) -> Option<&'static str> {
        Some(match self {
            Step::Acquire(_) => "FullAcquire",
            Step::FastAcquire { with_others: true, .. } => "FastAcquireMany",
            Step::FastAcquire { .. } | Step::Insert(_) => "FastAcquire",
            Step::Renew { .. } => "RenewMany",
            Step::Resume { .. } => "Resume",
            Step::Guard { .. } => "Guard",
            Step::Release { .. } => "Release",
            Step::Tombstone { .. } => "Tombstone",
            Step::ReleaseLater { .. } => "ReleaseLater",
            Step::Heartbeat { .. } => "Heartbeat",
            Step::FindEntries { .. } => "FindEntries",
            Step::HandOff { .. } => "HandOff",
            _ => return None,
        })
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
    }
}

fn is_behind_foreign(document: Option<&Document>, ahead: usize) -> bool {
    let Some(Queue::List(elements)) = document.map(|document| &document.queue) else {
        return false;
    };
    elements.iter().take(ahead).any(|it| matches!(it, Element::Damaged(Some(NO_TEXT))))
}
