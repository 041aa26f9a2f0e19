//! Fenced upserts: never a second document, and never an older token over a newer.

use mongo_lease::mongodb::bson::{Bson, Document, doc};
use mongo_lease::mongodb::options::{
    Collation, CollationStrength, CreateCollectionOptions, IndexOptions, UpdateModifications,
    UpdateOptions,
};
use mongo_lease::mongodb::{Collection, IndexModel};
use mongo_lease::{Error, Fenced, Token};
use mongo_lease_testbed::{Server, Version};
use tokio::task::JoinSet;

use super::{NEWER, OLDER, assert_refused, one, stamp, work, work_on, write_error};
use crate::patience::soon;

/// Each round begins without a document, and eight tasks upsert it at once. In any order, the newest is applied and
/// stays, and no caller sees the duplicate key errors.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_eight_that_upsert_at_once_the_newest_wins() {
    let (_database, work) = work().await;
    let mut refused = 0;
    for round in 0..30 {
        let mut writers = JoinSet::new();
        for ordinal in 1..=8_u32 {
            let work = work.clone();
            writers.spawn(async move {
                let update = doc! { "$set": { "by": ordinal } };
                let token = Token::from_u64(ordinal.into());
                let write = token.fenced_write("fence", doc! { "_id": round }, update).unwrap();
                (ordinal, write.send(&work).upsert(true).await.unwrap())
            });
        }
        while let Some(written) = soon("a writer", writers.join_next()).await {
            match written.unwrap() {
                (_, Fenced::Applied) => {}
                (ordinal, Fenced::Refused { seen, .. }) => {
                    assert!(seen.unwrap().as_u64() > u64::from(ordinal));
                    refused += 1;
                }
                (ordinal, other) => panic!("{ordinal}: {other:?}"),
            }
        }
        let document = work.find_one(doc! { "_id": round }).await.unwrap().unwrap();
        assert_eq!(document.get("by"), Some(&Bson::from(8_u32)));
        assert_eq!(document.get_timestamp("fence").unwrap().increment, 8);
    }
    assert_eq!(work.count_documents(doc! {}).await.unwrap(), 30);
    assert!(refused > 0, "they did not meet");
}

#[tokio::test]
async fn a_duplicate_key_of_another_index_is_the_callers() {
    let (_database, work) = work().await;
    // Its name begins like that of the index on `_id`.
    let options = IndexOptions::builder().unique(true).name("_id_ of invoices".to_owned()).build();
    let index = IndexModel::builder().keys(doc! { "number": 1 }).options(options).build();
    work.create_index(index).await.unwrap();
    work.insert_one(doc! { "_id": 2, "number": "_id_ dup key" }).await.unwrap();
    let number = doc! { "$set": { "number": "_id_ dup key" } };
    let write = NEWER.fenced_write("fence", doc! { "_id": 1 }, number).unwrap();
    let error = write.clone().send(&work).upsert(true).await.unwrap_err();
    assert_eq!(write_error(&error), Some(11_000), "an insert");
    assert_eq!(work.count_documents(doc! {}).await.unwrap(), 1);
    work.insert_one(doc! { "_id": 1, "number": 5 }).await.unwrap();
    let error = write.send(&work).await.unwrap_err();
    assert_eq!(write_error(&error), Some(11_000), "an update");
    assert_eq!(one(&work).await, doc! { "_id": 1, "number": 5 });
}

/// With either, the server's duplicate key error is different.
#[tokio::test]
async fn stale_upserts_are_refused_with_collation_and_clustered_index() {
    let (database, _) = work().await;
    let strength = CollationStrength::Secondary;
    let collation = Collation::builder().locale("en").strength(strength).build();
    let collated = CreateCollectionOptions::builder().collation(collation).build();
    database.create_collection("collated").with_options(collated).await.unwrap();
    let clustered =
        doc! { "create": "clustered", "clusteredIndex": { "key": { "_id": 1 }, "unique": true } };
    let version = Server::shared().version().await;
    if version < Version::new(5, 3) {
        eprintln!("MongoDB {version} has no clustered collections: a plain one is written to");
        database.run_command(clustered).await.expect_err("a server before 5.3 refuses");
    } else {
        database.run_command(clustered).await.unwrap();
    }
    for name in ["collated", "clustered"] {
        let work: Collection<Document> = database.collection(name);
        let write = |token: Token| {
            let update = doc! { "$set": { "by": token.to_string() } };
            token.fenced_write("fence", doc! { "_id": "a" }, update).unwrap().send(&work)
        };
        assert_eq!(write(NEWER).upsert(true).await.unwrap(), Fenced::Applied, "{name}");
        assert_refused(write(OLDER).upsert(true).await.unwrap(), Some(NEWER));
    }
}

/// Otherwise the inserted document would be another than the fenced one.
#[tokio::test]
async fn an_upsert_inserts_no_other_id_than_the_filters() {
    let (_database, work) = work_on(doc! { "_id": 1, "fence": stamp(NEWER) }).await;
    let updates: [UpdateModifications; 3] = [
        vec![doc! { "$set": { "_id": 2 } }].into(),
        vec![doc! { "$replaceWith": { "_id": 2 } }].into(),
        doc! { "$set": { "_id": 2 } }.into(),
    ];
    for update in updates {
        let write = OLDER.fenced_write("fence", doc! { "_id": 1 }, update).unwrap();
        let answer = write.send(&work).upsert(true).await;
        assert!(!answer.is_ok_and(Fenced::is_applied));
        assert_eq!(work.count_documents(doc! {}).await.unwrap(), 1);
    }
}

#[tokio::test]
async fn an_upsert_that_cannot_be_fenced_is_not_sent() {
    let (database, work) = work().await;
    let write = |filter: Document| {
        OLDER.fenced_write("fence", filter, doc! { "$set": { "a": 1 } }).unwrap().send(&work)
    };
    let collation = Collation::builder().locale("en").build();
    let collated = UpdateOptions::builder().collation(collation).build();
    let mut session = database.client().start_session().await.unwrap();
    let upserts = [
        write(doc! { "number": 1 }),
        write(doc! { "_id": { "$in": [1] } }),
        write(doc! { "_id": 1, "fence": null }),
        write(doc! { "_id": 1 }).with_options(collated),
        write(doc! { "_id": 1 }).session(&mut session),
    ];
    for upsert in upserts {
        let error = upsert.upsert(true).await.unwrap_err();
        assert!(matches!(error, Error::InvalidOption { option: "upsert", .. }), "{error}");
    }
    assert_eq!(work.count_documents(doc! {}).await.unwrap(), 0);
}
