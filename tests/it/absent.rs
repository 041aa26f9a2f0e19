//! A server that is not there: `build()` names the addresses and the reason, and never dumps the driver's topology.

use std::net::TcpListener;
use std::time::{Duration, Instant};

use mongo_lease::mongodb::Client;
use mongo_lease::mongodb::error::ErrorKind;
use mongo_lease::mongodb::options::{ClientOptions, ServerAddress};
use mongo_lease::{Error, LeaseManager, LeaseManagerBuilder, Tuning};
use tokio::time::timeout;

use crate::common::short_or_long;
use crate::patience::PATIENCE;

/// A builder for these addresses, with this server selection timeout; `None` is the driver's default.
async fn builder(addresses: &[ServerAddress], search: Option<Duration>) -> LeaseManagerBuilder {
    let uri = "mongodb://root:hunter2-correct-horse@127.0.0.1:1/?authSource=admin";
    let mut options = ClientOptions::parse(uri).await.expect("options");
    options.hosts = addresses.to_vec();
    options.server_selection_timeout = search;
    LeaseManager::builder(&Client::with_options(options).expect("a client").database("app"))
}

/// Two addresses without a server: no test server listens below port 1,024.
fn nobody() -> [ServerAddress; 2] {
    [1, 2].map(|port| ServerAddress::Tcp { host: "127.0.0.1".to_owned(), port: Some(port) })
}

/// The error of a build that ends after this time, and not before.
async fn refusal(builder: LeaseManagerBuilder, after: Duration) -> Error {
    let started = Instant::now();
    let built = timeout(after + PATIENCE, builder.build()).await.expect("it ends");
    let error = built.expect_err("a manager was built");
    assert!(started.elapsed() >= after, "{:?}", started.elapsed());
    let message = error.to_string();
    for dumped in ["Topology", "{", "labels", "hunter2"] {
        assert!(!message.contains(dumped), "{message}");
    }
    // `fn main() -> Result<()>` prints it so.
    assert_eq!(format!("{error:?}"), message);
    error
}

fn assert_names_both(error: &Error) {
    let message = error.to_string();
    let (head, servers) = message.split_once("cannot connect to ").expect("the servers");
    assert_eq!(head, "the database is out of reach: ");
    let mut servers: Vec<&str> = servers.split(", ").collect();
    servers.sort_unstable();
    let refused = ["127.0.0.1:1 (Connection refused)", "127.0.0.1:2 (Connection refused)"];
    assert_eq!(servers, refused);
    let Error::MongoDb(source) = error else { panic!("{error:?}") };
    assert!(matches!(source.kind.as_ref(), ErrorKind::ServerSelection { .. }), "{error:?}");
}

#[tokio::test]
async fn build_names_the_addresses_and_why_each_one_failed() {
    let short_search = Duration::from_millis(500);
    let short = builder(&nobody(), Some(short_search)).await;
    let one_slot = short.clone().tuning(Tuning::default().max_in_flight(1)).assume_indexes(true);
    // The driver's default takes half a minute.
    let default = (builder(&nobody(), None).await, Duration::from_secs(30));
    let cases = [(short, short_search), (one_slot, short_search)];
    for (builder, search) in cases.into_iter().chain(short_or_long(None, Some(default))) {
        assert_names_both(&refusal(builder, search.saturating_sub(Duration::from_secs(1))).await);
    }
}

#[tokio::test]
async fn build_ends_at_its_deadline_while_the_driver_still_searches() {
    let deadline = Duration::from_millis(700);
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = Some(listener.local_addr().expect("an address").port());
    // It accepts connections, and never answers.
    let silent = [ServerAddress::Tcp { host: "127.0.0.1".to_owned(), port }];
    let builder = builder(&silent, Some(Duration::from_secs(600))).await;
    let error = refusal(builder.build_timeout(deadline), deadline).await;
    assert_eq!(
        error.to_string(),
        "the outcome is unknown: the database did not answer within 700ms (`build_timeout`)"
    );
}
