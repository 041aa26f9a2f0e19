//! Everything that a user may be shown, for the test in `logs`: no output contains a password, be it an error, a
//! `Debug`, an event, or a line of the log.

use std::collections::BTreeSet;
use std::fmt::{Debug, Display};
use std::time::Duration;

use mongo_lease::mongodb::error::Error as DriverError;
use mongo_lease::mongodb::options::ClientOptions;
use mongo_lease::mongodb::{Client, Database};
use mongo_lease::{Error, LeaseManager, LeaseManagerBuilder, Tuning};
use mongo_lease_testbed::{FailCommand, TestDatabase};

use crate::patience::Listener;
use crate::users::{self, PASSWORD, all_but, migrated, user_who_may};

const WRONG_PASSWORD: &str = "hunter2-wrong-donkey";
/// The fault is for clients of this name alone: the server is shared.
const FAULTY: &str = "mongo-lease-faulty";

/// All texts that were shown, and the secrets that must not be in the log either.
#[derive(Default)]
pub(crate) struct Shown {
    /// The texts, each with its source.
    texts: Vec<(String, String)>,
    /// The variants of `Error` that were seen, with a driver's error in them.
    variants: Vec<&'static str>,
    /// The values of the leases.
    pub(crate) values: Vec<String>,
}

impl Shown {
    fn debug(&mut self, what: &str, shown: &impl Debug) {
        self.texts.push((what.to_owned(), format!("{shown:?} {shown:#?}")));
    }

    fn error(&mut self, error: &Error) {
        let variant = match error {
            Error::WaitTimeout { source: Some(_), .. } => "WaitTimeout",
            Error::MissingPrivilege { .. } => "MissingPrivilege",
            Error::Unknown { source: Some(_), .. } => "Unknown",
            Error::CommitUnknown { source: Some(_), .. } => "CommitUnknown",
            Error::MongoDb(_) => "MongoDb",
            other => panic!("{other:?}"),
        };
        self.variants.push(variant);
        self.debug(variant, error);
        self.display(variant, error);
        // As an error report prints it, cause by cause.
        let mut cause = std::error::Error::source(error);
        while let Some(deeper) = cause {
            self.display(variant, deeper);
            self.debug(variant, &deeper);
            cause = deeper.source();
        }
        self.display("the driver's", &DriverError::from(error.clone()));
    }

    fn display(&mut self, what: &str, shown: &(impl Display + ?Sized)) {
        self.texts.push((what.to_owned(), shown.to_string()));
    }

    /// Asserts it of each error that can have one of the driver's in it, and of every `Debug`.
    pub(crate) fn assert_no_text_has_a_password(&self) {
        for (what, text) in &self.texts {
            assert_hidden(what, text);
        }
        let seen: BTreeSet<&str> = self.variants.iter().copied().collect();
        assert_eq!(Vec::from_iter(seen), variants_with_an_error_of_the_drivers());
    }
}

pub(crate) fn assert_hidden(what: &str, shown: &str) {
    for word in [PASSWORD, WRONG_PASSWORD, "hunter2"] {
        assert!(!shown.contains(word), "{what}: {shown}");
    }
}

/// Read from the source, so that a later variant is not forgotten here.
fn variants_with_an_error_of_the_drivers() -> Vec<String> {
    let source = include_str!("../../src/error/mod.rs");
    let (_, list) = source.split_once("pub enum Error {").expect("the errors");
    let (list, _) = list.split_once("\n}\n").expect("their end");
    let mut variants = Vec::new();
    let mut current = "";
    for line in list.lines().map(str::trim) {
        if line.starts_with(|first: char| first.is_ascii_uppercase()) {
            current = line.split([' ', '(', ',']).next().unwrap();
        }
        if line.contains("mongodb::error::Error") || line.contains("Box<Error>") {
            variants.push(current.to_owned());
        }
    }
    variants.sort_unstable();
    variants
}

/// Makes everything go wrong that can, and collects all texts.
pub(crate) async fn everything_shown() -> Shown {
    let mut shown = Shown::default();
    let database = migrated().await;
    let user = user_who_may(&database, &all_but("changeStream")).await;
    handles(&mut shown, &LeaseManager::builder(&user).owner("test")).await;
    refusals(&mut shown, &database).await;
    refused_writes(&mut shown).await;
    doubts(&mut shown, &database).await;
    shown
}

/// Every value of the crate that a user has.
async fn handles(shown: &mut Shown, builder: &LeaseManagerBuilder) {
    shown.debug("the builder", builder);
    let leases = builder.clone().build().await.expect("a manager");
    shown.debug("the manager", &leases);
    shown.debug("a call", &leases.acquire("a").value("a value of my own"));
    let mut events = Listener::of(&leases);
    let lease = leases.acquire("a").await.expect("a lease");
    shown.values.push(lease.value().to_owned());
    shown.debug("the lease", &lease);
    shown.debug("a look", &leases.get("a").await);
    shown.debug("busy", &leases.try_acquire("a").await);
    // This user may not open a change stream.
    let own = tokio::spawn(leases.acquire("a").into_future());
    shown.debug("polling", &events.polling().await);
    lease.release().await.expect("a release");
    let lease = own.await.unwrap().expect("a lease");
    shown.values.push(lease.value().to_owned());
    let key = lease.detach().await.unwrap();
    shown.debug("a key", &key);
    let lease = leases.resume(key).await.expect("it is held");
    lease.release().await.expect("a release");
    shown.debug("events", &events.so_far());
    shown.debug("the end", &leases.shutdown().await);
    shown.debug("a shut-down manager's answer", &leases.acquire("a").await);
}

fn impatient() -> Tuning {
    Tuning::default().attempt_timeout(Duration::from_secs(1))
}

/// Refusals of the server and of the driver.
async fn refusals(shown: &mut Shown, database: &TestDatabase) {
    for actions in [all_but("listIndexes"), vec!["find", "listIndexes"]] {
        let database = migrated().await;
        let user = user_who_may(&database, &actions).await;
        shown.error(&LeaseManager::builder(&user).build().await.expect_err("a manager"));
    }
    // A wrong password, and an address without a server.
    let uri = users::server().uri_as(database.name(), WRONG_PASSWORD);
    let nobody = format!("mongodb://root:{PASSWORD}@127.0.0.1:1/?serverSelectionTimeoutMS=100");
    for uri in [uri, nobody] {
        let database = open(&uri, database, None).await;
        let builder = LeaseManager::builder(&database).tuning(impatient());
        shown.error(&builder.build().await.expect_err("a manager"));
    }
    // Invalid addresses concern only the program and the driver.
    let uri = format!("mongodb://root:{PASSWORD}@127.0.0.1:port/");
    shown.display("an address", &ClientOptions::parse(uri).await.expect_err("options"));
}

/// Refusals that a holder gets: the server repeats the command, with the lease's value in it.
async fn refused_writes(shown: &mut Shown) {
    let database = migrated().await;
    let user = user_who_may(&database, &all_but("remove")).await;
    let builder = LeaseManager::builder(&user).shutdown_timeout(Duration::from_secs(2));
    let leases = builder.build().await.expect("a manager");
    let lease = leases.acquire("a").await.expect("a lease");
    shown.values.push(lease.value().to_owned());
    shown.error(&lease.release().await.expect_err("a release"));
    // And in the background, where only the log reports it.
    let lease = leases.acquire("b").await.expect("a lease");
    shown.values.push(lease.value().to_owned());
    drop(lease);
    shown.debug("the end", &leases.shutdown().await);
}

/// Commands without an answer.
async fn doubts(shown: &mut Shown, database: &TestDatabase) {
    let uri = users::server().uri_as(database.name(), PASSWORD);
    let faulty = open(&uri, database, Some(FAULTY)).await;
    let builder = LeaseManager::builder(&faulty).tuning(impatient());
    let builder = builder.release_timeout(Duration::from_secs(1));
    let leases = builder.shutdown_timeout(Duration::from_secs(1)).build().await.unwrap();
    let mut events = Listener::of(&leases);
    let lease = leases.acquire("doubt").ttl(Duration::from_secs(6)).await.unwrap();
    shown.values.push(lease.value().to_owned());
    // It is committed, and that nobody knows: an open transaction would block the lease.
    const MAX_TIME_MS_EXPIRED: i32 = 50;
    let fault = FailCommand::on(&["commitTransaction"]).app_name(FAULTY);
    let fault = fault.write_concern_error(MAX_TIME_MS_EXPIRED);
    let guard = fault.enable(users::server().uri_as("root", PASSWORD)).await;
    let transaction = lease.transaction().await.expect("a transaction");
    shown.error(&transaction.commit().await.expect_err("an answer"));
    guard.disable().await;
    let commands = ["findAndModify", "update", "delete"];
    let fault = FailCommand::on(&commands).app_name(FAULTY).close_connection();
    let guard = fault.enable(users::server().uri_as("root", PASSWORD)).await;
    let failed = leases.acquire("other").wait(Duration::from_millis(500)).await;
    shown.error(&failed.expect_err("a lease"));
    let failed = events.find(|event| {
        matches!(event, mongo_lease::Event::RenewalFailed { .. }).then(|| event.clone())
    });
    shown.debug("a renewal that failed", &failed.await);
    shown.error(&leases.try_acquire("other").await.expect_err("an answer"));
    shown.debug("a release", &lease.release().await);
    shown.debug("the end", &leases.shutdown().await);
    guard.disable().await;
}

/// The database by another address, over a client of this name.
async fn open(uri: &str, database: &TestDatabase, name: Option<&str>) -> Database {
    let mut options = ClientOptions::parse(uri).await.expect("options");
    options.app_name = name.map(str::to_owned);
    let client = Client::with_options(options).expect("a client");
    database.through(&client)
}
