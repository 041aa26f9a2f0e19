//! The merged writes of the fence that keeps two tokens.

use mongodb::bson::doc;
use mongodb::options::UpdateModifications;

use super::{TOKEN, document, refused, stages, stamp};
use crate::error::Result;
use crate::fencing::FencedWrite;

fn exclusive(field: &str, update: impl Into<UpdateModifications>) -> Result<FencedWrite> {
    TOKEN.fenced_exclusive_write(field, doc! { "_id": 1 }, update)
}

fn shared(field: &str, update: impl Into<UpdateModifications>) -> Result<FencedWrite> {
    TOKEN.fenced_shared_write(field, doc! { "_id": 1 }, update)
}

#[test]
fn a_shared_write_raises_the_newest_token_alone() {
    let joined = document(shared("m.f", doc! { "$set": { "a": 2 }, "$max": { "n": 3 } }).unwrap());
    assert_eq!(joined, doc! { "$set": { "a": 2 }, "$max": { "n": 3, "m.f.seen": stamp() } });
    let added = document(shared("f", doc! { "$inc": { "n": 1 } }).unwrap());
    assert_eq!(added, doc! { "$inc": { "n": 1 }, "$max": { "f.seen": stamp() } });
    let stage = doc! { "$set": { "a": 1 } };
    let raised = doc! { "$set": { "m.f.seen": { "$max": ["$m.f.seen", stamp()] } } };
    assert_eq!(stages(shared("m.f", vec![stage.clone()]).unwrap()), [stage, raised]);
}

#[test]
fn the_filter_of_an_exclusive_write_refuses_every_newer_token() {
    let write = exclusive("m.f", doc! { "$set": { "a": 1 } }).unwrap();
    let no_array = doc! { "$not": { "$type": "array" } };
    let wanted = doc! { "$and": [
        { "_id": 1 },
        { "$or": [{ "m.f.seen": { "$lte": stamp() } }, { "m.f.seen": null }] },
        { "$or": [{ "m.f.exclusive": { "$lte": stamp() } }, { "m.f.exclusive": null }] },
        { "$or": [{ "m.f": { "$exists": false } }, { "m.f": { "$type": "object" } }] },
        { "m": no_array.clone() },
        { "m.f": no_array.clone() },
        { "m.f.seen": no_array.clone() },
        { "m.f.exclusive": no_array },
    ] };
    assert_eq!(write.into_parts().0, wanted);
}

#[test]
fn a_write_that_touches_either_token_is_refused() {
    for path in ["f", "f.seen", "f.exclusive", "f.seen.deeper", "f.other"] {
        for update in [doc! { "$set": { path: 1 } }, doc! { "$unset": { path: "" } }] {
            refused("update", exclusive("f", update.clone()), path);
            refused("update", shared("f", update), path);
        }
        refused("update", shared("f", vec![doc! { "$set": { path: 1 } }]), path);
    }
    for field in ["", "_id", "a..b", "$f"] {
        refused("field", shared(field, doc! { "$set": { "a": 1 } }), field);
    }
}

/// The token of the exclusive holder would be gone, and older holders would write again.
#[test]
fn a_shared_write_may_not_remove_the_other_token() {
    for stage in [
        doc! { "$replaceWith": "$a" },
        doc! { "$replaceRoot": { "newRoot": "$a" } },
        doc! { "$project": { "a": 1 } },
    ] {
        refused("update", shared("f", vec![stage.clone()]), &stage.to_string());
        // The others store all that there is to keep.
        assert!(exclusive("f", vec![stage.clone()]).is_ok());
        assert!(TOKEN.fenced_write("f", doc! { "_id": 1 }, vec![stage]).is_ok());
    }
    assert!(shared("f", vec![doc! { "$unset": ["a", "b"] }]).is_ok());
}
