//! The write concern of fenced writes, and the member that their query reads.

use mongo_lease::mongodb::bson::{Document, doc};
use mongo_lease::mongodb::options::{
    Acknowledgment, CollectionOptions, UpdateOptions, WriteConcern,
};
use mongo_lease_testbed::{Server, TestDatabase};

use super::{NEWER, by};
use crate::spy::Spy;

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
    let commands = spy.commands();
    assert_eq!(commands.len(), 1, "an applied write is one command: {commands:?}");
    assert_eq!(concern(&commands[0].1), doc! { "w": "majority", "j": true });

    let options = UpdateOptions::builder().write_concern(one()).build();
    assert!(by(NEWER, "b").send(&work).with_options(options).await.unwrap().is_applied());
    assert_eq!(concern(&spy.commands()[0].1), doc! { "w": 1 });
    database.drop_database().await.unwrap();
}
