//! Which answers the decoders of index commands may give.

use crate::bson::{Bson, Document, doc};

use super::super::SENT;
use super::checks::rows;
use super::{Decoder, batch, batch_of, batches, counts, decoder};
use crate::commands::indexes::{
    CountDuplicates, CreateIndex, FindOtherFormat, FoundIndex, ListIndexes, LookAtCollection,
    read_index,
};
use crate::commands::{Command, DecodeError};

pub(super) const DECODERS: [Decoder; 6] = [
    decoder("indexes::CountDuplicates", batches, count_duplicates),
    decoder("indexes::CreateIndex", counts, create_index),
    decoder("indexes::FindOtherFormat", other_formats, find_other_format),
    decoder("indexes::ListIndexes", batches, list_indexes),
    decoder("indexes::LookAtCollection", batches, look_at_collection),
    decoder("indexes::read_index", indexes, |row| is_unique((&read_index(row), row))),
];

fn list_indexes(reply: &Document) -> bool {
    let list = ListIndexes { tells_builds: true };
    let Ok(indexes) = list.decode(reply, SENT) else { return false };
    let rows = rows(reply).expect("rows");
    assert_eq!(indexes.len(), rows.len());
    let unique: Vec<bool> = std::iter::zip(&indexes, rows).map(is_unique).collect();
    unique.contains(&true)
}

/// Whether an index counts as unique. Fails unless it says so itself.
fn is_unique((index, row): (&FoundIndex, &Document)) -> bool {
    let spec = row.get_document("spec").unwrap_or(row);
    let says_no = matches!(spec.get("unique"), None | Some(Bson::Null | Bson::Boolean(false)));
    assert!(!says_no || !index.is_unique, "{row}");
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
    let found = [
        doc! { "grant": old.clone() },
        doc! { "queue": [{ "value": "w" }, old.clone()] },
        doc! { "holders": [old] },
        doc! { "grant": { "maxClockSkewMs": 1_000_i64 }, "queue": [] },
        doc! { "name": "a" },
    ];
    found.into_iter().map(batch).chain([batch_of(Vec::new())]).collect()
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
