//! A client's compressors change no call. They are here because the default build of the driver has none.

use mongo_lease::mongodb::bson::{Document, doc};
use mongo_lease::{Attempt, Fenced, LeaseManager, Released};
use mongo_lease_testbed::{Server, TestDatabase};
use mongodb::{Client, Database};

use crate::soon;

/// The bytes that the server has read in this compressor's messages.
async fn decompressed(server: &Server, compressor: &str) -> i64 {
    let status = server.admin(doc! { "serverStatus": 1 }).await;
    let network = status.get_document("network").unwrap();
    let compression = network.get_document("compression").unwrap();
    let of_this = compression.get_document(compressor).unwrap();
    of_this.get_document("decompressor").unwrap().get_i64("bytesIn").unwrap()
}

#[tokio::test]
async fn no_compressor_changes_what_a_call_means() {
    let server = Server::shared();
    for compressor in ["snappy", "zlib", "zstd"] {
        let before = decompressed(server, compressor).await;
        let database: TestDatabase = server.database().await;
        let with = |uri: &str| format!("{uri}&compressors={compressor}");
        let client = Client::with_uri_str(with(server.uri())).await.unwrap();
        soon(compressor, each_kind_of_command(&client.database(database.name()))).await;
        // The control: the messages were compressed.
        assert!(decompressed(server, compressor).await > before, "{compressor}");
    }
}

/// An acquire, a refusal, a wait with its stream, a renewal, a read, a transaction, a fenced write and a release.
async fn each_kind_of_command(database: &Database) {
    let leases = LeaseManager::builder(database).ensure_indexes(true).build().await.unwrap();
    let lease = leases.acquire("a").await.unwrap();
    assert!(matches!(leases.try_acquire("a").await.unwrap(), Attempt::Busy(_)));
    let waiting = tokio::spawn(leases.acquire("a").into_future());
    while leases.get("a").await.unwrap().unwrap().waiting == 0 {}
    lease.renew().await.unwrap();
    assert_eq!(lease.release().await.unwrap(), Released::Released);
    let next = waiting.await.unwrap().unwrap();

    let documents = database.collection::<Document>("documents");
    let mut tx = next.transaction().await.unwrap();
    documents.insert_one(doc! { "_id": 1 }).session(&mut tx).await.unwrap();
    tx.commit().await.unwrap();
    let update = doc! { "$set": { "by": "us" } };
    let write = next.token().unwrap().fenced_write("fence", doc! { "_id": 1 }, update).unwrap();
    assert_eq!(write.send(&documents).await.unwrap(), Fenced::Applied);
    assert_eq!(next.release().await.unwrap(), Released::Released);
    assert_eq!(leases.shutdown().await.tasks_left, 0);
}
