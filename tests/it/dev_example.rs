//! `examples/dev.rs` starts a server that is set up for leases.

use mongo_lease::LeaseManager;
use mongo_lease::mongodb::Client;
use mongo_lease_testbed::{LineProcess, command};

use crate::fencing_example::example;

#[cfg(unix)]
#[tokio::test]
async fn dev_starts_a_server_for_leases_and_ends_at_a_signal() {
    use rustix::process::Signal;

    let mut dev = LineProcess::start(command(example("dev"))).expect("`cargo test` builds it");
    let line = dev.line().await.expect("the connection string");
    let uri = line.strip_prefix("export MONGODB_URI='").and_then(|it| it.strip_suffix('\''));
    let uri = uri.unwrap_or_else(|| panic!("not a line for a shell: {line}"));
    let client = Client::with_uri_str(uri).await.expect("a connection string");
    let database = client.default_database().expect("it names a database");
    let leases = LeaseManager::builder(&database).build().await.expect("it is set up");
    leases.acquire("a").await.expect("a lease").release().await.expect("an answer");
    leases.shutdown().await;
    dev.signal(Signal::INT).expect("it runs");
    let ended = dev.ended().await.expect("it ends");
    assert!(ended.status.success(), "{ended:?}");
}

#[tokio::test]
async fn dev_ends_by_itself_when_its_time_is_over() {
    let mut dev = command(example("dev"));
    dev.arg("1");
    let ended = LineProcess::start(dev).expect("`cargo test` builds it").ended().await;
    let ended = ended.expect("it ends");
    assert!(ended.status.success() && ended.output.contains("MONGODB_URI"), "{ended:?}");
}
