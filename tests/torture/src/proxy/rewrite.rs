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
            let ends = update.get_mut("u").is_some_and(|pipeline| walk(pipeline, &mut is_open));
            ends && update.get_document_mut("q").is_ok_and(by_name_alone)
        }),
        (Control::EarlyTakeOver, "findAndModify") => in_update(command, &mut expires_soon),
        (Control::FarExpiry, "findAndModify") => in_update(command, &mut lasts_longer),
        (Control::FarExpiry, "update") => each(command, "updates", |update| {
            update.get_mut("u").is_some_and(|pipeline| walk(pipeline, &mut lasts_longer))
        }),
        (Control::OutOfLine, "findAndModify") => in_update(command, &mut at_the_front),
        (Control::LeftDocument, "delete") => left_there(command, &leases),
        _ => false,
    }
}

/// The `$set` of a pipeline's first stage.
fn set_of(update: &mut Document) -> Option<&mut Document> {
    let stage = update.get_array_mut("u").ok()?.first_mut()?.as_document_mut()?;
    stage.get_document_mut("$set").ok()
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

/// Adds a minute to `{expiresAt: {$add: […]}}`, also where it is in `{$max: [old, …]}`: to grants to callers, and to
/// renewals. Not to promotions: a waiter that died in the queue would block the name, and no process would die with a
/// lease.
fn lasts_longer(document: &mut Document) -> bool {
    let Ok(expiry) = document.get_document_mut("expiresAt") else {
        return false;
    };
    let is_prolonged =
        expiry.get_array("$max").is_ok_and(|both| both.first() == Some(&Bson::from("$expiresAt")));
    let sum = match is_prolonged {
        true => {
            let new = expiry.get_array_mut("$max").ok().and_then(|both| both.get_mut(1));
            new.and_then(Bson::as_document_mut)
        }
        false => Some(expiry),
    };
    let Some(sum) = sum.and_then(|sum| sum.get_array_mut("$add").ok()) else {
        return false;
    };
    if let [_, Bson::Int32(_) | Bson::Int64(_)] = sum[..] {
        sum.push(Bson::Int64(60_000));
        return true;
    }
    sum.iter_mut().filter_map(Bson::as_document_mut).any(longer_for_the_caller)
}

/// `{$cond: [it is the caller's, its ttl, the term of a promotion]}` has a longer ttl.
fn longer_for_the_caller(term: &mut Document) -> bool {
    match term.get_array_mut("$cond").map(Vec::as_mut_slice) {
        Ok([_, ttl @ Bson::String(_), _]) => {
            *ttl = doc! { "$add": [ttl.clone(), 60_000_i64] }.into();
            true
        }
        Ok(_) | Err(_) => false,
    }
}

/// `{$cond: [the caller has a place, its place, the length of the queue]}` is the front for a new waiter.
fn at_the_front(document: &mut Document) -> bool {
    let end = Bson::from(doc! { "$size": "$$others" });
    match document.get_array_mut("$cond").map(Vec::as_mut_slice) {
        Ok([_, _, at]) if *at == end => {
            *at = Bson::Int32(0);
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
    fn an_end_is_of_whoever_holds() {
        let end = |filter: Document, open: Bson| {
            let changes = doc! { "$let": { "vars": { "open": open }, "in": "$$open" } };
            let pipeline = vec![doc! { "$replaceWith": changes }];
            doc! { "update": "locks", "updates": [{ "q": filter, "u": pipeline }] }
        };
        let is_theirs = Bson::from(doc! { "$eq": ["$value", { "$literal": "v" }] });
        let alone = doc! { "name": "a", "value": "v", "grant.id": "i", "$and": [1] };
        let mut command = end(alone, is_theirs.clone());
        assert!(rewrite(Control::ReleaseByName, &mut command));
        assert_eq!(command, end(doc! { "name": "a", "$and": [1] }, true.into()));
        assert!(!rewrite(Control::ReleaseByName, &mut command), "only once");
        let queued = doc! { "queue.value": "v" };
        let either = |held: Document| doc! { "name": "a", "$or": [held, queued.clone()] };
        let mut command = end(either(doc! { "value": "v", "grant.id": "i" }), is_theirs);
        assert!(rewrite(Control::ReleaseByName, &mut command));
        assert_eq!(command, end(either(doc! {}), true.into()));
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
        let expires = |expiry: Document| acquire(doc! { "expiresAt": expiry });
        let longer = |expiry: Document| {
            let mut command = expires(expiry);
            assert!(rewrite(Control::FarExpiry, &mut command), "{command}");
            let changed = command.clone();
            assert!(!rewrite(Control::FarExpiry, &mut command), "only once: {command}");
            changed
        };
        let first = doc! { "$add": ["$$NOW", 2_i64] };
        assert_eq!(longer(first), expires(doc! { "$add": ["$$NOW", 2_i64, 60_000_i64] }));
        let again = |sum: Document| doc! { "$max": ["$expiresAt", sum] };
        let sum = doc! { "$add": ["$$me.beat", 2_i64, 60_000_i64] };
        let found = longer(again(doc! { "$add": ["$$me.beat", 2_i64] }));
        assert_eq!(found, expires(again(sum)));
        let slow = |ttl: Bson| {
            doc! { "$add": ["from", { "$cond": ["is mine", ttl, "term"] }, "skew"] }
        };
        let ttl = doc! { "$add": ["$$first.ttl", 60_000_i64] };
        assert_eq!(longer(slow("$$first.ttl".into())), expires(slow(ttl.into())));
    }

    #[test]
    fn a_renewal_lasts_longer_and_a_promotion_and_an_entry_do_not() {
        let updates = |expiry: Document| {
            let stage = doc! { "$set": { "expiresAt": expiry } };
            doc! { "update": "locks", "updates": [{ "q": {}, "u": [stage] }] }
        };
        let mut renewal = updates(doc! { "$max": ["$expiresAt", { "$add": ["$$NOW", 1_i64] }] });
        assert!(rewrite(Control::FarExpiry, &mut renewal));
        let sum = doc! { "$add": ["$$NOW", 1_i64, 60_000_i64] };
        assert_eq!(renewal, updates(doc! { "$max": ["$expiresAt", sum] }));
        let promotion = doc! { "$add": ["from", { "$max": [0_i64, "term"] }, "skew"] };
        let heartbeat = doc! { "$max": ["$$old.expiresAt", { "$add": ["$$NOW", 1_i64] }] };
        for expiry in [promotion, heartbeat] {
            assert!(!rewrite(Control::FarExpiry, &mut updates(expiry.clone())), "{expiry}");
        }
    }

    #[test]
    fn who_joins_stands_first() {
        let at = |new: Bson| acquire(doc! { "$cond": ["is there", "$$place", new] });
        let mut command = at(doc! { "$size": "$$others" }.into());
        assert!(rewrite(Control::OutOfLine, &mut command));
        assert_eq!(command, at(0.into()));
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
