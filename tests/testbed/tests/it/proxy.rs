use mongo_lease_testbed::{Proxy, Server, TestDatabase};
use mongodb::bson::{Document, doc};
use mongodb::error::ErrorKind;
use mongodb::options::ClientOptions;

fn without_retries(options: &mut ClientOptions) {
    options.retry_writes = Some(false);
    options.retry_reads = Some(false);
}

/// A proxy of this test's own: what it loses and holds, no other test has sent.
fn before_the_shared_server() -> Proxy {
    let uri = Server::shared().uri();
    let address = uri.trim_start_matches("mongodb://").split('/').next();
    Proxy::start(address.expect("an address"))
}

#[tokio::test]
async fn a_reply_is_lost_after_the_write_is_applied() {
    let proxy = before_the_shared_server();
    let database = TestDatabase::of(&proxy.client_with(without_retries).await);
    let lost = proxy.lose_next_reply("insert");
    assert!(!lost.has_happened());

    let leases = database.collection::<Document>("leases");
    let error = leases.insert_one(doc! { "_id": 1 }).await.unwrap_err();
    assert!(matches!(&*error.kind, ErrorKind::Io(_)), "{error}");
    lost.lost().await;
    // Only one reply was ordered to be lost, and the write it belongs to was applied.
    let document = leases.find_one(doc! { "_id": 1 }).await.unwrap();
    assert_eq!(document, Some(doc! { "_id": 1 }));
}

#[tokio::test]
async fn the_driver_repeats_a_write_whose_reply_was_lost() {
    let server = Server::start();
    let proxy = Proxy::start(server.mongod().address());
    let database = TestDatabase::of(&proxy.client().await);
    let before = server.command_counts().await;
    let lost = proxy.lose_next_reply("insert");
    let leases = database.collection::<Document>("leases");
    leases.insert_one(doc! { "_id": 1 }).await.unwrap();
    lost.lost().await;
    let counts = server.command_counts().await.since(&before);
    let stored = leases.count_documents(doc! {}).await.unwrap();
    assert_eq!((counts.insert, stored), (2, 1));
}

#[tokio::test]
async fn held_replies_are_of_applied_writes_and_arrive_on_release() {
    let proxy = before_the_shared_server();
    let database = TestDatabase::of(&proxy.client().await);
    let direct = database.through(&Server::shared().client().await);
    let hold = proxy.hold_replies_to("insert");
    let leases = database.collection::<Document>("leases");
    let insert = tokio::spawn(async move { leases.insert_one(doc! { "_id": 1 }).await });
    hold.held(1).await;
    let seen = direct.collection::<Document>("leases").count_documents(doc! {}).await.unwrap();
    assert_eq!(seen, 1);
    assert!(!insert.is_finished());
    hold.release();
    insert.await.unwrap().unwrap();
}

#[tokio::test]
async fn of_replies_and_requests_the_next_alone_can_be_held() {
    let proxy = before_the_shared_server();
    let database = TestDatabase::of(&proxy.client().await);
    let insert = |number: i32| {
        let leases = database.collection::<Document>("leases");
        tokio::spawn(async move { leases.insert_one(doc! { "_id": number }).await })
    };
    for number in [1, 3] {
        let hold = match number {
            1 => proxy.hold_next_reply("insert"),
            _ => proxy.hold_next_request("insert"),
        };
        let held = insert(number);
        hold.held(1).await;
        insert(number + 1).await.unwrap().unwrap();
        assert!(!held.is_finished());
        hold.release();
        held.await.unwrap().unwrap();
    }
}

#[tokio::test]
async fn a_held_request_is_applied_later_although_its_client_gave_up() {
    let proxy = before_the_shared_server();
    let client = proxy.client_with(without_retries).await;
    let database = TestDatabase::of(&client);
    let direct = database.through(&Server::shared().client().await);
    let seen = async || direct.collection::<Document>("leases").find_one(doc! {}).await.unwrap();

    let hold = proxy.hold_requests_to("insert");
    let leases = database.collection::<Document>("leases");
    let insert = tokio::spawn(async move { leases.insert_one(doc! { "_id": 1 }).await });
    hold.held(1).await;
    insert.abort();
    client.shutdown().immediate(true).await;
    assert_eq!(seen().await, None);

    let replies = proxy.hold_replies_to("insert");
    hold.release();
    replies.held(1).await;
    assert!(seen().await.is_some());
}

#[tokio::test]
async fn a_request_is_lost_before_the_server_gets_it() {
    let proxy = before_the_shared_server();
    let database = TestDatabase::of(&proxy.client_with(without_retries).await);
    let lost = proxy.lose_next_request("insert");
    let leases = database.collection::<Document>("leases");
    leases.insert_one(doc! { "_id": 1 }).await.unwrap_err();
    lost.lost().await;
    assert_eq!(leases.find_one(doc! {}).await.unwrap(), None);
}

/// The connections that hold the replies wake up at the release, and the cut was ordered before.
#[tokio::test]
async fn held_replies_are_lost_by_a_cut_before_their_release() {
    const HELD: usize = 8;
    let proxy = before_the_shared_server();
    let database = TestDatabase::of(&proxy.client_with(without_retries).await);
    let leases = database.collection::<Document>("leases");
    for round in 0..20 {
        let hold = proxy.hold_replies_to("insert");
        let inserts: Vec<_> = (0..HELD)
            .map(|_| {
                let leases = leases.clone();
                tokio::spawn(async move { leases.insert_one(doc! {}).await })
            })
            .collect();
        hold.held(HELD).await;
        proxy.cut();
        hold.release();
        for insert in inserts {
            insert.await.unwrap().expect_err(&format!("a lost reply, in round {round}"));
        }
    }
}
