//! Changes commands on the wire: the deliberate mistakes of the controls.
//!
//! Each of them finds the expression that the crate writes, and counts its changes. A control that never changed
//! anything is no control.

use mongo_lease::mongodb::bson::{Bson, Document, doc};

use crate::control::Control;

/// Changes a command as the control requires, and says whether there was something to change.
pub(crate) fn rewrite(control: Control, command: &mut Document) -> bool {
    let Some(name) = command.keys().next().cloned() else {
        return false;
    };
    match (control, &name[..]) {
        (Control::W1, "findAndModify" | "update" | "delete") => {
            command.insert("writeConcern", doc! { "w": 1 });
            true
        }
        (Control::ReleaseByName, "delete") => {
            each(command, "deletes", |delete| delete.get_document_mut("q").is_ok_and(by_name_alone))
        }
        (Control::ReleaseByName, "update") => each(command, "updates", |update| {
            let ends = update.get_mut("u").is_some_and(|pipeline| walk(pipeline, is_open));
            ends && update.get_document_mut("q").is_ok_and(by_name_alone)
        }),
        (Control::OneTooMany, "findAndModify") => {
            command.get_mut("update").is_some_and(|pipeline| walk(pipeline, one_more_fits))
        }
        (Control::OneTooMany, "update") => each(command, "updates", |update| {
            update.get_mut("u").is_some_and(|pipeline| walk(pipeline, one_more_fits))
        }),
        _ => false,
    }
}

/// Applies the change to each statement.
fn each(command: &mut Document, list: &str, change: impl Fn(&mut Document) -> bool) -> bool {
    let Ok(statements) = command.get_array_mut(list) else {
        return false;
    };
    let mut changed = false;
    for statement in statements.iter_mut().filter_map(Bson::as_document_mut) {
        changed |= change(statement);
    }
    changed
}

/// Applies the change to every document in an expression.
fn walk(expression: &mut Bson, change: fn(&mut Document) -> bool) -> bool {
    let mut changed = false;
    if let Some(document) = expression.as_document_mut() {
        changed |= change(document);
        for (_, inner) in document.iter_mut() {
            changed |= walk(inner, change);
        }
    } else if let Some(array) = expression.as_array_mut() {
        for inner in array {
            changed |= walk(inner, change);
        }
    }
    changed
}

/// Removes the value and the grant from the filter. The name stays, and the condition that the queue is empty or not.
fn by_name_alone(filter: &mut Document) -> bool {
    let mut removed = filter.remove("value").is_some();
    filter.remove("grant.id");
    if let Ok(either) = filter.get_array_mut("$or") {
        for one in either.iter_mut().filter_map(Bson::as_document_mut) {
            removed |= by_name_alone(one);
        }
    }
    removed
}

/// `{vars: {open: whether the named one holds it, or nobody does}}` is always true.
fn is_open(document: &mut Document) -> bool {
    let open = document.get_document_mut("vars").ok().and_then(|vars| vars.get_mut("open"));
    let Some(open) = open.filter(|open| open.as_bool().is_none()) else {
        return false;
    };
    *open = Bson::Boolean(true);
    true
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_release_matches_the_name_alone() {
        let filter = doc! { "name": "a", "value": "v", "grant.id": "i", "$expr": true };
        let mut command = doc! { "delete": "locks", "deletes": [{ "q": filter, "limit": 1 }] };
        assert!(rewrite(Control::ReleaseByName, &mut command));
        let left = doc! { "name": "a", "$expr": true };
        assert_eq!(command, doc! { "delete": "locks", "deletes": [{ "q": left, "limit": 1 }] });
    }

    #[test]
    fn an_end_is_of_whoever_holds() {
        let end = |filter: Document, open: Bson| {
            let changes = doc! { "$let": { "vars": { "open": open }, "in": "$$open" } };
            let pipeline = vec![doc! { "$replaceWith": changes }];
            doc! { "update": "locks", "updates": [{ "q": filter, "u": pipeline }] }
        };
        let is_theirs = Bson::from(doc! { "$eq": ["$value", { "$literal": "v" }] });
        let queued = doc! { "queue.value": "v" };
        let either = |held: Document| doc! { "name": "a", "$or": [held, queued.clone()] };
        let mut command = end(either(doc! { "value": "v", "grant.id": "i" }), is_theirs);
        assert!(rewrite(Control::ReleaseByName, &mut command));
        assert_eq!(command, end(either(doc! {}), true.into()));
        assert!(!rewrite(Control::ReleaseByName, &mut command), "only once");
    }

    #[test]
    fn one_more_fits_in_both_forms() {
        let acquire = |expression: Document| {
            doc! { "findAndModify": "locks", "update": [{ "$replaceWith": expression }] }
        };
        for bound in [Bson::from("$$bound"), doc! { "$min": ["a", "b"] }.into()] {
            let fits = |bound: Bson| acquire(doc! { "$lte": ["$$used", bound] });
            let more = doc! { "$add": [bound.clone(), 1_i64] };
            let mut command = fits(bound);
            assert!(rewrite(Control::OneTooMany, &mut command));
            assert_eq!(command, fits(more.into()));
        }
        let mut expired = acquire(doc! { "$lte": ["$expiresAt", "$$NOW"] });
        assert!(!rewrite(Control::OneTooMany, &mut expired));
    }
}
