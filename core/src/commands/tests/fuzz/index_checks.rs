//! Which answers the decoders of index commands may give.

use crate::bson::{Bson, Document, doc};

use super::super::SENT;
use super::checks::rows;
use super::{Decoder, batches, counts, decoder};
use crate::commands::indexes::{
    CountDuplicates, CreateIndex, FindOtherFormat, ListIndexes, LookAtCollection,
    read_index as read,
};
use crate::commands::{Command, DecodeError};

pub(super) const DECODERS: [Decoder; 6] = [
    decoder("indexes::CountDuplicates", batches, count_duplicates),
    decoder("indexes::CreateIndex", counts, create_index),
    decoder("indexes::FindOtherFormat", other_formats, find_other_format),
    decoder("indexes::ListIndexes", batches, list_indexes),
    decoder("indexes::LookAtCollection", batches, look_at_collection),
    decoder("indexes::read_index", indexes, read_index),
];

fn list_indexes(reply: &Document) -> bool {
    let list = ListIndexes { tells_builds: true };
    let Ok(indexes) = list.decode(reply, SENT) else { return false };
    let rows = rows(reply).expect("rows");
    assert_eq!(indexes.len(), rows.len());
    // An index counts as unique only if it says so itself.
    for (index, row) in indexes.iter().zip(&rows) {
        assert!(says_unique(row) || !index.is_unique, "{row}");
    }
    indexes.iter().any(|index| index.is_unique)
}

fn says_unique(row: &Document) -> bool {
    let spec = row.get_document("spec").unwrap_or(row);
    !matches!(spec.get("unique"), None | Some(Bson::Null | Bson::Boolean(false)))
}

fn read_index(row: &Document) -> bool {
    let index = read(row);
    assert!(says_unique(row) || !index.is_unique, "{row}");
    index.is_unique
}

fn count_duplicates(reply: &Document) -> bool {
    let counted = CountDuplicates.decode(reply, SENT);
    assert_eq!(counted.is_ok(), rows(reply).is_some());
    counted.is_ok_and(|names| names == 2)
}

fn look_at_collection(reply: &Document) -> bool {
    let found = LookAtCollection.decode(reply, SENT);
    matches!(found, Ok(Some(_))) && rows(reply).is_some_and(|rows| !rows.is_empty())
}

fn create_index(reply: &Document) -> bool {
    let [spec, _] = crate::schema::SPECS;
    let name = "name_1".to_owned();
    let _made: Result<(), DecodeError> = CreateIndex { name, spec }.decode(reply, SENT);
    !reply.is_empty()
}

/// Documents of another format, of this one, and of the plain recipe.
fn other_formats() -> Vec<Document> {
    let old = doc! { "allowanceMs": 1_000_i64 };
    let batch = |found: Vec<Bson>| doc! { "cursor": { "firstBatch": found }, "ok": 1.0 };
    let found = [
        doc! { "grant": old.clone() },
        doc! { "queue": [{ "value": "w" }, old.clone()] },
        doc! { "holders": [old] },
        doc! { "grant": { "maxClockSkewMs": 1_000_i64 }, "queue": [] },
        doc! { "name": "a" },
    ];
    let each = found.into_iter().map(|document| batch(vec![document.into()]));
    each.chain([batch(vec![])]).collect()
}

fn find_other_format(reply: &Document) -> bool {
    let Ok(Some(field)) = FindOtherFormat.decode(reply, SENT) else { return false };
    let (outer, inner) = field.split_once('.').unwrap();
    let document = reply.to_string();
    assert!(document.contains(outer) && document.contains(inner), "{field}: {document}");
    true
}

/// Entries of a list of indexes, the second with the field about builds.
fn indexes() -> Vec<Document> {
    let unique = doc! { "v": 2, "key": { "name": 1 }, "name": "name_1", "unique": true };
    let ttl = doc! { "v": 2, "key": { "expiresAt": 1 }, "expireAfterSeconds": 0_i64 };
    vec![unique.clone(), doc! { "spec": unique, "buildUUID": "u" }, ttl]
}
