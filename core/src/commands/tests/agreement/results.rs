//! The results of steps that a run has to have seen, so that it shows something.

use crate::spec::{Element, EndScope, ResumeTerms, Types};

use super::steps::{Answer, Ending, How, Step};
use crate::texts::{GrantMatch, LeaseDocument, Promoted, Texts};

/// Refused, and in the queue behind an entry whose value is no text.
pub(super) const BEHIND_FOREIGN: &str = "behind a value of a foreign type";

/// Of a command that may find nothing.
const EITHER: &str = "matched, not matched";

const WRITES: &str = "write an expiry, write a value, write the time of the grant, write a ttl, \
                      write a damaged grant, write a queue, write a damaged expiry or list, \
                      write holders, write a damaged expiry of holders";

/// The type of each command, the names of its steps, and the results that each of these must have had. Without a
/// command, another program writes.
pub(super) const RESULTS: [(Option<&str>, &str, &str); 19] = [
    (
        Some("SlowAcquire"),
        "acquire",
        "granted, granted again, inherited, beside holders, with others, others alone, \
         first in the queue, behind others, refused",
    ),
    (Some("FastAcquire"), "fast acquire", "granted, refused, left to the slow form"),
    (
        Some("FastAcquireMany"),
        "fast acquire with others",
        "granted, refused, left to the slow form",
    ),
    (Some("FastAdmit"), "fast admit", "granted, beside holders, refused, left to the slow form"),
    (Some("FastAcquire"), "insert", "granted, not matched"),
    (Some("RenewMany"), "renew", EITHER),
    (Some("RenewHolders"), "renew a holder, renew two holders", EITHER),
    (Some("Resume"), "resume, resume with a ttl", EITHER),
    (Some("Guard"), "guard, guard that is aborted", EITHER),
    (Some("Delete"), "delete", "matched, of a list, kept, not matched"),
    (Some("Tombstone"), "tombstone", "matched, of a list, not matched"),
    (Some("End"), "end beside others", "promotes, admits one, matched, not matched"),
    (Some("End"), "end anywhere", "promotes, admits one, ended, matched, not matched"),
    (
        Some("End"),
        "end or leave the queue",
        "promotes, admits one, admits several, rechecks, ended, matched, not matched",
    ),
    (Some("EndLater"), "end later", "matched, rechecks, not matched"),
    (Some("Heartbeat"), "heartbeat", EITHER),
    (Some("FindEntries"), "find entries", EITHER),
    (None, "foreign acquire, foreign release, delete by ttl", EITHER),
    (None, WRITES, "done"),
];

impl Step {
    /// The name in [`RESULTS`].
    pub(super) fn name(&self) -> &'static str {
        match self {
            Step::Acquire(How::Slow, _) => "acquire",
            Step::Acquire(How::Fast, _) => "fast acquire",
            Step::Acquire(How::FastWithOthers, _) => "fast acquire with others",
            Step::Acquire(How::Admit, _) => "fast admit",
            Step::Acquire(How::Insert, _) => "insert",
            Step::Renew(..) => "renew",
            Step::RenewHolders(keys) if keys.len() == 1 => "renew a holder",
            Step::RenewHolders(_) => "renew two holders",
            Step::Resume { terms: ResumeTerms { ttl: None, .. }, .. } => "resume",
            Step::Resume { .. } => "resume with a ttl",
            Step::Guard { commits: true, .. } => "guard",
            Step::Guard { commits: false, .. } => "guard that is aborted",
            Step::Release(_, Ending::Delete) => "delete",
            Step::Release(_, Ending::Tombstone) => "tombstone",
            Step::Release(_, Ending::End(EndScope::BesideOthers)) => "end beside others",
            Step::Release(_, Ending::End(EndScope::Anywhere)) => "end anywhere",
            Step::Release(_, Ending::End(EndScope::HeldOrQueued)) => "end or leave the queue",
            Step::Release(_, Ending::Later(_)) => "end later",
            Step::Heartbeat(_) => "heartbeat",
            Step::FindEntries(_) => "find entries",
            Step::ForeignAcquire => "foreign acquire",
            Step::ForeignRelease(_) => "foreign release",
            Step::TtlDelete => "delete by ttl",
            Step::Write(write) => write.name,
        }
    }

    /// The type of its command. `None`: another program writes.
    pub(super) fn command(&self) -> Option<&'static str> {
        let is_of = |steps: &str| steps.split(", ").any(|step| step == self.name());
        RESULTS.into_iter().find(|(_, steps, _)| is_of(steps)).and_then(|(command, ..)| command)
    }
}

/// The result of one step, one of its results in [`RESULTS`].
pub(super) fn result(
    step: &Step,
    answer: &Answer,
    before: Option<&LeaseDocument>,
    after: Option<&LeaseDocument>,
) -> &'static str {
    let sharers = |document: Option<&LeaseDocument>| -> Vec<String> {
        let holders = document.map(LeaseDocument::sharers).unwrap_or_default();
        holders.into_iter().map(|holder| holder.grant.value).collect()
    };
    let (was, is) = (sharers(before), sharers(after));
    let new = is.iter().filter(|value| !was.contains(value)).count();
    let told = |document: Option<&LeaseDocument>| document.and_then(|it| it.promoted.clone());
    let rechecks =
        matches!(told(after), Some(Promoted::Recheck { .. })) && told(after) != told(before);
    let value = |document: Option<&LeaseDocument>| document.and_then(|it| it.value.clone());
    let (holder, next) = (value(before), value(after));
    let is_ended = next != holder && next == Some(Texts::nobody());
    let promotes = next != holder && !is_ended && next != Some(Texts::shared());
    match (step, answer) {
        (Step::Acquire(How::Slow, request), Answer::Granted(_)) => match &holder {
            Some(value) if Some(value) == request.predecessor.as_ref() => "inherited",
            Some(value) if *value == request.value && request.permits.is_exclusive() => {
                "granted again"
            }
            _ if was.contains(&request.value) && new == 0 => "granted again",
            _ if new > 1 => "with others",
            _ if is.len() > 1 => "beside holders",
            _ => "granted",
        },
        (_, Answer::Granted(_)) if is.len() > 1 => "beside holders",
        (_, Answer::Granted(_)) => "granted",
        (_, Answer::Refused { ahead: Some(ahead), .. }) if is_behind_foreign(after, *ahead) => {
            BEHIND_FOREIGN
        }
        (Step::Acquire(How::Slow, _), Answer::Refused { .. }) if new > 0 || promotes => {
            "others alone"
        }
        (_, Answer::Refused { ahead: Some(0), .. }) => "first in the queue",
        (_, Answer::Refused { ahead: Some(_), .. }) => "behind others",
        (_, Answer::Refused { ahead: None, .. }) => "refused",
        (_, Answer::Unclear) => "left to the slow form",
        (_, Answer::Done) => "done",
        (Step::Release(_, Ending::End(_)), Answer::Matched(true)) => match new {
            0 if promotes => "promotes",
            0 if rechecks => "rechecks",
            0 if is_ended => "ended",
            0 => "matched",
            1 => "admits one",
            _ => "admits several",
        },
        (Step::Release(_, Ending::Later(_)), Answer::Matched(true)) if rechecks => "rechecks",
        (Step::Release(..), Answer::Matched(true)) if !was.is_empty() => "of a list",
        (Step::Release(target, Ending::Delete), Answer::Matched(false))
            if target.which == GrantMatch::Any
                && (holder.as_ref() == Some(&target.value) || was.contains(&target.value)) =>
        {
            "kept"
        }
        (_, Answer::Matched(true)) => "matched",
        (_, Answer::Matched(false)) => "not matched",
    }
}

fn is_behind_foreign(document: Option<&LeaseDocument>, ahead: usize) -> bool {
    let elements = document.into_iter().flat_map(|document| document.queue.elements());
    let is_foreign =
        |it: &Element<Texts>| matches!(it, Element::Damaged(Some(value)) if value.is_empty());
    elements.take(ahead).any(is_foreign)
}
