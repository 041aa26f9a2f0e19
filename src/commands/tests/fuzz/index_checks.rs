//! What the decoders of the migration may believe.

use mongodb::bson::{Bson, Document};

use super::super::SENT;
use super::checks::rows;
use crate::commands::Command;
use crate::commands::failure::Cause;
use crate::commands::indexes::{
    Change, ChangeIndex, CreateIndex, Duplicates, ListIndexes, LookAtBuild, LookAtCollection,
    WireVersion,
};

pub(super) fn list_indexes(reply: &Document) -> bool {
    let list = ListIndexes { collection: "locks".to_owned(), tells_builds: true };
    let Ok(indexes) = list.decode(reply, SENT) else { return false };
    let rows = rows(reply).expect("rows");
    assert_eq!(indexes.len(), rows.len());
    // What is taken for unique says so itself.
    for (index, row) in indexes.iter().zip(&rows) {
        let spec = row.get_document("spec").unwrap_or(row);
        let says = !matches!(spec.get("unique"), None | Some(Bson::Null | Bson::Boolean(false)));
        assert!(says || !index.is_unique, "{row}");
    }
    indexes.iter().any(|index| index.is_unique)
}

pub(super) fn duplicates(reply: &Document) -> bool {
    let duplicates = Duplicates { collection: "locks".to_owned(), listed_max: 9 };
    duplicates.decode(reply, SENT).is_ok_and(|found| found.total > 0 && !found.names.is_empty())
}

pub(super) fn look_at_build(reply: &Document) -> bool {
    let (database, collection) = ("app".to_owned(), "locks".to_owned());
    let build = LookAtBuild { database, collection };
    matches!(build.decode(reply, SENT), Ok(Some((3, 9))))
}

pub(super) fn look_at_collection(reply: &Document) -> bool {
    let found = LookAtCollection { collection: "locks".to_owned() }.decode(reply, SENT);
    matches!(found, Ok(Some(_))) && rows(reply).is_some_and(|rows| !rows.is_empty())
}

pub(super) fn create_index(reply: &Document) -> bool {
    let [name, _] = crate::schema::INDEXES;
    let (collection, called) = ("locks".to_owned(), "name_1".to_owned());
    let _made: Result<(), Cause> =
        CreateIndex { collection, name: called, wanted: name }.decode(reply, SENT);
    !reply.is_empty()
}

pub(super) fn change_index(reply: &Document) -> bool {
    let (collection, name) = ("locks".to_owned(), "name_1".to_owned());
    let _changed: Result<(), Cause> =
        ChangeIndex { collection, name, change: Change::Unique }.decode(reply, SENT);
    !reply.is_empty()
}

pub(super) fn wire_version(reply: &Document) -> bool {
    let version = WireVersion.decode(reply, SENT).unwrap();
    let said = match reply.get("maxWireVersion") {
        Some(Bson::Int32(version)) => *version,
        Some(_) | None => 0,
    };
    assert_eq!(version, said);
    version > 0
}
