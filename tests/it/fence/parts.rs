//! The merged pair in the driver's own actions, and the caller's own options.

use mongo_lease::Fenced;
use mongo_lease::mongodb::bson::{Document, doc};
use mongo_lease::mongodb::options::{
    Acknowledgment, CollectionOptions, Hint, ReturnDocument, UpdateModifications, UpdateOptions,
    WriteConcern,
};
use mongo_lease_testbed::{Server, TestDatabase};

use super::{NEWER, OLDER, assert_refused, by, one, stamp, work_on};
use crate::spy::Spy;

/// In bulk as statements of an `update`: this server's version does not have the command of a bulk write yet.
#[tokio::test]
async fn the_pair_fences_in_the_drivers_own_actions() {
    let (database, work) = work_on(doc! { "_id": 1 }).await;
    let (filter, update) = by(NEWER, "next").into_parts();
    let find = work.find_one_and_update(filter, update).return_document(ReturnDocument::After);
    let expected = doc! { "_id": 1, "by": "next", "fence": stamp(NEWER) };
    assert_eq!(find.await.unwrap(), Some(expected));
    let (filter, update) = by(OLDER, "late").into_parts();
    assert_eq!(work.find_one_and_update(filter, update).await.unwrap(), None);

    let statements = [(OLDER, "late"), (NEWER, "next again")].map(|(token, who)| {
        let (filter, update) = by(token, who).into_parts();
        let UpdateModifications::Document(update) = update else { panic!("{update:?}") };
        doc! { "q": filter, "u": update }
    });
    let command = doc! { "update": "work", "updates": statements.to_vec() };
    assert_eq!(database.run_command(command).await.unwrap().get_i32("n").unwrap(), 1);
    let expected = doc! { "_id": 1, "by": "next again", "fence": stamp(NEWER) };
    assert_eq!(one(&work).await, expected);

    // A condition that is added keeps the fence.
    let (mut filter, update) = by(OLDER, "late").into_parts();
    filter.insert("$or", vec![doc! { "_id": 1 }]);
    assert_eq!(work.update_one(filter, update).await.unwrap().matched_count, 0);
}

#[tokio::test]
async fn array_filters_variables_and_hints_are_the_callers() {
    let (_database, work) = work_on(doc! { "_id": 1, "items": [{ "n": 1 }, { "n": 5 }] }).await;
    let filter = doc! { "_id": 1, "$expr": { "$eq": ["$_id", "$$one"] } };
    let options = || {
        UpdateOptions::builder()
            .array_filters(vec![doc! { "e.n": { "$gte": 5 } }])
            .let_vars(doc! { "one": 1 })
            .hint(Hint::Keys(doc! { "_id": 1 }))
            .build()
    };
    let update = doc! { "$inc": { "items.$[e].n": 1 } };
    let write = NEWER.fenced_write("fence", filter.clone(), update.clone()).unwrap();
    assert_eq!(write.send(&work).with_options(options()).await.unwrap(), Fenced::Applied);
    // The query behind a write that matched nothing uses them too, as far as they concern it.
    let late = OLDER.fenced_write("fence", filter, update).unwrap();
    assert_refused(late.send(&work).with_options(options()).await.unwrap(), Some(NEWER));
    // The position that the caller's own filter matches.
    let at = doc! { "_id": 1, "items.n": 6 };
    let write = NEWER.fenced_write("fence", at, doc! { "$set": { "items.$.n": 7 } }).unwrap();
    assert_eq!(write.send(&work).await.unwrap(), Fenced::Applied);
    let items = [doc! { "n": 1 }, doc! { "n": 7 }].to_vec();
    assert_eq!(one(&work).await, doc! { "_id": 1, "items": items, "fence": stamp(NEWER) });
}

#[tokio::test]
async fn a_majority_acknowledges_unless_the_call_says_otherwise() {
    let (client, spy) = Spy::client(Server::shared()).await;
    let database = TestDatabase::of(&client);
    let one = || WriteConcern::builder().w(Acknowledgment::Nodes(1)).build();
    let options = CollectionOptions::builder().write_concern(one()).build();
    let work = database.collection_with_options::<Document>("work", options);
    work.insert_one(doc! { "_id": 1 }).await.unwrap();
    let _inserted = spy.commands();

    assert!(by(NEWER, "a").send(&work).await.unwrap().is_applied());
    let concern = |command: &Document| command.get_document("writeConcern").cloned().unwrap();
    assert_eq!(concern(&spy.commands()[0].1), doc! { "w": "majority", "j": true });

    let options = UpdateOptions::builder().write_concern(one()).build();
    assert!(by(NEWER, "b").send(&work).with_options(options).await.unwrap().is_applied());
    assert_eq!(concern(&spy.commands()[0].1), doc! { "w": 1 });
    database.drop_database().await.unwrap();
}
