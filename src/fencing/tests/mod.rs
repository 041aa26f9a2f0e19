//! The merged write, without a server.

mod shared;

use mongodb::bson::{Bson, Document, Timestamp, doc};
use mongodb::options::UpdateModifications;
use proptest::prelude::*;
use proptest::sample::select;

use super::{FencedWrite, fence};
use crate::error::Error;
use crate::token::Token;

const TOKEN: Token = Token::from_u64(1_700_000_000 << 32 | 3);

fn stamp() -> Timestamp {
    TOKEN.into()
}

fn merged(field: &str, update: impl Into<UpdateModifications>) -> Result<FencedWrite, Error> {
    TOKEN.fenced_write(field, doc! { "_id": 1 }, update)
}

fn document(write: FencedWrite) -> Document {
    let UpdateModifications::Document(update) = write.into_parts().1 else {
        panic!("no document");
    };
    update
}

fn stages(write: FencedWrite) -> Vec<Document> {
    let UpdateModifications::Pipeline(stages) = write.into_parts().1 else {
        panic!("no pipeline");
    };
    stages
}

/// Asserts that it was refused, and because of which option.
fn refused(option: &str, result: Result<FencedWrite, Error>, what: &str) {
    match result {
        Err(Error::InvalidOption { option: named, .. }) => assert_eq!(named, option, "{what}"),
        other => panic!("{what}: {other:?}"),
    }
}

#[test]
fn the_token_joins_the_set_of_an_update() {
    let joined = document(merged("f", doc! { "$inc": { "n": 1 }, "$set": { "a": 2 } }).unwrap());
    assert_eq!(joined, doc! { "$inc": { "n": 1 }, "$set": { "a": 2, "f": stamp() } });
    let added = document(merged("f", doc! { "$push": { "list": 1 } }).unwrap());
    assert_eq!(added, doc! { "$push": { "list": 1 }, "$set": { "f": stamp() } });
}

#[test]
fn the_token_is_the_last_stage_of_a_pipeline() {
    let before = vec![doc! { "$set": { "a": "$b" } }, doc! { "$unset": ["c", "d.e"] }];
    let after = stages(merged("f", before.clone()).unwrap());
    assert_eq!(after[..2], before);
    assert_eq!(after[2..], [doc! { "$set": { "f": stamp() } }]);
}

#[test]
fn fields_that_cannot_hold_a_token_are_refused() {
    let wrong = ["", "$f", "a.$", "a.$[].f", ".f", "f.", "a..f", "f\0", "_id", "_id.f"];
    for field in wrong {
        refused("field", merged(field, doc! { "$set": { "a": 1 } }), field);
    }
    for field in ["f", "a.f", "a._id", "_ids", "a.0.f", "a$", "ü"] {
        assert!(merged(field, doc! { "$set": { "b": 1 } }).is_ok(), "{field}");
    }
}

#[test]
fn updates_that_touch_the_field_are_refused() {
    let touching = [
        doc! { "$set": { "m.f": 1 } },
        doc! { "$set": { "m": {} } },
        doc! { "$set": { "m.f.deeper": 1 } },
        doc! { "$inc": { "a": 1 }, "$unset": { "m.f": "" } },
        doc! { "$unset": { "m": "" } },
        doc! { "$setOnInsert": { "m.f": 1 } },
        doc! { "$max": { "m.f": 1 } },
        doc! { "$currentDate": { "m.f": true } },
        doc! { "$push": { "m": 1 } },
        doc! { "$pull": { "m": { "f": 1 } } },
        doc! { "$rename": { "m.f": "a" } },
        doc! { "$rename": { "a": "m.f" } },
        doc! { "$rename": { "a": "m" } },
        doc! { "$set": { "m.$[].x": 1 } },
        doc! { "$set": { "m.$": 1 } },
    ];
    let of_unknown_meaning = [
        doc! {},
        doc! { "a": 1 },
        doc! { "$set": { "a": 1 }, "b": 2 },
        doc! { "$set": 1 },
        doc! { "$inc": { "a": 1 }, "$set": [] },
        doc! { "$rename": { "a": 1 } },
        doc! { "$shuffle": { "a": 1 } },
        doc! { "$v": 2, "diff": { "d": { "f": false } } },
    ];
    for update in touching.into_iter().chain(of_unknown_meaning) {
        refused("update", merged("m.f", update.clone()), &update.to_string());
    }
    let beside = doc! { "$set": { "m.g": 1, "mf": 2, "a.m.f": 3, "f": 4 } };
    assert!(merged("m.f", beside).is_ok());
}

#[test]
fn stages_that_touch_the_field_are_refused() {
    let touching = [
        doc! { "$set": { "m.f": "$a" } },
        doc! { "$set": { "m": [] } },
        doc! { "$addFields": { "m.f.deeper": 1 } },
        doc! { "$unset": "m.f" },
        doc! { "$unset": ["a", "m"] },
        doc! { "$project": { "m.f": 0 } },
        doc! { "$project": { "m": { "f": 1 } } },
        // These may put an array on the way to the field.
        doc! { "$replaceWith": "$a" },
        doc! { "$replaceRoot": { "newRoot": "$a" } },
    ];
    let of_unknown_meaning = [
        doc! {},
        doc! { "$set": { "a": 1 }, "$unset": "b" },
        doc! { "$unset": 1 },
        doc! { "$unset": ["a", 1] },
        doc! { "$set": "$a" },
        doc! { "$merge": "elsewhere" },
        doc! { "a": 1 },
    ];
    for stage in touching.into_iter().chain(of_unknown_meaning) {
        let update = vec![doc! { "$set": { "a": 1 } }, stage.clone()];
        refused("update", merged("m.f", update), &stage.to_string());
    }
    refused("update", merged("m.f", Vec::<Document>::new()), "no stage");
    let beside =
        [doc! { "$replaceWith": "$a" }, doc! { "$project": { "a": 1 } }, doc! { "$unset": "a" }];
    for stage in beside {
        assert!(merged("f", vec![stage]).is_ok());
    }
    let odd = merged("f", vec![doc! { "$set": "$a" }]).unwrap_err().to_string();
    assert!(odd.ends_with("the value of `$set` is of the wrong type"), "{odd}");
}

#[test]
fn an_upsert_needs_equality_on_the_id() {
    let enough = [
        doc! { "_id": 1 },
        doc! { "a": 2, "_id": { "$eq": 1 } },
        doc! { "_id": { "year": 1, "month": 2 } },
        doc! { "$and": [{ "a": 2 }, { "$and": [{ "_id": "x" }] }] },
    ];
    for filter in enough {
        assert!(fence::check_upsert("f", &filter).is_ok(), "{filter}");
    }
    let lacking = [
        doc! {},
        doc! { "a": 1 },
        doc! { "_id": { "$gte": 1 } },
        doc! { "_id": { "$in": [1, 2] } },
        regex_on_id(),
        doc! { "_id.year": 1 },
        doc! { "$or": [{ "_id": 1 }] },
        doc! { "$nor": [{ "_id": 1 }] },
        // An upsert would insert the filter's value of the field.
        doc! { "_id": 1, "f": [] },
        doc! { "_id": 1, "$or": [{ "f.g": 1 }] },
    ];
    for filter in lacking {
        assert!(fence::check_upsert("f", &filter).is_err(), "{filter}");
    }
}

/// `{ "_id": /^a/ }`, built from its bytes: the BSON libraries construct regular expressions differently.
fn regex_on_id() -> Document {
    let bytes = b"\x0E\0\0\0\x0B_id\0^a\0\0\0";
    Document::from_reader(bytes.as_slice()).unwrap()
}

const PATHS: [&str; 12] =
    ["f", "m", "m.f", "m.g", "m.f.x", "a", "a.f", "f.m", "m.$[].f", "$[e]", "mm", "m.0"];

fn path() -> impl Strategy<Value = &'static str> {
    select(&PATHS[..])
}

fn operators() -> impl Strategy<Value = Document> {
    let operator =
        select(&["$set", "$unset", "$inc", "$push", "$setOnInsert", "$pull", "$max"][..]);
    let changes = prop::collection::vec((path(), 0..9), 0..3).prop_map(|changes| {
        Bson::Document(
            changes.into_iter().map(|(path, n): (&str, i32)| (path.to_owned(), n.into())).collect(),
        )
    });
    let plain = (operator.prop_map(str::to_owned), changes);
    let rename = (path(), path())
        .prop_map(|(from, to)| ("$rename".to_owned(), Bson::Document(doc! { from: to })));
    prop::collection::vec(prop_oneof![4 => plain, 1 => rename], 0..4)
        .prop_map(|operators| operators.into_iter().collect())
}

/// Whether a change of one path may change the other: written in a second, independent way.
fn overlap(a: &str, b: &str) -> bool {
    let is_within =
        |inner: &str, outer: &str| format!("{inner}.").starts_with(&format!("{outer}."));
    is_within(a, b) || is_within(b, a)
}

/// The paths that an update changes, with those to which it renames.
fn changed(update: &Document) -> Vec<&str> {
    let changes = update.values().filter_map(Bson::as_document).flatten();
    changes.flat_map(|(path, change)| [Some(path.as_str()), change.as_str()]).flatten().collect()
}

proptest! {
    /// The merged update names the field only to store the token, and leaves the rest unchanged. The reverse: every
    /// refusal has a path that overlaps, or a positional one.
    #[test]
    fn a_merged_update_stores_the_token_and_keeps_the_rest(
        update in operators(),
        field in select(&["f", "m.f", "m.f.x", "a", "z"][..]),
    ) {
        let Ok(write) = merged(field, update.clone()) else {
            let touches = |path: &str| overlap(path, field) || path.contains('$');
            prop_assert!(update.is_empty() || changed(&update).into_iter().any(touches));
            return Ok(());
        };
        let mut after = document(write);
        let set = after.get_document_mut("$set").unwrap();
        prop_assert_eq!(set.remove(field), Some(Bson::Timestamp(stamp())));
        for path in changed(&after) {
            prop_assert!(!overlap(path, field), "{path} of {after}");
        }
        if !update.contains_key("$set") {
            after.remove("$set");
        }
        prop_assert_eq!(after, update);
    }
}
