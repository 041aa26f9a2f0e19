//! The fence of a resource that readers and writers touch: it keeps two tokens.

use mongo_lease::mongodb::Collection;
use mongo_lease::mongodb::bson::{Bson, Document, Timestamp, doc};
use mongo_lease::mongodb::options::UpdateModifications;
use mongo_lease::{Fenced, FencedWrite, Result, Token};
use proptest::prelude::*;
use proptest::sample::select;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;

use super::{assert_refused, one, stamp, work, work_on};
use crate::bson_types::of_every_other_type;
use crate::common::short_or_long;

/// The holder that writes.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Who {
    Reader,
    Writer,
    /// A holder whose fence has one token, as that of an exclusive lease alone.
    OneForAll,
}

use Who::{OneForAll, Reader, Writer};

impl Who {
    fn write(self, token: Token, update: impl Into<UpdateModifications>) -> Result<FencedWrite> {
        match self {
            Reader => token.fenced_shared_write("fence", doc! { "_id": 1 }, update),
            Writer => token.fenced_exclusive_write("fence", doc! { "_id": 1 }, update),
            OneForAll => token.fenced_write("fence", doc! { "_id": 1 }, update),
        }
    }

    async fn add(self, token: u32, work: &Collection<Document>) -> Fenced {
        self.write(at(token), add()).unwrap().send(work).await.unwrap()
    }
}

/// The token of a grant in this second.
fn at(seconds: u32) -> Token {
    Token::from(Timestamp { time: 1_700_000_000 + seconds, increment: 1 })
}

fn add() -> Document {
    doc! { "$inc": { "n": 1 } }
}

/// Sends these writes, with the tokens of grants in these seconds, and asserts that each is applied or refused because
/// of the token of a second. Returns the document behind them, which begins with the number 0.
async fn behind(
    update: impl Into<UpdateModifications>,
    writes: &[(Who, u32, Option<u32>)],
) -> Document {
    let update = update.into();
    let (_database, work) = work_on(doc! { "_id": 1, "n": 0 }).await;
    for &(who, token, refused_by) in writes {
        let write = who.write(at(token), update.clone()).unwrap();
        let seen = match write.send(&work).await.unwrap() {
            Fenced::Applied => None,
            Fenced::Refused { seen, .. } => Some(seen),
            other => panic!("{who:?} {token}: {other:?}"),
        };
        assert_eq!(seen, refused_by.map(|by| Some(at(by))), "{who:?} {token} of {writes:?}");
    }
    one(&work).await
}

#[tokio::test]
async fn readers_that_hold_together_do_not_refuse_each_other() {
    let document = behind(add(), &[2, 1, 3, 1, 2].map(|token| (Reader, token, None))).await;
    assert_eq!(document, doc! { "_id": 1, "n": 5, "fence": { "seen": stamp(at(3)) } });
    // The control: with one token for all, the elder of two readers is refused beside the younger.
    behind(add(), &[(OneForAll, 2, None), (OneForAll, 1, Some(2))]).await;
}

#[tokio::test]
async fn a_reader_of_before_a_writer_is_refused() {
    let writes = [
        (Reader, 1, None),
        (Writer, 5, None),
        (Reader, 1, Some(5)),
        // Also behind a reader that came after the writer.
        (Reader, 7, None),
        (Reader, 4, Some(5)),
        (Reader, 6, None),
    ];
    let fence = doc! { "seen": stamp(at(7)), "exclusive": stamp(at(5)) };
    assert_eq!(behind(add(), &writes).await, doc! { "_id": 1, "n": 4, "fence": fence });
}

#[tokio::test]
async fn a_writer_of_before_a_reader_or_writer_is_refused() {
    let writes = [
        (Reader, 5, None),
        (Writer, 4, Some(5)),
        (Writer, 6, None),
        (Writer, 6, None),
        (Writer, 5, Some(6)),
    ];
    let fence = doc! { "seen": stamp(at(6)), "exclusive": stamp(at(6)) };
    assert_eq!(behind(add(), &writes).await, doc! { "_id": 1, "n": 3, "fence": fence });
}

/// Otherwise a list in the field would get the token in each of its elements.
#[tokio::test]
async fn a_list_that_a_pipeline_stores_makes_way_for_the_fence() {
    let replace = vec![doc! { "$replaceWith": { "fence": [{ "seen": 1 }, {}], "n": 9 } }];
    let document = behind(replace, &[(Writer, 6, None)]).await;
    let fence = doc! { "seen": stamp(at(6)), "exclusive": stamp(at(6)) };
    assert_eq!(document, doc! { "_id": 1, "fence": fence, "n": 9 });
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
    let (_database, work) = work_on(doc! { "_id": 1, "n": 0 }).await;
    // Always the same ones, so a failure can be repeated.
    let mut runner = TestRunner::deterministic();
    let writes = prop::collection::vec((select(vec![Reader, Reader, Writer]), 1..9_u32), 1..12);
    let (mut accepted, mut refused, mut with_one_token) = (0, 0, 0);
    let cases = short_or_long(30, 300);
    for _ in 0..cases {
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
    let is_enough = accepted > cases && refused > cases && with_one_token > cases / 3;
    assert!(is_enough, "{accepted} {refused} {with_one_token}");
}

#[tokio::test]
async fn an_upsert_inserts_once_and_is_refused_by_a_newer_token() {
    let of_writer = doc! { "seen": stamp(at(2)), "exclusive": stamp(at(2)) };
    let cases: [(Who, Bson); 3] = [
        (OneForAll, stamp(at(2)).into()),
        (Reader, doc! { "seen": stamp(at(2)) }.into()),
        (Writer, of_writer.into()),
    ];
    for (who, stored) in cases {
        let (_database, work) = work().await;
        let write = |token, a: i32| {
            let write = who.write(at(token), doc! { "$set": { "a": a } }).unwrap();
            write.send(&work).upsert(true)
        };
        for a in [1, 2] {
            assert_eq!(write(2, a).await.unwrap(), Fenced::Applied, "{who:?}");
            assert_eq!(one(&work).await, doc! { "_id": 1, "fence": stored.clone(), "a": a });
        }
        if who != Reader {
            assert_refused(write(1, 3).await.unwrap(), Some(at(2)));
        }
        assert_eq!(work.count_documents(doc! {}).await.unwrap(), 1);
    }
}

/// Also the token of a fence with one: nobody knows whether it was a reader's.
#[tokio::test]
async fn a_field_that_is_no_fence_of_two_refuses_every_write() {
    let (_database, work) = work().await;
    let both = doc! { "seen": stamp(at(1)), "exclusive": stamp(at(1)) };
    let mut values: Vec<Bson> = vec![stamp(at(1)).into(), Bson::Null, vec![both].into()];
    values.push(doc! { "seen": [stamp(at(1))] }.into());
    for (name, value) in of_every_other_type() {
        // Servers before 8.0 treat the deprecated type `undefined` as null.
        if !["timestamp", "undefined"].contains(&name) {
            values.push(doc! { "seen": value.clone() }.into());
            values.push(doc! { "exclusive": value.clone() }.into());
        }
        if name != "object" {
            values.push(value);
        }
    }
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
