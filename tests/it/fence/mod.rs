//! Fenced writes: the whole write, and its result.

mod at_random;
mod parts;
mod shared;
mod upsert;

use mongo_lease::mongodb::Collection;
use mongo_lease::mongodb::bson::{Bson, Document, Timestamp, doc};
use mongo_lease::mongodb::error::{ErrorKind, WriteFailure};
use mongo_lease::{Error, Fenced, FencedWrite, Token};
use mongo_lease_testbed::{Server, TestDatabase};

use crate::blocked::transaction;
use crate::bson_types::of_every_other_type;

// The whole number counts, seconds before ordinals, also in the upper half of the range.
const OLDER: Token = Token::from_u64(4_000_000_000 << 32 | 9);
const NEWER: Token = Token::from_u64(4_000_000_001 << 32 | 1);

async fn work() -> (TestDatabase, Collection<Document>) {
    let database = Server::shared().database().await;
    let work = database.collection("work");
    (database, work)
}

/// The same, with this document.
async fn work_on(document: Document) -> (TestDatabase, Collection<Document>) {
    let (database, work) = work().await;
    work.insert_one(document).await.unwrap();
    (database, work)
}

/// Writes the writer's name into the document with the `_id` 1.
fn by(token: Token, who: &str) -> FencedWrite {
    token.fenced_write("fence", doc! { "_id": 1 }, doc! { "$set": { "by": who } }).unwrap()
}

async fn one(work: &Collection<Document>) -> Document {
    work.find_one(doc! { "_id": 1 }).await.unwrap().expect("a document")
}

fn stamp(token: Token) -> Timestamp {
    token.into()
}

/// Asserts that the answer is a refusal because of this token.
fn assert_refused(answer: Fenced, by: Option<Token>) {
    match answer {
        Fenced::Refused { seen, .. } => assert_eq!(seen, by),
        other => panic!("{other:?}"),
    }
}

/// The code of the error with which the server refused this statement.
fn write_error(error: &Error) -> Option<i32> {
    let Error::MongoDb(error) = error else { return None };
    match error.kind.as_ref() {
        ErrorKind::Write(WriteFailure::WriteError(error)) => Some(error.code),
        _ => None,
    }
}

#[tokio::test]
async fn a_write_is_applied_refused_or_finds_no_document() {
    let (_database, work) = work().await;
    assert_eq!(by(OLDER, "nobody").send(&work).await.unwrap(), Fenced::NoSuchDocument);
    work.insert_one(doc! { "_id": 1 }).await.unwrap();

    assert_eq!(by(OLDER, "first").send(&work).await.unwrap(), Fenced::Applied);
    assert_eq!(one(&work).await, doc! { "_id": 1, "by": "first", "fence": stamp(OLDER) });
    assert_eq!(by(OLDER, "first again").send(&work).await.unwrap(), Fenced::Applied);
    assert_eq!(by(NEWER, "next").send(&work).await.unwrap(), Fenced::Applied);
    assert_refused(by(OLDER, "late").send(&work).await.unwrap(), Some(NEWER));
    assert_eq!(one(&work).await, doc! { "_id": 1, "by": "next", "fence": stamp(NEWER) });
    work.update_one(doc! { "_id": 1 }, doc! { "$set": { "fence": null } }).await.unwrap();
    assert_eq!(by(OLDER, "behind null").send(&work).await.unwrap(), Fenced::Applied);
}

/// The filter is the caller's alone: a document that it does not match is no refusal, whatever the fence contains.
#[tokio::test]
async fn a_document_that_the_filter_misses_is_no_refusal() {
    let (_database, work) = work_on(doc! { "_id": 1, "open": false, "fence": stamp(NEWER) }).await;
    let write = |filter| OLDER.fenced_write("fence", filter, doc! { "$set": { "a": 1 } }).unwrap();

    let missed = write(doc! { "_id": 1, "open": true }).send(&work).await.unwrap();
    assert_eq!(missed, Fenced::NoSuchDocument);
    let missed = write(doc! { "_id": 1, "open": true }).send(&work).upsert(true).await.unwrap();
    assert_eq!(missed, Fenced::NoSuchDocument);
    // The filter's own `$or` and `$and` are kept.
    let missed = write(doc! { "_id": 1, "$or": [{ "open": true }], "$and": [{ "_id": 1 }] });
    assert_eq!(missed.send(&work).await.unwrap(), Fenced::NoSuchDocument);
    let refused = write(doc! { "_id": 1, "$or": [{ "open": false }], "$and": [{ "_id": 1 }] });
    assert_refused(refused.send(&work).await.unwrap(), Some(NEWER));
}

#[tokio::test]
async fn the_fence_holds_in_a_transaction_and_a_refusal_keeps_it_open() {
    let (database, work) = work_on(doc! { "_id": 1, "fence": stamp(OLDER) }).await;
    let mut session = transaction(&database).await;
    let answer = by(NEWER, "aborted").send(&work).session(&mut session).await.unwrap();
    assert_eq!(answer, Fenced::Applied);
    session.abort_transaction().await.unwrap();
    assert_eq!(one(&work).await, doc! { "_id": 1, "fence": stamp(OLDER) });

    session.start_transaction().await.unwrap();
    let answer = by(NEWER, "next").send(&work).session(&mut session).await.unwrap();
    assert_eq!(answer, Fenced::Applied);
    assert_refused(by(OLDER, "late").send(&work).session(&mut session).await.unwrap(), Some(NEWER));
    let other = OLDER.fenced_write("fence", doc! { "_id": 2 }, doc! { "$set": { "a": 1 } });
    let answer = other.unwrap().send(&work).session(&mut session).await.unwrap();
    assert_eq!(answer, Fenced::NoSuchDocument);
    session.commit_transaction().await.unwrap();
    assert_eq!(one(&work).await, doc! { "_id": 1, "fence": stamp(NEWER), "by": "next" });
}

#[tokio::test]
async fn a_value_that_is_no_token_refuses_every_write() {
    let (_database, work) = work().await;
    // Servers before 8.0 treat the deprecated type `undefined` as null.
    let types = of_every_other_type().into_iter().filter(|(name, _)| *name != "undefined");
    let arrays = [
        ("array of an older token", Bson::from(vec![Bson::from(OLDER)])),
        ("array of null", Bson::from(vec![Bson::Null])),
    ];
    for (name, value) in types.chain(arrays) {
        work.delete_many(doc! {}).await.unwrap();
        work.insert_one(doc! { "_id": 1, "fence": value.clone() }).await.unwrap();
        let before = one(&work).await;
        let seen = (name == "timestamp").then(|| Token::from_u64(u64::MAX));
        assert_refused(by(NEWER, name).send(&work).await.unwrap(), seen);
        // As text: some values are not equal to themselves.
        assert_eq!(format!("{:?}", one(&work).await), format!("{before:?}"), "{name}");
    }
}

#[tokio::test]
async fn a_dotted_field_is_fenced_and_a_list_on_its_way_refuses() {
    let (_database, work) = work_on(doc! { "_id": 1 }).await;
    let write = |token: Token| {
        let filter = doc! { "_id": 1 };
        token.fenced_write("meta.fence", filter, vec![doc! { "$set": { "a": 1 } }]).unwrap()
    };
    assert_eq!(write(NEWER).send(&work).await.unwrap(), Fenced::Applied);
    assert_refused(write(OLDER).send(&work).await.unwrap(), Some(NEWER));
    let expected = doc! { "_id": 1, "a": 1, "meta": { "fence": stamp(NEWER) } };
    assert_eq!(one(&work).await, expected);

    let list = doc! { "meta": [{ "fence": stamp(NEWER) }, {}] };
    work.update_one(doc! { "_id": 1 }, doc! { "$set": list }).await.unwrap();
    // One element without a token does not permit the write.
    assert_refused(write(OLDER).send(&work).await.unwrap(), None);
}
