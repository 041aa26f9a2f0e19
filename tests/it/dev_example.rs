//! `examples/dev.rs` starts a server that is set up for leases, and the README's first example runs against it.

use std::fs;
use std::path::Path;

use mongo_lease::LeaseManager;
use mongo_lease::mongodb::bson::{Document, doc};
use mongo_lease::mongodb::{Client, Database};
use mongo_lease_testbed::{LineProcess, command};

use crate::examples::example;

/// Starts it with these options, and returns the connection string that it prints.
async fn started(options: &[&str]) -> (LineProcess, String) {
    let mut dev = command(example("dev"));
    dev.args(options);
    let mut dev = LineProcess::start(dev).expect("`cargo test` builds it");
    let line = dev.line().await.expect("the connection string");
    let uri = line.strip_prefix("export MONGODB_URI='").and_then(|it| it.strip_suffix('\''));
    let uri = uri.unwrap_or_else(|| panic!("not a line for a shell: {line}")).to_owned();
    (dev, uri)
}

async fn database_of(uri: &str) -> Database {
    let client = Client::with_uri_str(uri).await.expect("a connection string");
    client.default_database().expect("it names a database")
}

#[cfg(unix)]
#[tokio::test]
async fn dev_starts_a_server_for_leases_at_its_port_and_ends_at_a_signal() {
    use rustix::process::Signal;

    let (dev, uri) = started(&["--db", "orders"]).await;
    let database = database_of(&uri).await;
    assert_eq!(database.name(), "orders");
    let leases = LeaseManager::builder(&database).build().await.expect("it is set up");
    leases.acquire("a").await.expect("a lease").release().await.expect("an answer");
    leases.shutdown().await;

    let port = uri.split([':', '/']).find(|part| part.parse::<u16>().is_ok()).expect("a port");
    let mut second = command(example("dev"));
    second.args(["--port", port]);
    let ended = LineProcess::start(second).expect("`cargo test` builds it").ended().await;
    let ended = ended.expect("it ends");
    assert!(!ended.status.success() && ended.errors.contains("is in use"), "{ended:?}");

    dev.signal(Signal::INT).expect("it runs");
    let ended = dev.ended().await.expect("it ends");
    assert!(ended.status.success(), "{ended:?}");
}

#[tokio::test]
async fn dev_ends_by_itself_when_its_time_is_over() {
    let (dev, _uri) = started(&["--seconds", "1"]).await;
    let ended = dev.ended().await.expect("it ends");
    assert!(ended.status.success(), "{ended:?}");
}

#[tokio::test]
async fn the_readmes_first_example_runs_against_dev() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let readme = fs::read_to_string(root.join("README.md")).unwrap();
    let code = fs::read_to_string(root.join("examples/invoice.rs")).unwrap();
    let (_, code) = code.split_once("\n\nuse ").expect("code below the head");
    let (_, first) = readme.split_once("```rust,no_run\n").expect("an example");
    let shown = first.split_once("```\n").expect("its end").0;
    assert_eq!(shown, format!("use {code}"), "examples/invoice.rs is another one");

    let (_dev, uri) = started(&[]).await;
    let mut invoice = command(example("invoice"));
    invoice.env("MONGODB_URI", &uri);
    let ended = LineProcess::start(invoice).expect("`cargo test` builds it").ended().await;
    let ended = ended.expect("it ends");
    assert!(ended.status.success() && ended.output.contains("invoice 42 is paid"), "{ended:?}");
    let payments = database_of(&uri).await.collection::<Document>("payments");
    assert_eq!(payments.count_documents(doc! { "invoice": 42 }).await.unwrap(), 1);
}
