//! The fence of a resource that readers and writers touch: it keeps two tokens.

use mongo_lease::mongodb::Collection;
use mongo_lease::mongodb::bson::{Bson, Document, Timestamp, doc};
use mongo_lease::mongodb::options::UpdateModifications;
use mongo_lease::{Fenced, FencedWrite, Result, Token};
use proptest::prelude::*;
use proptest::sample::select;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;

use super::{assert_refused, one, stamp, work};
use crate::bson_types::of_every_other_type;
use crate::common::setup;

/// The holder that writes.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Who {
    Reader,
    Writer,
}

use Who::{Reader, Writer};

impl Who {
    fn write(self, token: Token, update: impl Into<UpdateModifications>) -> Result<FencedWrite> {
        match self {
            Reader => token.fenced_shared_write("fence", doc! { "_id": 1 }, update),
            Writer => token.fenced_exclusive_write("fence", doc! { "_id": 1 }, update),
        }
    }

    /// Adds one to the document.
    async fn add(self, token: u32, work: &Collection<Document>) -> Fenced {
        self.write(at(token), doc! { "$inc": { "n": 1 } }).unwrap().send(work).await.unwrap()
    }
}

/// The token of a grant in this second.
fn at(seconds: u32) -> Token {
    Token::from(Timestamp { time: 1_700_000_000 + seconds, increment: 1 })
}

async fn fenced() -> (mongo_lease_testbed::TestDatabase, Collection<Document>) {
    let (database, work) = work().await;
    work.insert_one(doc! { "_id": 1, "n": 0 }).await.unwrap();
    (database, work)
}

#[tokio::test]
async fn readers_that_hold_together_do_not_refuse_each_other() {
    let (_database, work) = fenced().await;
    for token in [2, 1, 3, 1, 2] {
        assert_eq!(Reader.add(token, &work).await, Fenced::Applied, "{token}");
    }
    assert_eq!(one(&work).await, doc! { "_id": 1, "n": 5, "fence": { "seen": stamp(at(3)) } });
}

/// The control of the test above: with one token for all, the elder of two readers is refused beside the younger.
#[tokio::test]
async fn with_one_token_readers_would_refuse_each_other() {
    let (_database, work) = fenced().await;
    let add = |token| {
        let update = doc! { "$inc": { "n": 1 } };
        at(token).fenced_write("fence", doc! { "_id": 1 }, update).unwrap().send(&work)
    };
    assert_eq!(add(2).await.unwrap(), Fenced::Applied);
    assert_refused(add(1).await.unwrap(), Some(at(2)));
}

#[tokio::test]
async fn a_reader_of_before_a_writer_is_refused() {
    let (_database, work) = fenced().await;
    assert_eq!(Reader.add(1, &work).await, Fenced::Applied);
    assert_eq!(Writer.add(5, &work).await, Fenced::Applied);
    let both = doc! { "seen": stamp(at(5)), "exclusive": stamp(at(5)) };
    assert_eq!(one(&work).await, doc! { "_id": 1, "n": 2, "fence": both.clone() });
    assert_refused(Reader.add(1, &work).await, Some(at(5)));
    // Also behind a reader that came after the writer.
    assert_eq!(Reader.add(7, &work).await, Fenced::Applied);
    assert_refused(Reader.add(4, &work).await, Some(at(5)));
    assert_eq!(Reader.add(6, &work).await, Fenced::Applied);
    let seen = doc! { "seen": stamp(at(7)), "exclusive": stamp(at(5)) };
    assert_eq!(one(&work).await, doc! { "_id": 1, "n": 4, "fence": seen });
}

#[tokio::test]
async fn a_writer_of_before_a_reader_or_writer_is_refused() {
    let (_database, work) = fenced().await;
    assert_eq!(Reader.add(5, &work).await, Fenced::Applied);
    assert_refused(Writer.add(4, &work).await, Some(at(5)));
    assert_eq!(Writer.add(6, &work).await, Fenced::Applied);
    assert_eq!(Writer.add(6, &work).await, Fenced::Applied);
    assert_refused(Writer.add(5, &work).await, Some(at(6)));
    assert_eq!(one(&work).await.get_i32("n").unwrap(), 3);
}

/// The tokens in a document, by the rule that the page states.
#[derive(Clone, Copy, Debug, Default)]
struct Model {
    seen: u32,
    exclusive: u32,
}

impl Model {
    fn accepts(&mut self, who: Who, token: u32) -> bool {
        let bound = if who == Writer { self.seen } else { self.exclusive };
        if token < bound {
            return false;
        }
        self.seen = self.seen.max(token);
        if who == Writer {
            self.exclusive = token;
        }
        true
    }
}

#[tokio::test]
async fn writes_at_random_are_accepted_by_the_rule() {
    let (_database, work) = fenced().await;
    // Always the same ones, so a failure can be repeated.
    let mut runner = TestRunner::deterministic();
    let writes = prop::collection::vec((select(vec![Reader, Reader, Writer]), 1..9_u32), 1..12);
    let (mut accepted, mut refused, mut with_one_token) = (0, 0, 0);
    for _ in 0..60 {
        let case = writes.new_tree(&mut runner).unwrap().current();
        work.update_one(doc! { "_id": 1 }, doc! { "$unset": { "fence": "" } }).await.unwrap();
        let mut model = Model::default();
        let mut newest = 0;
        for (who, token) in &case {
            let wanted = model.accepts(*who, *token);
            let answer = who.add(*token, &work).await;
            assert_eq!(answer.is_applied(), wanted, "{who:?} {token} of {case:?}");
            *(if wanted { &mut accepted } else { &mut refused }) += 1;
            // A fence with one token would have answered otherwise.
            with_one_token += u32::from(wanted && *token < newest);
            newest = newest.max(*token);
        }
        let fence = one(&work).await.get_document("fence").unwrap().clone();
        let stored = |field| fence.get_timestamp(field).map_or(0, |it| it.time - 1_700_000_000);
        assert_eq!((stored("seen"), stored("exclusive")), (model.seen, model.exclusive));
    }
    assert!(accepted > 100 && refused > 100 && with_one_token > 20, "{accepted} {refused}");
}

#[tokio::test]
async fn a_pipeline_of_either_holder_is_fenced() {
    let (_database, work) = fenced().await;
    let write = |who: Who, token, stages: &[Document]| {
        who.write(at(token), stages.to_vec()).unwrap().send(&work)
    };
    let add = [doc! { "$set": { "n": { "$add": ["$n", 1] } } }];
    assert_eq!(write(Writer, 3, &add).await.unwrap(), Fenced::Applied);
    assert_eq!(write(Reader, 5, &add).await.unwrap(), Fenced::Applied);
    assert_eq!(write(Reader, 4, &add).await.unwrap(), Fenced::Applied);
    assert_refused(write(Reader, 2, &add).await.unwrap(), Some(at(3)));
    assert_refused(write(Writer, 4, &add).await.unwrap(), Some(at(5)));
    let fence = doc! { "seen": stamp(at(5)), "exclusive": stamp(at(3)) };
    assert_eq!(one(&work).await, doc! { "_id": 1, "n": 3, "fence": fence });
    // A list in the field would get the token in each of its elements.
    let replace = [doc! { "$replaceWith": { "fence": [{ "seen": 1 }, {}], "n": 9 } }];
    assert_eq!(write(Writer, 6, &replace).await.unwrap(), Fenced::Applied);
    let fence = doc! { "seen": stamp(at(6)), "exclusive": stamp(at(6)) };
    assert_eq!(one(&work).await, doc! { "_id": 1, "fence": fence, "n": 9 });
}

#[tokio::test]
async fn a_first_write_of_either_holder_inserts_the_document() {
    for (who, stored) in [
        (Reader, doc! { "seen": stamp(at(2)) }),
        (Writer, doc! { "seen": stamp(at(2)), "exclusive": stamp(at(2)) }),
    ] {
        let (_database, work) = work().await;
        let write = |token| who.write(at(token), doc! { "$set": { "a": 1 } }).unwrap().send(&work);
        assert_eq!(write(2).upsert(true).await.unwrap(), Fenced::Applied);
        assert_eq!(one(&work).await, doc! { "_id": 1, "fence": stored, "a": 1 });
        if who == Writer {
            assert_refused(write(1).upsert(true).await.unwrap(), Some(at(2)));
        }
        assert_eq!(work.count_documents(doc! {}).await.unwrap(), 1);
    }
}

/// Also the token of a fence with one: nobody knows whether it was a reader's.
#[tokio::test]
async fn a_field_that_is_no_fence_of_two_refuses_every_write() {
    let (_database, work) = work().await;
    let mut values: Vec<Bson> = vec![stamp(at(1)).into(), Bson::Null];
    let others: Vec<Bson> = of_every_other_type().into_iter().map(|(_, value)| value).collect();
    values.extend(others.iter().filter(|it| it.as_document().is_none()).cloned());
    for value in others {
        // Servers before 8.0 treat the deprecated type `undefined` as null.
        let is_none = matches!(value, Bson::Null | Bson::Undefined | Bson::Timestamp(_));
        if !is_none {
            values.push(doc! { "seen": value.clone() }.into());
            values.push(doc! { "exclusive": value }.into());
        }
    }
    values.push(vec![doc! { "seen": stamp(at(1)), "exclusive": stamp(at(1)) }].into());
    values.push(doc! { "seen": [stamp(at(1))] }.into());
    for value in values {
        work.delete_many(doc! {}).await.unwrap();
        work.insert_one(doc! { "_id": 1, "n": 0, "fence": value.clone() }).await.unwrap();
        let before = one(&work).await;
        for who in [Reader, Writer] {
            let answer = who.add(9, &work).await;
            assert!(matches!(answer, Fenced::Refused { seen: None, .. }), "{who:?}: {value:?}");
        }
        // As text: some values are not equal to themselves.
        assert_eq!(format!("{:?}", one(&work).await), format!("{before:?}"));
    }
}

/// Real readers and writers, with the tokens of their leases.
#[tokio::test]
async fn readers_and_writers_of_a_lease_are_fenced() {
    let (database, leases) = setup().await;
    let work = database.collection("work");
    work.insert_one(doc! { "_id": 1, "n": 0 }).await.unwrap();
    let add = async |who: Who, token: Token| {
        let add = doc! { "$inc": { "n": 1 } };
        who.write(token, add).unwrap().send(&work).await.unwrap().is_applied()
    };
    let first = leases.acquire("doc").await.unwrap();
    let first_token = first.token().unwrap();
    assert!(add(Writer, first_token).await);
    first.release().await.unwrap();

    let older = leases.acquire("doc").shared().await.unwrap();
    let newer = leases.acquire("doc").shared().await.unwrap();
    let [older_token, newer_token] = [&older, &newer].map(|lease| lease.token().unwrap());
    assert!(older_token > first_token && newer_token > older_token);
    assert!(add(Reader, newer_token).await && add(Reader, older_token).await);
    assert!(!add(Writer, first_token).await, "a writer of before them");
    older.release().await.unwrap();
    newer.release().await.unwrap();

    let second = leases.acquire("doc").await.unwrap();
    assert!(add(Writer, second.token().unwrap()).await);
    for late in [older_token, newer_token] {
        assert!(!add(Reader, late).await, "a reader of before it");
    }
    assert_eq!(one(&work).await.get_i32("n").unwrap(), 4);
}

/// As the page says: nothing in a token tells how many permits there are.
#[tokio::test]
async fn a_token_does_not_enforce_the_limit_of_a_semaphore() {
    let (database, leases) = setup().await;
    let work = database.collection("work");
    work.insert_one(doc! { "_id": 1, "n": 0 }).await.unwrap();
    let api = leases.semaphore("tenant:7", 2);
    let ended = api.acquire().permits(2).await.unwrap();
    let ended_token = ended.token().unwrap();
    ended.release().await.unwrap();
    let holds = api.acquire().permits(2).await.unwrap();
    for token in [holds.token().unwrap(), ended_token] {
        let write = Reader.write(token, doc! { "$inc": { "n": 1 } }).unwrap();
        assert_eq!(write.send(&work).await.unwrap(), Fenced::Applied);
    }
}
