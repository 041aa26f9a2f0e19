//! Finds parts of commands and changes them.

use mongo_lease::mongodb::bson::{Bson, Document, doc};

/// Applies the change to each statement.
pub(super) fn each(
    command: &mut Document,
    list: &str,
    change: impl Fn(&mut Document) -> bool,
) -> bool {
    let Ok(statements) = command.get_array_mut(list) else {
        return false;
    };
    let mut changed = false;
    for statement in statements.iter_mut().filter_map(Bson::as_document_mut) {
        changed |= change(statement);
    }
    changed
}

/// Applies the change to every document in the pipeline of a `findAndModify`.
pub(super) fn in_update(
    command: &mut Document,
    change: &mut impl FnMut(&mut Document) -> bool,
) -> bool {
    command.get_mut("update").is_some_and(|pipeline| walk(pipeline, change))
}

/// A delete becomes an update of the same documents, which nobody removes afterwards.
pub(super) fn left_there(command: &mut Document, leases: &str) -> bool {
    let Ok(deletes) = command.get_array("deletes").cloned() else {
        return false;
    };
    let nobodys = doc! { "$unset": { "expiresAt": 1 }, "$set": { "value": "" } };
    let updates = deletes.iter().filter_map(Bson::as_document).map(|delete| {
        let mut update = delete.clone();
        update.remove("limit");
        update.insert("u", nobodys.clone());
        Bson::from(update)
    });
    let updates: Vec<Bson> = updates.collect();
    let rest = command.clone().into_iter();
    let rest = rest.filter(|(field, _)| !matches!(&field[..], "delete" | "deletes"));
    let mut update = doc! { "update": leases, "updates": updates };
    update.extend(rest);
    *command = update;
    true
}

/// Applies the change to every document in an expression.
pub(super) fn walk(expression: &mut Bson, change: &mut impl FnMut(&mut Document) -> bool) -> bool {
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
