//! Which answers the decoders of index commands may give.

use crate::bson::{Bson, Document};

use super::super::SENT;
use super::checks::rows;
use crate::commands::Command;
use crate::commands::DecodeError;
use crate::commands::indexes::{
    CountDuplicates, CreateIndex, ListIndexes, LookAtCollection, read_index as read,
};

pub(super) fn list_indexes(reply: &Document) -> bool {
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

pub(super) fn read_index(row: &Document) -> bool {
    let index = read(row);
    assert!(says_unique(row) || !index.is_unique, "{row}");
    index.is_unique
}

pub(super) fn count_duplicates(reply: &Document) -> bool {
    let counted = CountDuplicates.decode(reply, SENT);
    assert_eq!(counted.is_ok(), rows(reply).is_some());
    counted.is_ok_and(|names| names == 2)
}

pub(super) fn look_at_collection(reply: &Document) -> bool {
    let found = LookAtCollection.decode(reply, SENT);
    matches!(found, Ok(Some(_))) && rows(reply).is_some_and(|rows| !rows.is_empty())
}

pub(super) fn create_index(reply: &Document) -> bool {
    let [spec, _] = crate::schema::SPECS;
    let name = "name_1".to_owned();
    let _made: Result<(), DecodeError> = CreateIndex { name, spec }.decode(reply, SENT);
    !reply.is_empty()
}
