//! Changes commands on the wire: the deliberate mistakes of the controls.
//!
//! Each of them finds the expression that the crate writes, and counts its changes. A control that never changed
//! anything is no control.

use mongo_lease::mongodb::bson::{Bson, Document, doc};

use super::edits::{each, in_update, left_there, walk};
use super::shares;
use crate::control::Control;

/// Changes a command as the control requires, and says whether there was something to change.
pub(crate) fn rewrite(control: Control, command: &mut Document) -> bool {
    let Some(name) = command.keys().next().cloned() else {
        return false;
    };
    let leases = command.get_str(&name).unwrap_or_default().to_owned();
    match (control, &name[..]) {
        _ if control.is_of_shares() => shares::rewrite(control, &name, command),
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
        (Control::EarlyTakeOver, "findAndModify") => in_update(command, &mut expires_soon),
        (Control::FarExpiry, "findAndModify") => in_update(command, &mut |document| {
            document.get_mut("until").is_some_and(|until| walk(until, &mut lasts_longer))
        }),
        (Control::FarExpiry, "update") => each(command, "updates", |update| {
            let expiry = set_of(update).and_then(|set| set.get_mut("expiresAt"));
            expiry.is_some_and(|expiry| walk(expiry, &mut lasts_longer))
        }),
        (Control::OutOfLine, "findAndModify") => in_update(command, &mut at_the_front),
        (Control::LeftDocument, "delete") => left_there(command, &leases),
        _ => false,
    }
}

/// The `$set` of a pipeline's first stage.
fn set_of(update: &mut Document) -> Option<&mut Document> {
    stage_of(update)?.get_document_mut("$set").ok()
}

/// The `$replaceWith` of a pipeline's first stage, which only the hand-off has.
fn replacement_of(update: &mut Document) -> Option<&mut Bson> {
    stage_of(update)?.get_mut("$replaceWith")
}

fn stage_of(update: &mut Document) -> Option<&mut Document> {
    update.get_array_mut("u").ok()?.first_mut()?.as_document_mut()
}

/// `{$max: [old, new]}` becomes one of the two.
fn instead_of_max(fields: &mut Document, field: &str, index: usize) -> bool {
    let max = fields.get_document(field).and_then(|it| it.get_array("$max"));
    let Some(one) = max.ok().and_then(|max| max.get(index)).cloned() else {
        return false;
    };
    fields.insert(field, one);
    true
}

/// Keeps of the filter only the name, and the condition that the queue is empty or not.
fn by_name_alone(filter: &mut Document) -> bool {
    let had_a_value = filter.contains_key("value");
    filter.remove("value");
    filter.remove("grant.id");
    had_a_value
}

/// `{$cond: [the named one holds it, hand it off, leave the queue]}` hands it off, whoever holds it.
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

/// `{$lte: [expiry, "$$NOW"]}` compares with a time 1.5 s ahead.
fn expires_soon(document: &mut Document) -> bool {
    let expired = [Bson::from("$expiresAt"), Bson::from("$$NOW")];
    let is_it = document.get_array("$lte").is_ok_and(|both| both[..] == expired);
    if is_it {
        let soon = doc! { "$add": ["$$NOW", 1_500] };
        document.insert("$lte", vec![Bson::from("$expiresAt"), soon.into()]);
    }
    is_it
}

/// Adds a minute to the sums of a time and a ttl, `{$add: […]}`, of grants to callers and of renewals. Not of
/// hand-offs: a waiter that died in the queue would block the name, and no process would die with a lease.
fn lasts_longer(document: &mut Document) -> bool {
    match document.get_array_mut("$add") {
        Ok(sum) if sum.len() > 1 => {
            sum.push(Bson::Int64(60_000));
            true
        }
        Ok(_) | Err(_) => false,
    }
}

/// `{$concatArrays: [queue, [new waiter]]}` is turned around.
fn at_the_front(document: &mut Document) -> bool {
    match document.get_array_mut("$concatArrays") {
        Ok(parts) if parts.len() == 2 && parts[1].as_array().is_some() => {
            parts.swap(0, 1);
            true
        }
        Ok(_) | Err(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_renewal_loses_its_max() {
        let set = doc! { "expiresAt": { "$max": ["$expiresAt", "new"] }, "grant.sentMicros": 1 };
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
    fn the_write_concern_is_one_and_reads_stay() {
        let mut command = doc! { "findAndModify": "locks", "writeConcern": { "w": "majority" } };
        assert!(rewrite(Control::W1, &mut command));
        assert_eq!(command.get_document("writeConcern").unwrap(), &doc! { "w": 1 });
        assert!(!rewrite(Control::W1, &mut doc! { "find": "locks" }));
    }

    /// A command with this somewhere in its pipeline.
    fn acquire(expression: Document) -> Document {
        let stage = doc! { "$replaceWith": { "$mergeObjects": ["$$ROOT", expression] } };
        doc! { "findAndModify": "locks", "update": [stage] }
    }

    #[test]
    fn an_acquire_looks_ahead() {
        let mut command = acquire(doc! { "$lte": ["$expiresAt", "$$NOW"] });
        assert!(rewrite(Control::EarlyTakeOver, &mut command));
        assert_eq!(command, acquire(doc! { "$lte": ["$expiresAt", { "$add": ["$$NOW", 1_500] }] }));
    }

    #[test]
    fn a_grant_lasts_longer() {
        let mut command = acquire(doc! { "vars": { "until": { "$add": ["beat", 2] } } });
        assert!(rewrite(Control::FarExpiry, &mut command));
        let longer = doc! { "vars": { "until": { "$add": ["beat", 2, 60_000_i64] } } };
        assert_eq!(command, acquire(longer));
        let set = doc! { "expiresAt": { "$max": ["$expiresAt", { "$add": ["$$NOW", 1] }] } };
        let updates = |set: Document| {
            doc! { "update": "locks", "updates": [{ "q": {}, "u": [{ "$set": set }] }] }
        };
        let mut renewal = updates(set);
        assert!(rewrite(Control::FarExpiry, &mut renewal));
        let sum = doc! { "$add": ["$$NOW", 1, 60_000_i64] };
        assert_eq!(renewal, updates(doc! { "expiresAt": { "$max": ["$expiresAt", sum] } }));
    }

    #[test]
    fn who_joins_stands_first() {
        let mut command = acquire(doc! { "$concatArrays": ["$$line", ["$$me"]] });
        assert!(rewrite(Control::OutOfLine, &mut command));
        assert_eq!(command, acquire(doc! { "$concatArrays": [["$$me"], "$$line"] }));
        assert!(!rewrite(Control::OutOfLine, &mut command), "only once");
    }

    #[test]
    fn a_release_leaves_the_document() {
        let delete = doc! { "q": { "name": "a" }, "limit": 1, "collation": {} };
        let mut command = doc! { "delete": "locks", "deletes": [delete], "ordered": false };
        assert!(rewrite(Control::LeftDocument, &mut command));
        let nobodys = doc! { "$unset": { "expiresAt": 1 }, "$set": { "value": "" } };
        let update = doc! { "q": { "name": "a" }, "collation": {}, "u": nobodys };
        assert_eq!(command, doc! { "update": "locks", "updates": [update], "ordered": false });
    }
}
