//! Random updates on random documents, with the server as the judge of their effect.

use mongo_lease::mongodb::Collection;
use mongo_lease::mongodb::bson::{Bson, Document, doc};
use mongo_lease::mongodb::options::UpdateModifications;
use mongo_lease::{Fenced, FencedWrite};
use proptest::prelude::*;
use proptest::sample::select;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;

use super::{NEWER, OLDER, one, stamp, work};
use crate::common::short_or_long;

const PATHS: [&str; 9] = ["f", "m", "m.f", "m.f.x", "m.g", "a", "a.f", "m.$[]", "n"];

fn path() -> impl Strategy<Value = String> {
    select(&PATHS[..]).prop_map(str::to_owned)
}

fn value() -> impl Strategy<Value = Bson> {
    select(vec![
        Bson::from(7),
        Bson::Null,
        Bson::from("$m"),
        Bson::from(Vec::<Bson>::new()),
        Bson::from(vec![Bson::from(doc! { "f": 1 })]),
        Bson::from(doc! { "f": 1 }),
        Bson::from(OLDER),
    ])
}

fn fields() -> impl Strategy<Value = Document> {
    prop::collection::vec((path(), value()), 1..3).prop_map(|all| all.into_iter().collect())
}

fn operators() -> impl Strategy<Value = UpdateModifications> {
    let names = ["$set", "$unset", "$push", "$inc", "$max", "$setOnInsert", "$addToSet"];
    let plain = (select(names.to_vec()), fields()).prop_map(|(name, fields)| doc! { name: fields });
    let rename = (path(), path()).prop_map(|(from, to)| doc! { "$rename": { from: to } });
    prop::collection::vec(prop_oneof![4 => plain, 1 => rename], 1..3)
        .prop_map(|all| UpdateModifications::Document(all.into_iter().flatten().collect()))
}

fn pipeline() -> impl Strategy<Value = UpdateModifications> {
    let stage = prop_oneof![
        fields().prop_map(|fields| doc! { "$set": fields }),
        path().prop_map(|path| doc! { "$unset": path }),
        path().prop_map(|path| doc! { "$project": { path: 1 } }),
        value().prop_map(|value| doc! { "$replaceWith": { "m": value } }),
    ];
    prop::collection::vec(stage, 1..3).prop_map(UpdateModifications::Pipeline)
}

fn update() -> impl Strategy<Value = UpdateModifications> {
    prop_oneof![operators(), pipeline()]
}

/// A stored document, with its `_id`.
fn document() -> impl Strategy<Value = Document> {
    let fields = prop::collection::vec((select(vec!["a", "f", "m", "n"]), value()), 0..3);
    fields.prop_map(|fields| {
        let mut document = doc! { "_id": 1 };
        document.extend(fields.into_iter().map(|(name, value)| (name.to_owned(), value)));
        document
    })
}

/// The value of this field, which may be in a document below.
fn at<'a>(document: &'a Document, field: &str) -> Option<&'a Bson> {
    match field.split_once('.') {
        Some((parent, field)) => document.get_document(parent).ok()?.get(field),
        None => document.get(field),
    }
}

/// Stores the document, and returns it as it is behind the write. The server may refuse the write, and then the
/// document must be as before.
async fn behind(
    work: &Collection<Document>,
    before: &Document,
    write: FencedWrite,
    case: &str,
) -> Option<Document> {
    work.delete_many(doc! {}).await.unwrap();
    work.insert_one(before).await.unwrap();
    let written = write.send(work).await;
    let after = one(work).await;
    if written.is_ok_and(Fenced::is_applied) {
        return Some(after);
    }
    assert_eq!(&after, before, "{case}");
    None
}

/// A document that is stored has the token, and no older token writes after it.
#[tokio::test]
async fn whatever_is_written_the_token_stands_and_none_older_writes() {
    let (_database, work) = work().await;
    // Always the same ones, so a failure can be repeated.
    let mut runner = TestRunner::deterministic();
    let cases = (document(), select(vec!["f", "m.f", "n"]), update(), update());
    let (mut merged, mut applied, mut refused) = (0, 0, 0);
    let rounds = short_or_long(100, 1_000);
    for _ in 0..rounds {
        let (before, field, first, second) = cases.new_tree(&mut runner).unwrap().current();
        let case = format!("{field} in {before}: {first:?}, then {second:?}");
        let Ok(write) = NEWER.fenced_write(field, doc! { "_id": 1 }, first) else { continue };
        merged += 1;
        let Some(after) = behind(&work, &before, write, &case).await else { continue };
        applied += 1;
        assert_eq!(at(&after, field), Some(&stamp(NEWER).into()), "{case}\n{after}");
        if let Ok(late) = OLDER.fenced_write(field, doc! { "_id": 1 }, second) {
            refused += 1;
            assert_eq!(behind(&work, &after, late, &case).await, None, "{case}");
        }
    }
    let is_enough = merged > rounds / 5 && applied > rounds / 10 && refused > rounds / 20;
    assert!(is_enough, "{merged} {applied} {refused}");
}

/// A document that is stored has in its fence what the rule says, where both tokens were of the older holder.
#[tokio::test]
async fn whatever_is_written_both_tokens_stand_as_they_should() {
    let (_database, work) = work().await;
    let mut runner = TestRunner::deterministic();
    let cases = (document(), select(vec!["f", "m.f", "n"]), update(), any::<bool>());
    let (mut of_readers, mut of_writers) = (0, 0);
    let rounds = short_or_long(100, 1_500);
    for _ in 0..rounds {
        let (mut before, field, update, is_reader) = cases.new_tree(&mut runner).unwrap().current();
        let case = format!("{field} in {before}: {update:?}, by a reader: {is_reader}");
        let write = match is_reader {
            true => NEWER.fenced_shared_write(field, doc! { "_id": 1 }, update),
            false => NEWER.fenced_exclusive_write(field, doc! { "_id": 1 }, update),
        };
        let Ok(write) = write else { continue };
        let both = doc! { "seen": OLDER, "exclusive": OLDER };
        match field.split_once('.') {
            Some((parent, field)) => before.insert(parent, doc! { field: both }),
            None => before.insert(field, both),
        };
        let Some(after) = behind(&work, &before, write, &case).await else { continue };
        *(if is_reader { &mut of_readers } else { &mut of_writers }) += 1;
        let exclusive = if is_reader { OLDER } else { NEWER };
        let wanted = doc! { "seen": NEWER, "exclusive": exclusive };
        assert_eq!(at(&after, field), Some(&wanted.into()), "{case}\n{after}");
    }
    let least = rounds / 30;
    assert!(of_readers > least && of_writers > least, "{of_readers} {of_writers}");
}
