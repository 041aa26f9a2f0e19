//! The results of steps that a run has to have seen, so that it shows something.

use crate::spec::{EndScope, Expiry, ResumeTerms, Types};

use super::small::{Document, Element, GrantMatch, Promoted, Queue, Small, Value};
use super::steps::{Answer, Step, Target, Write};
use super::texts::NO_TEXT;

const MATCHED: &str = "matched";
const UNMATCHED: &str = "not matched";
const DONE: &str = "done";
const GRANTED: &str = "granted";
const AGAIN: &str = "granted again";
const INHERITED: &str = "inherited";
const BESIDE: &str = "beside holders";
const WITH_OTHERS: &str = "with others";
const OTHERS_ALONE: &str = "others alone";
const FIRST: &str = "first in the queue";
const BEHIND: &str = "behind others";
const REFUSED: &str = "refused";
const UNCLEAR: &str = "left to the slow form";
const PROMOTED: &str = "promotes";
const ONE: &str = "admits one";
const SEVERAL: &str = "admits several";
const RECHECKED: &str = "rechecks";
const ENDED: &str = "ended";
const KEPT: &str = "kept";
const OF_LIST: &str = "of a list";

/// Refused, and in the queue behind an entry whose value is no text.
pub(super) const BEHIND_FOREIGN: &str = "behind a value of a foreign type";

/// Each step: its name, the type of its command, and the results that it must have had. Without a command, another
/// program writes.
pub(super) const RESULTS: [(&str, Option<&str>, &[&str]); 32] = [
    (
        "acquire",
        Some("SlowAcquire"),
        &[GRANTED, AGAIN, INHERITED, BESIDE, WITH_OTHERS, OTHERS_ALONE, FIRST, BEHIND, REFUSED],
    ),
    ("fast acquire", Some("FastAcquire"), &[GRANTED, REFUSED, UNCLEAR]),
    ("fast acquire with others", Some("FastAcquireMany"), &[GRANTED, REFUSED, UNCLEAR]),
    ("fast admit", Some("FastAdmit"), &[GRANTED, BESIDE, REFUSED, UNCLEAR]),
    ("insert", Some("FastAcquire"), &[GRANTED, UNMATCHED]),
    ("renew", Some("RenewMany"), &[MATCHED, UNMATCHED]),
    ("renew a holder", Some("RenewHolders"), &[MATCHED, UNMATCHED]),
    ("renew two holders", Some("RenewHolders"), &[MATCHED, UNMATCHED]),
    ("resume", Some("Resume"), &[MATCHED, UNMATCHED]),
    ("resume with a ttl", Some("Resume"), &[MATCHED, UNMATCHED]),
    ("guard", Some("Guard"), &[MATCHED, UNMATCHED]),
    ("guard that is aborted", Some("Guard"), &[MATCHED, UNMATCHED]),
    ("delete", Some("Delete"), &[MATCHED, OF_LIST, KEPT, UNMATCHED]),
    ("tombstone", Some("Tombstone"), &[MATCHED, OF_LIST, UNMATCHED]),
    ("end beside others", Some("End"), &[PROMOTED, ONE, MATCHED, UNMATCHED]),
    ("end anywhere", Some("End"), &[PROMOTED, ONE, ENDED, MATCHED, UNMATCHED]),
    (
        "end or leave the queue",
        Some("End"),
        &[PROMOTED, ONE, SEVERAL, RECHECKED, ENDED, MATCHED, UNMATCHED],
    ),
    ("end later", Some("EndLater"), &[MATCHED, RECHECKED, UNMATCHED]),
    ("heartbeat", Some("Heartbeat"), &[MATCHED, UNMATCHED]),
    ("find entries", Some("FindEntries"), &[MATCHED, UNMATCHED]),
    ("foreign acquire", None, &[MATCHED, UNMATCHED]),
    ("foreign release", None, &[MATCHED, UNMATCHED]),
    ("delete by ttl", None, &[MATCHED, UNMATCHED]),
    ("write an expiry", None, &[DONE]),
    ("write a value", None, &[DONE]),
    ("write the time of the grant", None, &[DONE]),
    ("write a ttl", None, &[DONE]),
    ("write a damaged grant", None, &[DONE]),
    ("write a queue", None, &[DONE]),
    ("write a damaged expiry or list", None, &[DONE]),
    ("write holders", None, &[DONE]),
    ("write a damaged expiry of holders", None, &[DONE]),
];

impl Step {
    /// The name in [`RESULTS`].
    pub(super) fn name(&self) -> &'static str {
        match self {
            Step::Acquire(_) => "acquire",
            Step::FastAcquire { with_others: false, .. } => "fast acquire",
            Step::FastAcquire { with_others: true, .. } => "fast acquire with others",
            Step::FastAdmit(_) => "fast admit",
            Step::Insert(_) => "insert",
            Step::Renew { .. } => "renew",
            Step::RenewHolders { keys } if keys.len() == 1 => "renew a holder",
            Step::RenewHolders { .. } => "renew two holders",
            Step::Resume { terms: ResumeTerms { ttl: None, .. }, .. } => "resume",
            Step::Resume { .. } => "resume with a ttl",
            Step::Guard { commits: true, .. } => "guard",
            Step::Guard { commits: false, .. } => "guard that is aborted",
            Step::Delete(_) => "delete",
            Step::Tombstone(_) => "tombstone",
            Step::End { scope: EndScope::BesideOthers, .. } => "end beside others",
            Step::End { scope: EndScope::Anywhere, .. } => "end anywhere",
            Step::End { scope: EndScope::HeldOrQueued, .. } => "end or leave the queue",
            Step::EndLater { .. } => "end later",
            Step::Heartbeat { .. } => "heartbeat",
            Step::FindEntries { .. } => "find entries",
            Step::ForeignAcquire { .. } => "foreign acquire",
            Step::ForeignRelease { .. } => "foreign release",
            Step::TtlDelete => "delete by ttl",
            Step::Write(
                Write::Expiry { to: Expiry::Damaged, .. }
                | Write::DamagedQueue { .. }
                | Write::DamagedHolders { .. },
            ) => "write a damaged expiry or list",
            Step::Write(Write::Expiry { .. }) => "write an expiry",
            Step::Write(Write::Value(_)) => "write a value",
            Step::Write(Write::GrantedAt) => "write the time of the grant",
            Step::Write(Write::Ttl(_)) => "write a ttl",
            Step::Write(Write::DamagedGrant) => "write a damaged grant",
            Step::Write(Write::Queue(_)) => "write a queue",
            Step::Write(Write::Holders { top: Some(Expiry::Damaged), .. }) => {
                "write a damaged expiry of holders"
            }
            Step::Write(Write::Holders { .. }) => "write holders",
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
    let sharers = |document: Option<&Document>| -> Vec<Value> {
        document
            .map(Document::sharers)
            .into_iter()
            .flatten()
            .map(|holder| holder.grant.value)
            .collect()
    };
    let (was, is) = (sharers(before), sharers(after));
    let new = is.iter().filter(|value| !was.contains(value)).count();
    let told = |document: Option<&Document>| document.and_then(|document| document.promoted);
    let rechecks =
        matches!(told(after), Some(Promoted::Recheck { .. })) && told(after) != told(before);
    let value = |document: Option<&Document>| document.and_then(|document| document.value);
    let (holder, next) = (value(before), value(after));
    let is_ended = next != holder && next == Some(Small::nobody());
    let promotes = next != holder && !is_ended && next != Some(Small::shared());
    match (step, answer) {
        (Step::Acquire(request), Answer::Granted(_)) => match holder {
            Some(value) if Some(value) == request.predecessor => INHERITED,
            Some(value) if value == request.value && request.permits.is_exclusive() => AGAIN,
            _ if was.contains(&request.value) && new == 0 => AGAIN,
            _ if new > 1 => WITH_OTHERS,
            _ if is.len() > 1 => BESIDE,
            _ => GRANTED,
        },
        (_, Answer::Granted(_)) => {
            if is.len() > 1 {
                BESIDE
            } else {
                GRANTED
            }
        }
        (_, Answer::Refused { ahead: Some(ahead), .. }) if is_behind_foreign(after, ahead) => {
            BEHIND_FOREIGN
        }
        (Step::Acquire(_), Answer::Refused { .. }) if new > 0 || promotes => OTHERS_ALONE,
        (_, Answer::Refused { ahead: Some(0), .. }) => FIRST,
        (_, Answer::Refused { ahead: Some(_), .. }) => BEHIND,
        (_, Answer::Refused { ahead: None, .. }) => REFUSED,
        (_, Answer::Unclear) => UNCLEAR,
        (_, Answer::Done) => DONE,
        (Step::End { .. }, Answer::Matched(true)) => match new {
            0 if promotes => PROMOTED,
            0 if rechecks => RECHECKED,
            0 if is_ended => ENDED,
            0 => MATCHED,
            1 => ONE,
            _ => SEVERAL,
        },
        (Step::EndLater { .. }, Answer::Matched(true)) if rechecks => RECHECKED,
        (Step::Delete(_) | Step::Tombstone(_), Answer::Matched(true)) if !was.is_empty() => OF_LIST,
        (Step::Delete(Target { value, which: GrantMatch::Any, .. }), Answer::Matched(false))
            if holder == Some(*value) || was.contains(value) =>
        {
            KEPT
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
