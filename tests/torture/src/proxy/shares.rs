//! The deliberate mistakes in commands for permits and shares.

use mongo_lease::mongodb::bson::{Bson, Document, doc};

use super::edits::{each, in_update, left_there, walk};
use crate::control::Control;

/// Changes a command with this name as the control requires, and says whether there was something to change.
pub(super) fn rewrite(control: Control, name: &str, command: &mut Document) -> bool {
    let leases = command.get_str(name).unwrap_or_default().to_owned();
    let change: fn(&mut Document) -> bool = match control {
        Control::OneTooMany => one_more_fits,
        Control::ReaderBesideWriter => whoever_holds,
        Control::FirstExpiry => with_the_first,
        Control::Barging => whoever_waits,
        Control::EmptyFirst => when_empty,
        Control::LeftShare => {
            return name == "delete" && is_of_holders(command) && left_there(command, &leases);
        }
        Control::W1
        | Control::RenewalWithoutMax
        | Control::ReleaseByName
        | Control::EarlyTakeOver
        | Control::FarExpiry
        | Control::OutOfLine
        | Control::LeftDocument
        | Control::ValidityFromReply
        | Control::RetriedToken
        | Control::LateAnswer
        | Control::HeldBack
        | Control::OpenResource
        | Control::StoredTtl
        | Control::OwnLine
        | Control::UnguardedTransaction
        | Control::KeptToken => return false,
    };
    match name {
        "findAndModify" => in_update(command, &mut |document| change(document)),
        "update" => each(command, "updates", |update| {
            update.get_mut("u").is_some_and(|pipeline| walk(pipeline, &mut |it| change(it)))
        }),
        _ => false,
    }
}

/// `{$lte: [permits in use, smallest limit]}` allows one more.
fn one_more_fits(document: &mut Document) -> bool {
    let Some(limit) = document.get_array_mut("$lte").ok().filter(|both| is_fit(both)) else {
        return false;
    };
    let one_more = doc! { "$add": [limit[1].clone(), 1_i64] };
    limit[1] = one_more.into();
    true
}

/// Whether these are the permits in use and the smallest limit: in the queue's form, or in that of a first attempt.
fn is_fit(both: &[Bson]) -> bool {
    let is_min = |bound: &Bson| bound.as_document().is_some_and(|it| it.contains_key("$min"));
    both.len() == 2 && (both[1].as_str() == Some("$$bound") || is_min(&both[1]))
}

/// `{$or: [the lease is free, others share it]}` is always true.
fn whoever_holds(document: &mut Document) -> bool {
    let is_shared = Bson::from(doc! { "$gt": [{ "$size": "$$kept" }, 0] });
    let either = document.get_array("$or").ok();
    let is_it = either.is_some_and(|either| either.len() == 2 && either[1] == is_shared);
    is_it && always(document)
}

/// `{$in: [queue or none, none]}` is always true.
fn whoever_waits(document: &mut Document) -> bool {
    let queue = Bson::from(doc! { "$ifNull": ["$queue", []] });
    let is_it = document.get_array("$in").is_ok_and(|both| both.first() == Some(&queue));
    is_it && always(document)
}

fn always(document: &mut Document) -> bool {
    document.clear();
    document.insert("$literal", true);
    true
}

/// `{$max: expiries of the holders}` becomes their `$min`.
fn with_the_first(document: &mut Document) -> bool {
    let all = ["$$all.expiresAt", "$holders.expiresAt"];
    let Some(expiries) = document.get_str("$max").ok().filter(|it| all.contains(it)) else {
        return false;
    };
    let expiries = expiries.to_owned();
    document.clear();
    document.insert("$min", expiries);
    true
}

/// `{bound: {$cond: [may somebody be admitted, …]}}` says so only where nobody holds the lease.
fn when_empty(document: &mut Document) -> bool {
    let bound = document.get_document_mut("bound").and_then(|bound| bound.get_array_mut("$cond"));
    let Some(open) = bound.ok().and_then(|choice| choice.first_mut()) else {
        return false;
    };
    let is_it = open.as_str() == Some("$$open");
    if is_it {
        *open = doc! { "$and": ["$$open", { "$eq": ["$$kept", []] }] }.into();
    }
    is_it
}

/// Whether a delete is of a document that several hold.
fn is_of_holders(command: &Document) -> bool {
    let filters = command.get_array("deletes").into_iter().flatten();
    let mut filters = filters.filter_map(|it| it.as_document()?.get_document("q").ok());
    filters.any(|filter| filter.contains_key("holders"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A command with this expression in its pipeline.
    fn acquire(expression: Document) -> Document {
        doc! { "findAndModify": "locks", "update": [{ "$replaceWith": expression }] }
    }

    fn release(expression: Document) -> Document {
        let stage = doc! { "$set": expression };
        doc! { "update": "locks", "updates": [{ "q": {}, "u": [stage] }] }
    }

    fn changed(control: Control, command: &Document) -> Document {
        let mut command = command.clone();
        let name = command.keys().next().cloned().unwrap();
        assert!(rewrite(control, &name, &mut command), "{command}");
        let again = rewrite(control, &name, &mut command);
        assert!(control == Control::OneTooMany || !again, "only once: {command}");
        command
    }

    #[test]
    fn one_more_fits_in_both_forms() {
        for bound in [Bson::from("$$bound"), doc! { "$min": ["a", "b"] }.into()] {
            let fits = |bound: Bson| acquire(doc! { "$lte": ["$$used", bound] });
            let more = doc! { "$add": [bound.clone(), 1_i64] };
            assert_eq!(changed(Control::OneTooMany, &fits(bound)), fits(more.into()));
        }
        let expired = doc! { "$lte": ["$expiresAt", "$$NOW"] };
        assert!(!rewrite(Control::OneTooMany, "findAndModify", &mut acquire(expired)));
    }

    #[test]
    fn a_first_attempt_looks_at_no_holder_or_at_no_queue() {
        let shared = doc! { "$gt": [{ "$size": "$$kept" }, 0] };
        let free = acquire(doc! { "$and": [{ "$or": ["free", shared] }, 1] });
        let always = acquire(doc! { "$and": [{ "$literal": true }, 1] });
        assert_eq!(changed(Control::ReaderBesideWriter, &free), always);
        let queue = acquire(doc! { "$and": [{ "$in": [{ "$ifNull": ["$queue", []] }, [[]]] }, 1] });
        assert_eq!(changed(Control::Barging, &queue), always);
    }

    #[test]
    fn a_document_expires_with_its_first_holder() {
        let top =
            |operator: &str| release(doc! { "expiresAt": { operator: "$holders.expiresAt" } });
        assert_eq!(changed(Control::FirstExpiry, &top("$max")), top("$min"));
    }

    #[test]
    fn nobody_is_admitted_beside_a_holder() {
        let bound = |open: Bson| release(doc! { "bound": { "$cond": [open, 1, -1] } });
        let empty = doc! { "$and": ["$$open", { "$eq": ["$$kept", []] }] };
        assert_eq!(changed(Control::EmptyFirst, &bound("$$open".into())), bound(empty.into()));
    }

    #[test]
    fn only_a_document_in_shared_use_is_left() {
        let delete = |filter: Document| {
            doc! { "delete": "locks", "deletes": [{ "q": filter, "limit": 1 }] }
        };
        let mut shared = delete(doc! { "name": "a", "holders": { "$size": 1 } });
        assert!(rewrite(Control::LeftShare, "delete", &mut shared));
        assert!(shared.contains_key("updates"), "{shared}");
        assert!(!rewrite(Control::LeftShare, "delete", &mut delete(doc! { "name": "a" })));
    }
}
