//! What is changed in commands on their way: the broken variants of the controls.
//!
//! Each of them looks for the expression that the crate writes, and counts what it changed. A control that never
//! changed anything is no control.

use mongo_lease::mongodb::bson::{Bson, Document, doc};

use crate::control::Control;

/// Changes a command as the control wants it, and says whether there was something to change.
pub(crate) fn rewrite(control: Control, command: &mut Document) -> bool {
    let Some(name) = command.keys().next().cloned() else {
        return false;
    };
    match (control, &name[..]) {
        (Control::W1, "findAndModify" | "update" | "delete") => {
            command.insert("writeConcern", doc! { "w": 1 });
            true
        }
        (Control::RenewalWithoutMax, "update") => each(command, "updates", |update| {
            set_of(update).is_some_and(|set| instead_of_max(set, "expiresAt", 1))
        }),
        (Control::ReleaseByName, "delete") => {
            each(command, "deletes", |delete| delete.get_document_mut("q").is_ok_and(by_name_alone))
        }
        (Control::ReleaseByName, "update") => each(command, "updates", |update| {
            let hands_on = replacement_of(update).is_some_and(whoever_holds);
            hands_on && update.get_document_mut("q").is_ok_and(by_name_alone)
        }),
        (Control::PromotionWithoutBeat, "update") => each(command, "updates", |update| {
            replacement_of(update).is_some_and(|stage| walk(stage, &mut from_now))
        }),
        _ => false,
    }
}

/// Does it to each statement.
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

/// The `$set` of a pipeline's first stage.
fn set_of(update: &mut Document) -> Option<&mut Document> {
    stage_of(update)?.get_document_mut("$set").ok()
}

/// The `$replaceWith` of a pipeline's first stage, of which our hand-on alone has one.
fn replacement_of(update: &mut Document) -> Option<&mut Bson> {
    stage_of(update)?.get_mut("$replaceWith")
}

fn stage_of(update: &mut Document) -> Option<&mut Document> {
    update.get_array_mut("u").ok()?.first_mut()?.as_document_mut()
}

/// `{$max: [what is there, what is new]}` becomes one of the two.
fn instead_of_max(fields: &mut Document, field: &str, index: usize) -> bool {
    let max = fields.get_document(field).and_then(|it| it.get_array("$max"));
    let Some(one) = max.ok().and_then(|max| max.get(index)).cloned() else {
        return false;
    };
    fields.insert(field, one);
    true
}

/// The name stays, and that nobody waits or somebody does.
fn by_name_alone(filter: &mut Document) -> bool {
    let had_a_value = filter.contains_key("value");
    filter.remove("value");
    filter.remove("grant.id");
    had_a_value
}

/// `{$cond: [who is named holds it, hand it on, leave the line]}` hands it on, whoever holds it.
fn whoever_holds(stage: &mut Bson) -> bool {
    walk(stage, &mut |document| {
        let Ok(branches) = document.get_array_mut("$cond") else {
            return false;
        };
        let leaves = doc! { "queue": "$$line" };
        let is_it = branches.get(2).and_then(Bson::as_document) == Some(&leaves);
        if is_it && let Some(holds) = branches.first_mut() {
            *holds = Bson::Boolean(true);
        }
        is_it
    })
}

/// `{$max: ["$$NOW", newest sign of life]}` becomes the former.
fn from_now(document: &mut Document) -> bool {
    let beaten = [Bson::from("$$NOW"), Bson::from("$$head.beatAt")];
    if document.get_array("$max").is_ok_and(|max| max[..] == beaten) {
        document.clear();
        document.insert("$max", "$$NOW");
        return true;
    }
    false
}

/// Does it to every document in an expression.
fn walk(expression: &mut Bson, change: &mut impl FnMut(&mut Document) -> bool) -> bool {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_renewal_loses_its_max() {
        let set = doc! { "expiresAt": { "$max": ["$expiresAt", "new"] }, "grant.sent": 1 };
        let mut command =
            doc! { "update": "locks", "updates": [{ "q": {}, "u": [{ "$set": set }] }] };
        assert!(rewrite(Control::RenewalWithoutMax, &mut command));
        assert!(command.to_string().contains("\"expiresAt\": \"new\""), "{command}");
        assert!(!rewrite(Control::RenewalWithoutMax, &mut command), "only once");
    }

    #[test]
    fn a_release_matches_the_name_alone() {
        let filter = doc! { "name": "a", "value": "v", "grant.id": "i", "$expr": true };
        let mut command = doc! { "delete": "locks", "deletes": [{ "q": filter, "limit": 1 }] };
        assert!(rewrite(Control::ReleaseByName, &mut command));
        let left = doc! { "name": "a", "$expr": true };
        assert_eq!(command, doc! { "delete": "locks", "deletes": [{ "q": left, "limit": 1 }] });
    }

    #[test]
    fn a_promotion_forgets_the_beat() {
        let from = doc! { "$max": ["$$NOW", "$$head.beatAt"] };
        let stage =
            doc! { "$replaceWith": { "$cond": [1, { "expiresAt": { "$add": [from, 1] } }] } };
        let mut command = doc! { "update": "locks", "updates": [{ "q": {}, "u": [stage] }] };
        assert!(rewrite(Control::PromotionWithoutBeat, &mut command));
        assert!(!command.to_string().contains("beatAt"), "{command}");
    }

    #[test]
    fn the_write_concern_is_one_and_reads_stay() {
        let mut command = doc! { "findAndModify": "locks", "writeConcern": { "w": "majority" } };
        assert!(rewrite(Control::W1, &mut command));
        assert_eq!(command.get_document("writeConcern").unwrap(), &doc! { "w": 1 });
        assert!(!rewrite(Control::W1, &mut doc! { "find": "locks" }));
    }
}
