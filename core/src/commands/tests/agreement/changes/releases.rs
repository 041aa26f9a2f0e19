//! Changes to the other commands of a release: deletes, tombstones, and the end at a later time.

use crate::bson::{DateTime, Document, doc};

use super::{
    Change, FILTER, GRANT_ID, QUEUE_IS_EMPTY, SET, change, with_dead_waiters,
    with_the_holders_entry,
};
use crate::commands::tests::agreement::edits::{
    arguments, in_each_form, instead_of, part, replace, without,
};

const DELETE: &str = "deletes/0/q";

pub(in crate::commands::tests::agreement) const OF_RELEASES: &[Change] = &[
    change("Delete", "deletes the queue", |it| without(it, DELETE, QUEUE_IS_EMPTY)),
    change("Delete", "deletes any grant of its value", |it| {
        in_each_form(it, DELETE, |form| drop(form.remove(GRANT_ID)))
    }),
    change("Delete", "deletes any share of its value", |it| {
        in_each_form(it, DELETE, |form| drop(form.remove("holders.0.id")))
    }),
    change("Delete", "deletes the share of another", |it| {
        in_each_form(it, DELETE, |form| drop(form.remove("holders.0.value")))
    }),
    change("Delete", "deletes grants of calls that sort behind", |it| of_call(it, "$lt")),
    change("Delete", "deletes grants of calls that sort before", |it| of_call(it, "$gte")),
    change("Delete", "deletes the accepted grant", |it| of_call(it, "$ne")),
    change("Delete", "deletes other holders", |it| {
        in_each_form(it, DELETE, |form| drop(form.remove("holders")))
    }),
    change("Delete", "deletes a lease that is held by one for its stale list", |it| {
        in_each_form(it, DELETE, |form| {
            if form.contains_key("holders") {
                form.remove("value");
            }
        })
    }),
    change("Delete", "deletes a damaged document", |it| without(it, DELETE, "$expr")),
    change("Tombstone", "keeps the holder's grant", |mut it| {
        let tombstone = part(&mut it, "updates/0/u").clone();
        part(&mut it, "updates/0").insert("u", doc! { "$set": tombstone });
        it
    }),
    change("Tombstone", "expires now", |mut it| {
        part(&mut it, "updates/0/u").insert("expiresAt", DateTime::now());
        it
    }),
    change("Tombstone", "buries a damaged document", |it| without(it, FILTER, "$expr")),
    change("Tombstone", "deletes the queue", |it| without(it, FILTER, QUEUE_IS_EMPTY)),
    change("Tombstone", "buries other holders", |it| {
        in_each_form(it, FILTER, |form| drop(form.remove("holders")))
    }),
    change("EndLater", "ends a damaged lease", |it| without(it, FILTER, "$expr")),
    change("EndLater", "counts from now", |it| {
        replace(it, &|found| {
            let [_, held] = arguments(found, "$add")? else {
                return None;
            };
            (held.as_i64()? < 1_000_000_000).then(|| doc! { "$add": ["$$NOW", held] }.into())
        })
    }),
    change("EndLater", "does not call the first waiter", |it| without(it, SET, "promoted")),
    change("EndLater", "calls nobody anew", |it| {
        instead_of(it, &doc! { "$eq": [{ "$type": "$$head" }, "object"] }, true)
    }),
    change("EndLater", "calls itself", with_the_holders_entry),
    change("EndLater", "calls a dead waiter", with_dead_waiters),
    change("EndLater", "leaves the grant to the holder", |it| without(it, SET, "grant.value")),
    change("EndLater", "leaves the lease to the holder", |it| without(it, SET, "value")),
    change("EndLater", "names no grant", |it| without(it, FILTER, GRANT_ID)),
];

/// A delete by call without one bound of its ids.
fn of_call(release: Document, bound: &str) -> Document {
    in_each_form(release, DELETE, |form| {
        for id in [GRANT_ID, "holders.0.id"] {
            if let Ok(ids) = form.get_document_mut(id) {
                ids.remove(bound);
            }
        }
    })
}
