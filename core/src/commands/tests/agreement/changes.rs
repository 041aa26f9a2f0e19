//! Deliberate changes to commands. The comparison has to find each.

use crate::bson::{Bson, DateTime, Document, doc};

use super::edits::{arguments, first_of, instead_of, part, replace, second_of, without};

/// A change to one command, before it is sent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Change {
    /// The command's type.
    pub(super) command: &'static str,
    /// The meaning of the changed command.
    pub(super) name: &'static str,
    pub(super) edit: fn(Document) -> Document,
}

pub(super) const fn change(
    command: &'static str,
    name: &'static str,
    edit: fn(Document) -> Document,
) -> Change {
    Change { command, name, edit }
}

/// A filter, the fields that a pipeline sets, and a statement of a delete.
const FILTER: &str = "updates/0/q";
const SET: &str = "updates/0/u/0/$set";
const DELETE: &str = "deletes/0/q";
const QUEUE_IS_EMPTY: &str = "queue.0";
const GRANT_ID: &str = "grant.id";

/// Changes to the commands of callers that acquire.
pub(super) const OF_ACQUIRES: [Change; 13] = [
    change("FullAcquire", "shortens a grant that it finds again", |it| {
        second_of(it, "$max", "$expiresAt")
    }),
    change("FullAcquire", "counts a waiter's grant from $$NOW", |it| {
        instead_of(it, &doc! { "$max": ["$$NOW", "$$old.heartbeatAt"] }, "$$NOW")
    }),
    change("FullAcquire", "reads an expiry of a foreign type as a time", |it| {
        instead_of(it, &doc! { "$eq": [{ "$type": "$expiresAt" }, "date"] }, true)
    }),
    change("FullAcquire", "does not count its write", uncounted),
    change("FullAcquire", "takes the shorter ttl", |it| second_of(it, "$max", "$grant.ttlMs")),
    change("FullAcquire", "joins a full queue", |it| {
        replace(it, &|found| {
            let is_size =
                arguments(found, "$lt")?.first() == Some(&doc! { "$size": "$$line" }.into());
            is_size.then_some(Bson::Boolean(true))
        })
    }),
    change("FullAcquire", "goes before the waiters", |it| {
        instead_of(it, &doc! { "$eq": ["$$line", []] }, true)
    }),
    change("FullAcquire", "joins a damaged document", damaged_is_sound),
    change("FastAcquire", "is granted a lease that has a queue", |it| {
        instead_of(it, &doc! { "$in": [{ "$ifNull": ["$queue", []] }, [[]]] }, true)
    }),
    change("FastAcquire", "is granted a lease that is held", |it| {
        instead_of(it, &doc! { "$lte": ["$expiresAt", "$$NOW"] }, true)
    }),
    change("FastAcquire", "looks the name up before it inserts", |mut it| {
        let inserted = "update/0/$replaceWith/$mergeObjects/1";
        if it.get_document("query").is_ok_and(|query| query.get_document("name").is_ok()) {
            let name = part(&mut it, &format!("{inserted}/name")).get("$literal").cloned();
            it.insert("query", doc! { "name": name });
        }
        it
    }),
    change("FastAcquireMany", "grants until $$NOW", |it| {
        replace(it, &|found| {
            (arguments(found, "$add")?.first()?.as_str() == Some("$$NOW")).then(|| "$$NOW".into())
        })
    }),
    change("FastAcquireMany", "does not count its write", uncounted),
];

/// Changes to the commands of holders.
pub(super) const OF_HOLDERS: [Change; 26] = [
    change("RenewMany", "shortens a grant", |it| second_of(it, "$max", "$expiresAt")),
    change("RenewMany", "renews any grant of its value", |it| without(it, FILTER, GRANT_ID)),
    change("RenewMany", "repairs an expiry of a foreign type", |it| without(it, FILTER, "$expr")),
    change("RenewMany", "keeps the old echo", |it| without(it, SET, "grant.sentMicros")),
    change("RenewMany", "prolongs for the stored ttl", for_the_stored_ttl),
    change("Guard", "prolongs for the stored ttl", for_the_stored_ttl),
    change("Resume", "keeps a ttl that no lease may have", |it| {
        replace(it, &|found| match arguments(found, "$cond")? {
            [_, stored, _] if stored.as_str() == Some("$grant.ttlMs") => Some(stored.clone()),
            _ => None,
        })
    }),
    change("Guard", "does not prolong", |it| without(it, SET, "expiresAt")),
    change("Guard", "guards any grant of its value", |it| without(it, FILTER, GRANT_ID)),
    change("Resume", "resumes an expired grant", |it| without(it, "query", "$expr")),
    change("Resume", "does not store the ttl", |it| without(it, "update/0/$set", "grant.ttlMs")),
    change("Resume", "keeps the id of the grant", |it| without(it, "update/0/$set", GRANT_ID)),
    change("Resume", "does not find what it resumed before", |mut it| {
        let query = part(&mut it, "query");
        let ids = query.get_document(GRANT_ID).and_then(|ids| ids.get_array("$in"));
        let key = ids.map(|ids| ids[0].clone()).expect("two ids");
        query.insert(GRANT_ID, key);
        it
    }),
    change("Release", "deletes the queue", |it| without(it, DELETE, QUEUE_IS_EMPTY)),
    change("Release", "deletes grants of calls that sort behind", |it| of_call(it, "$lt")),
    change("Release", "deletes the accepted grant", |it| of_call(it, "$ne")),
    change("Tombstone", "keeps the holder's grant", |mut it| {
        let tombstone = part(&mut it, "updates/0/u").clone();
        part(&mut it, "updates/0").insert("u", doc! { "$set": tombstone });
        it
    }),
    change("Tombstone", "expires now", |mut it| {
        part(&mut it, "updates/0/u").insert("expiresAt", DateTime::now());
        it
    }),
    change("Release", "deletes a damaged document", |it| without(it, DELETE, "$expr")),
    change("Tombstone", "buries a damaged document", |it| without(it, FILTER, "$expr")),
    change("ReleaseLater", "ends a damaged lease", |it| without(it, FILTER, "$expr")),
    change("Tombstone", "deletes the queue", |it| without(it, FILTER, QUEUE_IS_EMPTY)),
    change("ReleaseLater", "counts from now", |it| {
        replace(it, &|found| {
            let [_, held] = arguments(found, "$add")? else {
                return None;
            };
            Some(doc! { "$add": ["$$NOW", held] }.into())
        })
    }),
    change("ReleaseLater", "does not call the first waiter", |it| without(it, SET, "promoted")),
    change("ReleaseLater", "leaves the grant to the holder", |it| without(it, SET, "grant.value")),
    change("ReleaseLater", "names no grant", |it| without(it, FILTER, GRANT_ID)),
];

/// Changes to the commands of waiters, and of holders that have waiters.
pub(super) const OF_QUEUES: [Change; 17] = [
    change("Heartbeat", "moves the time of the newest one back", |it| {
        first_of(it, "$max", "$$entry.heartbeatAt")
    }),
    change("Heartbeat", "shortens the life of the entry", |it| {
        second_of(it, "$max", "$$entry.expiresAt")
    }),
    change("Heartbeat", "stores an older echo", |it| {
        replace(it, &|found| match arguments(found, "$cond")? {
            [Bson::Document(is_older), _, sent] if is_older.contains_key("$gt") => {
                Some(sent.clone())
            }
            _ => None,
        })
    }),
    change("Heartbeat", "revives all entries", |it| {
        replace(it, &|found| {
            let is_ours = arguments(found, "$in")?.first()?.as_str() == Some("$$entry.value");
            is_ours.then_some(Bson::Boolean(true))
        })
    }),
    change("Heartbeat", "writes to a queue that is no list", |it| without(it, FILTER, "queue")),
    change("FindEntries", "sees the first entry alone", |mut it| {
        let shown = doc! { "$slice": ["$queue.value", 1] };
        let ours = arguments(part(&mut it, "projection/ours"), "$setIntersection");
        let values = ours.expect("two sets")[1].clone();
        let ours = doc! { "$setIntersection": [shown, values] };
        part(&mut it, "projection").insert("ours", ours);
        it
    }),
    change("HandOff", "promotes the last waiter", |it| {
        instead_of(it, &first_in_line(0), first_in_line(-1))
    }),
    change("HandOff", "grants for the whole ttl", for_the_whole_ttl),
    change("HandOff", "counts the promotion from $$NOW", |it| {
        first_of(it, "$max", "$$head.heartbeatAt")
    }),
    change("HandOff", "leaves the promoted waiter in the queue", |it| {
        instead_of(it, &doc! { "$ne": ["$$entry.value", "$$head.value"] }, true)
    }),
    change("HandOff", "does not tell the promoted waiter", |it| {
        replace(it, &|found| {
            let mut silent = found.clone();
            silent.remove("promoted").map(|_| silent.into())
        })
    }),
    change("HandOff", "keeps the queue of a lease that ends", |it| {
        replace(it, &|found| {
            let ends = found.get_str("expiresAt").ok() == Some("$$NOW");
            let mut kept = found.clone();
            kept.remove("queue").filter(|_| ends).map(|_| kept.into())
        })
    }),
    change("HandOff", "ends a lease that no waiter wants", |mut it| {
        let filter = part(&mut it, FILTER);
        if let Ok(sound) = filter.get_document("$expr").cloned()
            && let Some([sound, _]) = arguments(&sound, "$and")
        {
            filter.insert("$expr", sound.clone());
        }
        it
    }),
    change("HandOff", "hands a damaged lease off", damaged_is_sound),
    change("Heartbeat", "writes to a damaged document", damaged_is_sound),
    change("FindEntries", "finds entries of a damaged document", damaged_is_sound),
    change("HandOff", "leaves a queue that is no list", |mut it| {
        if part(&mut it, FILTER).contains_key("$or") {
            part(&mut it, "updates/0/q/$or/1").remove("queue");
        }
        it
    }),
];

/// A condition on the expiry that any type fits.
fn damaged_is_sound(command: Document) -> Document {
    let types = ["date", "missing", "null"].map(Bson::from).to_vec();
    instead_of(command, &doc! { "$in": [{ "$type": "$expiresAt" }, types] }, true)
}

/// The times of the document in place of that of the command.
fn for_the_stored_ttl(command: Document) -> Document {
    replace(command, &|found| {
        let is_until = arguments(found, "$add")?.first()?.as_str() == Some("$$NOW");
        let stored = doc! { "$add": ["$$NOW", "$grant.ttlMs", "$grant.maxClockSkewMs"] };
        is_until.then(|| stored.into())
    })
}

fn uncounted(command: Document) -> Document {
    replace(command, &|found| match arguments(found, "$add")? {
        [so_far @ Bson::Document(_), Bson::Int32(1)] => Some(so_far.clone()),
        _ => None,
    })
}

/// A release by call without one bound of its ids.
fn of_call(mut release: Document, bound: &str) -> Document {
    if let Ok(ids) = part(&mut release, DELETE).get_document_mut(GRANT_ID) {
        ids.remove(bound);
    }
    release
}

fn first_in_line(place: i32) -> Document {
    doc! { "$arrayElemAt": ["$$line", place] }
}

/// A hand-off without the bound on the promotion's time.
fn for_the_whole_ttl(hand_off: Document) -> Document {
    replace(hand_off, &|found| arguments(found, "$min")?.first().cloned())
}
