//! Releases.

use crate::bson::{Bson, Document, doc};

use super::super::super::paths::assert_same;
use super::super::super::{SENT, key, target, values};
use super::super::{filtered, is_sound, literal, majority, simple};
use super::{elements, epoch, filled, is_free, is_own, is_shared, is_unexpired, line, with};
use crate::commands::Command;
use crate::commands::permits::{DeleteLastHolder, ReleaseAndAdmit, ReleasePermit, ReleaseScope};
use crate::commands::release::GrantMatch;

/// A way to select a grant: the filter on its id, and the conditions on the id at a path.
struct Selected {
    grant: GrantMatch,
    id: Option<Bson>,
    conditions: fn(&str) -> Vec<Document>,
}

fn ways() -> [Selected; 4] {
    let of_call = |except| GrantMatch::Call { call_id: "$call".into(), except };
    [
        Selected { grant: GrantMatch::Any, id: None, conditions: |_| vec![] },
        Selected {
            grant: GrantMatch::Grant("$call.3".into()),
            id: Some("$call.3".into()),
            conditions: |id| vec![doc! { "$eq": [id, literal("$call.3")] }],
        },
        Selected {
            grant: of_call(None),
            id: Some(doc! { "$gte": "$call.", "$lt": "$call/" }.into()),
            conditions: |id| {
                vec![
                    doc! { "$gte": [id, literal("$call.")] },
                    doc! { "$lt": [id, literal("$call/")] },
                ]
            },
        },
        Selected {
            grant: of_call(Some("$call.2".into())),
            id: Some(doc! { "$gte": "$call.", "$lt": "$call/", "$ne": "$call.2" }.into()),
            conditions: |id| {
                vec![
                    doc! { "$gte": [id, literal("$call.")] },
                    doc! { "$lt": [id, literal("$call/")] },
                    doc! { "$ne": [id, literal("$call.2")] },
                ]
            },
        },
    ]
}

fn update(filter: Document, stages: Vec<Document>) -> Document {
    doc! {
        "update": "locks",
        "updates": [{ "q": filter, "u": stages, "collation": simple() }],
        "writeConcern": majority(),
    }
}

/// The filter: a share of the target, or its exclusive grant, or its entry.
fn filter(selected: &Selected, leaves_queue: bool) -> Document {
    let mut holder = doc! { "value": "$$NOW" };
    let mut exclusive = doc! { "value": "$$NOW" };
    if let Some(id) = &selected.id {
        holder.insert("id", id.clone());
        exclusive.insert("grant.id", id.clone());
    }
    let shared = doc! { "value": "mongo-lease/shared", "holders": { "$elemMatch": holder } };
    let mut any = vec![shared, exclusive];
    if leaves_queue {
        any.push(doc! { "queue": { "$type": "array" }, "queue.value": "$$NOW" });
    }
    doc! { "name": "$name", "expiresAt": { "$type": "date" }, "$or": any }
}

/// The stages: the target goes, and as many waiters are admitted as fit then.
fn released(conditions: fn(&str) -> Vec<Document>) -> Vec<Document> {
    let mut of_holder = vec![is_own()];
    of_holder.extend(conditions("$$entry.id"));
    let is_target = doc! { "$and": of_holder };
    let is_other = doc! { "$ne": ["$$entry.value", literal("$$NOW")] };
    let ended = doc! {
        "value": "released:fresh.0",
        "expiresAt": epoch(),
        "holders": [],
        "queue": [],
    };
    let nobody = doc! { "$cond": ["$$open", ended, { "queue": "$$rest" }] };
    let waiters = filtered(line(None), is_other.clone());
    let admitted = filled(waiters, false, "$$kept", nobody, |changes| changes);
    // Nobody may be admitted: the target alone goes.
    let queue = filtered(super::entries(), is_other);
    let others = filtered("$$elements", doc! { "$not": &is_target });
    let both = doc! { "queue": &queue, "holders": others };
    let closed = doc! { "$cond": [{ "$isArray": ["$holders"] }, both, { "queue": queue }] };
    let changes = doc! { "$cond": ["$$open", admitted, closed] };
    let counts = doc! { "$or": [is_unexpired(), &is_target] };
    let is_any = doc! { "$gt": [{ "$size": filtered("$$elements", counts) }, 0] };
    let mut exclusive = vec![doc! { "$eq": ["$value", literal("$$NOW")] }];
    exclusive.extend(conditions("$grant.id"));
    let open = doc! {
        "$or": [is_free(), { "$and": ["$$shared", is_any] }, { "$and": exclusive }],
    };
    let changes = with("open", open, changes);
    let stays = doc! { "$and": [is_unexpired(), { "$not": is_target }] };
    let kept = doc! { "$cond": ["$$shared", filtered("$$elements", stays), []] };
    let changes = with("shared", is_shared(), with("kept", kept, changes));
    let changes = with("elements", elements(), changes);
    let without_empty = doc! {
        "queue": { "$cond": [{ "$eq": ["$queue", []] }, "$$REMOVE", "$queue"] },
        "holders": { "$cond": [{ "$eq": ["$holders", []] }, "$$REMOVE", "$holders"] },
    };
    vec![
        doc! { "$replaceWith": { "$mergeObjects": ["$$ROOT", changes] } },
        doc! { "$set": without_empty },
    ]
}

#[test]
fn a_release_that_admits_is_written_out() {
    for selected in ways() {
        for (scope, leaves_queue) in
            [(ReleaseScope::Grant, false), (ReleaseScope::GrantOrEntry, true)]
        {
            let target = target(selected.grant.clone());
            let command = ReleaseAndAdmit { target, scope, values: values() };
            let wanted = update(filter(&selected, leaves_queue), released(selected.conditions));
            assert_same(&command.build("locks", SENT), &wanted);
        }
    }
}

#[test]
fn a_release_of_one_permit_is_written_out() {
    let undated = doc! { "$elemMatch": { "expiresAt": { "$not": { "$type": "date" } } } };
    let filter = doc! {
        "name": "$name",
        "value": "mongo-lease/shared",
        "expiresAt": { "$type": "date" },
        "holders": { "$elemMatch": { "value": "$$NOW", "id": "$call.3" }, "$not": undated },
        "queue.0": { "$exists": false },
    };
    let others = filtered("$holders", doc! { "$ne": ["$$entry.id", literal("$call.3")] });
    let is_empty = doc! { "$eq": ["$holders", []] };
    let latest = doc! { "$max": "$holders.expiresAt" };
    let set = doc! {
        "value": { "$cond": [&is_empty, "released:fresh.0", "mongo-lease/shared"] },
        "expiresAt": { "$cond": [is_empty, epoch(), latest] },
    };
    let wanted = update(filter, vec![doc! { "$set": { "holders": others } }, doc! { "$set": set }]);
    let command = ReleasePermit { key: key(), values: values() };
    assert_same(&command.build("locks", SENT), &wanted);
}

#[test]
fn a_deletion_by_the_last_holder_is_written_out() {
    let filter = doc! {
        "name": "$name",
        "value": "mongo-lease/shared",
        "holders": { "$size": 1 },
        "holders.0.value": "$$NOW",
        "holders.0.id": "$call.3",
        "$expr": is_sound(),
        "queue.0": { "$exists": false },
    };
    let wanted = doc! {
        "delete": "locks",
        "deletes": [{ "q": filter, "limit": 1, "collation": simple() }],
        "writeConcern": majority(),
    };
    assert_same(&DeleteLastHolder { key: key() }.build("locks", SENT), &wanted);
}
