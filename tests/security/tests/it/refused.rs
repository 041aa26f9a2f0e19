//! A refused client learns the reason within the time limit, and leaves nothing in the database.

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use mongo_lease::mongodb::Client;
use mongo_lease::mongodb::bson::{Document, doc};
use mongo_lease::mongodb::error::ErrorKind;
use mongo_lease::mongodb::options::{ClientOptions, Tls, TlsOptions};
use mongo_lease::{Error, LeaseManager, Tuning};
use mongo_lease_security::Authority;
use mongo_lease_testbed::TestDatabase;

use super::{PASSWORD, server, set_up};

/// How long the driver searches for a server before it reports why there is none.
const SELECTION: Duration = Duration::from_secs(2);
/// The time limit of one attempt. `build` has two of them.
const ATTEMPT: Duration = Duration::from_secs(3);
/// Tolerance beyond the promise, for a busy machine.
const LATE: Duration = Duration::from_secs(30);

/// The error of a manager over a client with these options. One that assumes the indexes is refused as well.
///
/// Both are built at the same time, because each waits until the driver gives up its search.
async fn refused(
    database: &TestDatabase,
    password: &str,
    change: impl FnOnce(&mut ClientOptions),
) -> Error {
    let uri = server().uri_as(database.name(), password);
    let mut options = ClientOptions::parse(uri).await.unwrap();
    options.server_selection_timeout = Some(SELECTION);
    change(&mut options);
    let outside = database.through(&Client::with_options(options).unwrap());
    let builder =
        || LeaseManager::builder(&outside).tuning(Tuning::default().attempt_timeout(ATTEMPT));
    let started = Instant::now();
    let (built, assuming) = tokio::join!(builder().build(), builder().assume_indexes(true).build());
    let error = built.expect_err("a manager was built");
    assert!(started.elapsed() < ATTEMPT * 2 + LATE, "{:?}", started.elapsed());
    assert!(assuming.is_err(), "a manager that assumes the indexes was built");
    let shown = format!("{error} {error:?}");
    assert!(!shown.contains(password), "{shown}");
    let locks = database.collection::<Document>("locks");
    assert_eq!(locks.count_documents(doc! {}).await.unwrap(), 0);
    error
}

#[tokio::test]
async fn a_client_that_does_not_trust_the_authority_is_told_so() {
    let database = set_up().await;
    // It trusts another authority, of the same name.
    let file = std::env::temp_dir().join(format!("{}.pem", database.name()));
    std::fs::write(&file, Authority::new().certificate()).unwrap();
    let another = TlsOptions::builder().ca_file_path(file.clone()).build();
    let refused = [another, TlsOptions::default()]
        .map(|tls| refused(&database, PASSWORD, |options| options.tls = Some(Tls::Enabled(tls))));
    for error in join_all(refused).await {
        let message = error.to_string();
        let address = server().mongod().address();
        let named = format!("cannot connect to {address} (invalid peer certificate: ");
        assert!(message.contains(&named), "{message}");
        assert!(!message.contains("Topology"), "{message}");
    }
    std::fs::remove_file(&file).unwrap();
}

#[tokio::test]
async fn a_client_that_speaks_plain_text_is_refused() {
    let database = set_up().await;
    let plain = |options: &mut ClientOptions| options.tls = Some(Tls::Disabled);
    let error = refused(&database, PASSWORD, plain).await;
    let message = error.to_string();
    assert!(message.starts_with("the database is out of reach: cannot connect to "), "{message}");
    assert!(!message.contains("Topology"), "{message}");
}

#[tokio::test]
async fn a_wrong_password_is_named_as_such_at_once() {
    let database = set_up().await;
    let error = refused(&database, "wrong-battery-staple", |_| ()).await;
    let Error::MongoDb(source) = &error else { panic!("{error:?}") };
    assert!(matches!(source.kind.as_ref(), ErrorKind::Authentication { .. }), "{error:?}");
    let refused = "the database refuses the login: SCRAM failure: Authentication failed.";
    assert_eq!(error.to_string(), refused);
}

#[tokio::test]
async fn who_does_not_log_in_may_do_nothing() {
    let database = set_up().await;
    let error = refused(&database, PASSWORD, |options| options.credential = None).await;
    assert!(
        matches!(&error, Error::MissingPrivilege { privilege: "listIndexes", .. }),
        "{error:?}"
    );
}
