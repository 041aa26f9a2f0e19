//! The results of steps that a run has to have seen, so that it shows something.

use crate::spec::Types;

use super::steps::Permitted;
use crate::commands::tests::agreement::small::{Document, Promoted, Small, Value};
use crate::commands::tests::agreement::steps::Answer;

/// Each step of permits, and the results that a run must have had.
pub(super) const RESULTS: [(&str, &[&str]); 10] = [
    (
        "admit",
        &["admitted", "admitted with others", "again", "others alone", "in the queue", "refused"],
    ),
    ("fast admit", &["admitted", "beside others", "refused", "left to the full form"]),
    ("renew", &["matched", "not matched"]),
    ("renew two", &["matched", "not matched"]),
    (
        "release and admit",
        &[
            "ended",
            "admits one",
            "admits several",
            "promotes",
            "rechecks",
            "matched",
            "not matched",
        ],
    ),
    ("release a permit", &["matched", "the last one", "not matched"]),
    ("delete the last holder", &["matched", "not matched"]),
    ("write holders", &["done"]),
    ("write no holders", &["done"]),
    ("write shares", &["done"]),
];

impl Permitted {
    /// The name in [`RESULTS`].
    pub(super) fn name(&self) -> &'static str {
        match self {
            Permitted::Admit(_) => "admit",
            Permitted::FastAdmit(_) => "fast admit",
            Permitted::Renew { keys } if keys.len() == 1 => "renew",
            Permitted::Renew { .. } => "renew two",
            Permitted::ReleaseAndAdmit { .. } => "release and admit",
            Permitted::ReleasePermit { .. } => "release a permit",
            Permitted::DeleteLastHolder { .. } => "delete the last holder",
            Permitted::Other(step) => step.name(),
            Permitted::WriteHolders { .. } => "write holders",
            Permitted::WriteNoHolders { .. } => "write no holders",
            Permitted::WriteShares { .. } => "write shares",
        }
    }

    /// The type of its command. `None`: another program writes.
    pub(super) fn command(&self) -> Option<&'static str> {
        match self {
            Permitted::Admit(_) => Some("Admit"),
            Permitted::FastAdmit(_) => Some("FastAdmit"),
            Permitted::Renew { .. } => Some("RenewHolders"),
            Permitted::ReleaseAndAdmit { .. } => Some("ReleaseAndAdmit"),
            Permitted::ReleasePermit { .. } => Some("ReleasePermit"),
            Permitted::DeleteLastHolder { .. } => Some("DeleteLastHolder"),
            Permitted::Other(step) => step.command(),
            Permitted::WriteHolders { .. }
            | Permitted::WriteNoHolders { .. }
            | Permitted::WriteShares { .. } => None,
        }
    }
}

/// The result of one step, one of its results in [`RESULTS`].
pub(super) fn result(
    step: &Permitted,
    answer: Answer,
    before: Option<&Document>,
    after: Option<&Document>,
) -> &'static str {
    let held = |document: Option<&Document>| -> Vec<Value> {
        document.map(Document::sharers).into_iter().flatten().map(|holder| holder.value).collect()
    };
    let (was, is) = (held(before), held(after));
    let new = is.iter().filter(|value| !was.contains(value)).count();
    let value = |document: Option<&Document>| document.and_then(|document| document.value);
    let is_promotion = value(before) != value(after)
        && ![Some(Small::shared()), Some(Small::nobody())].contains(&value(after));
    let told = |document: Option<&Document>| document.and_then(|document| document.promoted);
    let rechecks =
        matches!(told(after), Some(Promoted::Recheck { .. })) && told(after) != told(before);
    match (step, answer) {
        (Permitted::Admit(request), Answer::Granted(_)) if was.contains(&request.acquire.value) => {
            "again"
        }
        (Permitted::Admit(_), Answer::Granted(_)) if new > 1 => "admitted with others",
        (Permitted::FastAdmit(_), Answer::Granted(_)) if is.len() > 1 => "beside others",
        (_, Answer::Granted(_)) => "admitted",
        (Permitted::Admit(_), Answer::Refused { .. }) if new > 0 || is_promotion => "others alone",
        (_, Answer::Refused { ahead: Some(_), .. }) => "in the queue",
        (_, Answer::Refused { ahead: None, .. }) => "refused",
        (_, Answer::Unclear) => "left to the full form",
        (_, Answer::Done) => "done",
        (Permitted::ReleaseAndAdmit { .. }, Answer::Matched(true)) if new > 1 => "admits several",
        (Permitted::ReleaseAndAdmit { .. }, Answer::Matched(true)) if new > 0 => "admits one",
        (Permitted::ReleaseAndAdmit { .. }, Answer::Matched(true)) if is_promotion => "promotes",
        (Permitted::ReleaseAndAdmit { .. }, Answer::Matched(true)) if rechecks => "rechecks",
        (
            Permitted::ReleaseAndAdmit { .. } | Permitted::ReleasePermit { .. },
            Answer::Matched(true),
        ) if value(after) == Some(Small::nobody()) => {
            if matches!(step, Permitted::ReleasePermit { .. }) { "the last one" } else { "ended" }
        }
        (_, Answer::Matched(true)) => "matched",
        (_, Answer::Matched(false)) => "not matched",
        (_, Answer::LeftToAdmit) => "left to admit",
    }
}
