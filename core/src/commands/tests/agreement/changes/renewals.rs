//! Changes to the commands that prolong: of holders, and of waiters.

use crate::bson::{Bson, Document, doc};

use super::{Change, FILTER, GRANT_ID, SET, change, damaged_is_sound, for_the_stored_ttl};
use crate::commands::tests::agreement::edits::{
    argument_of, arguments, first_of, is, part, replace, second_of, without,
};

pub(in crate::commands::tests::agreement) const OF_RENEWALS: &[Change] = &[
    change("RenewMany", "shortens a grant", |it| second_of(it, "$max", "$expiresAt")),
    change("RenewMany", "renews any grant of its value", |it| without(it, FILTER, GRANT_ID)),
    change("RenewMany", "repairs an expiry of a foreign type", |it| without(it, FILTER, "$expr")),
    change("RenewMany", "keeps the old echo", |it| without(it, SET, "grant.sentMicros")),
    change("RenewMany", "prolongs for the stored ttl", for_the_stored_ttl),
    change("RenewHolders", "shortens a grant", |it| second_of(it, "$max", "$$each.expiresAt")),
    change("RenewHolders", "is content with one grant of two", |mut it| {
        let ids = part(&mut it, FILTER).get_document_mut("holders.id").expect("a filter");
        if let Some(all) = ids.remove("$all") {
            ids.insert("$in", all);
        }
        it
    }),
    change("RenewHolders", "repairs a corrupt holder", |it| without(it, FILTER, "holders")),
    change("RenewHolders", "repairs an expiry of a foreign type", |it| {
        without(it, FILTER, "$expr")
    }),
    change("RenewHolders", "renews what is not held by several", |it| without(it, FILTER, "value")),
    change("RenewHolders", "renews each holder", |it| {
        argument_of(it, "$cond", 1, |all| {
            let condition = all[0].as_document().and_then(|all| arguments(all, "$in"));
            condition.is_some_and(|all| all[0].as_str() == Some("$$each.id"))
        })
    }),
    change("RenewHolders", "keeps the old echo", |it| {
        replace(it, &|found| {
            let mut kept = found.clone();
            kept.remove("sentMicros").map(|_| kept.into())
        })
    }),
    change("RenewHolders", "keeps the expiry of the document", |mut it| {
        part(&mut it, "updates/0/u/1/$set").clear();
        part(&mut it, "updates/0/u/1/$set").insert("expiresAt", "$expiresAt");
        it
    }),
    change("RenewHolders", "prolongs for the stored ttl", for_the_stored_ttl_of_each),
    change("Guard", "prolongs for the stored ttl", for_the_stored_ttl),
    change("Guard", "does not prolong", |it| without(it, SET, "expiresAt")),
    change("Guard", "does not count its write", |it| without(it, SET, "grant.writes")),
    change("Guard", "guards any grant of its value", |it| without(it, FILTER, GRANT_ID)),
    change("Resume", "keeps a ttl that no lease may have", |it| {
        argument_of(it, "$cond", 1, |all| all[1].as_str() == Some("$grant.ttlMs"))
    }),
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
    change("Heartbeat", "moves the time of the newest one back", |it| {
        first_of(it, "$max", "$$each.heartbeatAt")
    }),
    change("Heartbeat", "shortens the waiter_ttl of the entry", |it| {
        second_of(it, "$max", "$$each.expiresAt")
    }),
    change("Heartbeat", "stores an older echo", |it| {
        argument_of(it, "$cond", 2, |all| {
            is(&all[0], doc! { "$gt": ["$$each.heartbeatAt", "$$NOW"] })
        })
    }),
    change("Heartbeat", "revives all entries", |it| {
        replace(it, &|found| {
            let is_ours = arguments(found, "$in")?.first()?.as_str() == Some("$$each.value");
            is_ours.then_some(Bson::Boolean(true))
        })
    }),
    change("Heartbeat", "revives corrupt entries", |it| {
        argument_of(it, "$and", 1, |all| all.len() == 2)
    }),
    change("Heartbeat", "writes to a queue that is no list", |it| without(it, FILTER, "queue")),
    change("Heartbeat", "writes to a damaged document", damaged_is_sound),
    change("FindEntries", "finds entries of a damaged document", damaged_is_sound),
    change("FindEntries", "sees the first entry alone", |mut it| {
        let shown = doc! { "$slice": ["$queue.value", 1] };
        let ours = arguments(part(&mut it, "projection/ours"), "$setIntersection");
        let values = ours.expect("two sets")[1].clone();
        let ours = doc! { "$setIntersection": [shown, values] };
        part(&mut it, "projection").insert("ours", ours);
        it
    }),
];

/// The times of the holder's element in place of those of the command.
fn for_the_stored_ttl_of_each(command: Document) -> Document {
    replace(command, &|found| {
        let is_until = arguments(found, "$add")?.first()?.as_str() == Some("$$NOW");
        // Null, and so not prolonged, where one of them is of a foreign type.
        let time = |field: &str| {
            let path = format!("$$each.{field}");
            let is_time = doc! { "$eq": [{ "$type": &path }, "long"] };
            doc! { "$cond": [is_time, { "$min": [path, 1_000_000_000_000_i64] }, Bson::Null] }
        };
        let stored = doc! { "$add": ["$$NOW", time("ttlMs"), time("maxClockSkewMs")] };
        is_until.then(|| stored.into())
    })
}
