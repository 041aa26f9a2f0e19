//! Tests as a user of this package writes them. The front page shows them word for word, and `tests/packages/run` runs
//! this file in a package that depends on the testbed, the driver and tokio alone. Imports stand where the page needs
//! them first.

use mongo_lease_testbed::Server;
use mongodb::bson::{Document, doc};

#[tokio::test]
async fn an_order_is_stored() {
    // One server for the process, a database of its own for each test.
    let database = Server::shared().database().await;
    let orders = database.collection::<Document>("orders");
    orders.insert_one(doc! { "_id": 1 }).await.unwrap();
    assert_eq!(orders.count_documents(doc! {}).await.unwrap(), 1);
    // Or leave it: it goes with the server, at the end of the process.
    database.drop_database().await.unwrap();
}

use mongodb::Client;

#[tokio::test]
async fn a_service_commits_a_transaction() {
    let database = Server::shared().database().await;
    let uri = Server::shared().uri_of(database.name());
    // The service under test, which knows nothing but its URI.
    let client = Client::with_uri_str(uri).await.unwrap();
    let orders = client.default_database().unwrap().collection("orders");
    let mut session = client.start_session().await.unwrap();
    session.start_transaction().await.unwrap();
    orders.insert_one(doc! { "_id": 1 }).session(&mut session).await.unwrap();
    session.commit_transaction().await.unwrap();
    // Committed: the test sees it.
    let orders = database.collection::<Document>("orders");
    assert_eq!(orders.count_documents(doc! {}).await.unwrap(), 1);
}

#[tokio::test]
async fn a_change_stream_shows_an_order() {
    let database = Server::shared().database().await;
    let orders = database.collection::<Document>("orders");
    let mut changes = orders.watch().await.unwrap();
    orders.insert_one(doc! { "_id": 1 }).await.unwrap();
    let change = loop {
        if let Some(change) = changes.next_if_any().await.unwrap() {
            break change;
        }
    };
    assert_eq!(change.full_document, Some(doc! { "_id": 1 }));
}

use mongo_lease_testbed::{FailCommand, Proxy};

#[tokio::test]
async fn an_insert_is_repeated_after_a_lost_connection() {
    // A server of its own: its faults hit all of its clients.
    let server = Server::start();
    let orders = server.database().await.collection("orders");
    let fault = FailCommand::on(&["insert"]).times(1).close_connection();
    let guard = fault.enable(server.uri()).await;
    orders.insert_one(doc! { "_id": 1 }).await.unwrap();
    guard.wait_times_entered(1).await;
}

#[tokio::test]
async fn an_order_whose_reply_was_lost_is_stored_once() {
    let server = Server::start();
    let database = server.database().await;
    let proxy = Proxy::start(server.mongod().address());
    let client = Client::with_uri_str(proxy.uri_of(database.name())).await.unwrap();
    let orders = client.default_database().unwrap().collection("orders");
    let loss = proxy.lose_next_reply("insert");
    orders.insert_one(doc! { "_id": 1 }).await.unwrap();
    loss.lost().await;
    let orders = database.collection::<Document>("orders");
    assert_eq!(orders.count_documents(doc! {}).await.unwrap(), 1);
}
