//! Each handle shows its name and its lease in a log, and not the value with which the lease could be released.

use std::fmt::Debug;
use std::time::Duration;

use mongo_lease::mongodb::bson::{Document, doc};
use mongo_lease::mongodb::options::{ClientOptions, ServerAddress};
use mongo_lease::mongodb::{Client, Collection};
use mongo_lease::{LeaseManager, MemoryStore};

use super::manager;

/// No command is sent to it.
fn orders() -> Collection<Document> {
    let address = ServerAddress::Tcp { host: "localhost".to_owned(), port: Some(1) };
    let options = ClientOptions::builder().hosts(vec![address]).build();
    Client::with_options(options).unwrap().database("shop").collection("orders")
}

#[tokio::test(start_paused = true)]
async fn a_handle_is_shown_by_its_name_and_without_its_value() {
    let store = MemoryStore::new();
    let leases = manager(&store).await;
    let lease = leases.acquire("invoice:42").value("secret").await.unwrap();
    let set = leases.acquire_all(["invoice:43", "invoice:44"]).await.unwrap();
    let set_total = doc! { "$set": { "total": 1 } };
    let token = lease.token().unwrap();
    let write = token.fenced_write("fence", doc! { "_id": 7 }, set_total).unwrap();
    let write = write.send(&orders());
    let hang = store.hang();
    let call = leases.acquire("invoice:45").value("secret").wait(Duration::from_secs(7));
    let shown: [(&str, &str, &dyn Debug); 8] = [
        ("MemoryStore", "now", &store),
        ("LeaseManagerBuilder", "locks", &LeaseManager::in_memory(&store)),
        ("LeaseManager", "locks", &leases),
        ("Acquire", "invoice:45", &call),
        ("Lease", "invoice:42", &lease),
        ("", "invoice:44", &set),
        ("", "orders", &write),
        ("MemoryHang", "", &hang),
    ];
    for (name, part, shown) in shown {
        let shown = format!("{shown:?}");
        assert!(shown.contains(name) && shown.contains(part) && !shown.is_empty(), "{shown}");
        assert!(!shown.contains("secret"), "{shown}");
    }
}
