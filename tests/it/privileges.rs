//! The least privileges that suffice, as the README names them: tried by a user who has exactly these.

use mongo_lease::mongodb::bson::{Bson, Document, doc};
use mongo_lease::mongodb::options::{ClientOptions, Credential};
use mongo_lease::mongodb::{Client, Database};
use mongo_lease::{Attempt, Error, LeaseManager, Released};
use mongo_lease_testbed::Server;

use crate::common::migrated;

const PASSWORD: &str = "hunter2-correct-horse";

#[tokio::test]
async fn five_privileges_on_the_collection_suffice() {
    let server = server_with_users().await;
    let database = log_in(&server, "worker").await;
    let leases = LeaseManager::builder(&database).build().await.expect("a manager");

    let lease = leases.acquire("a").await.expect("a lease");
    assert!(matches!(leases.try_acquire("a").await, Ok(Attempt::Busy(_))));
    lease.renew().await.expect("a renewal");
    assert!(leases.get("a").await.expect("a look").is_some());
    let mut listed = std::pin::pin!(leases.list().stream().expect("a listing"));
    let first = futures_util::TryStreamExt::try_next(&mut listed).await.expect("a page");
    assert_eq!(first.expect("one lease").name, "a");
    assert_eq!(lease.release().await.expect("a release"), Released::Released);
    assert!(leases.shutdown().await.left_to_expire.is_empty());
}

#[tokio::test]
async fn without_listing_indexes_a_manager_is_built_only_by_saying_so() {
    let server = server_with_users().await;
    let database = log_in(&server, "blind").await;
    let refused = LeaseManager::builder(&database).build().await;
    let message = refused.expect_err("built without looking").to_string();
    assert!(message.contains("listIndexes"), "{message}");

    let leases = LeaseManager::builder(&database).assume_indexes(true).build().await;
    let leases = leases.expect("a manager");
    let lease = leases.acquire("a").await.expect("a lease");
    assert_eq!(lease.release().await.expect("a release"), Released::Released);
}

#[tokio::test]
async fn who_only_looks_needs_to_read_and_no_more() {
    let server = server_with_users().await;
    let database = log_in(&server, "worker").await;
    let leases = LeaseManager::builder(&database).build().await.expect("a manager");
    let lease = leases.acquire("a").await.expect("a lease");

    let builder = LeaseManager::builder(&log_in(&server, "reader").await);
    let refused = builder.clone().assume_indexes(true).build().await;
    let message = refused.expect_err("built for writing").to_string();
    assert!(message.contains("not authorized"), "{message}");
    let looking = builder.read_only(true).build().await.expect("a manager that looks");
    let seen = looking.get("a").await.expect("a look").expect("it is held");
    assert_eq!(seen.value.as_deref(), Some(lease.value()));
    let mut listed = std::pin::pin!(looking.list().stream().expect("a listing"));
    let first = futures_util::TryStreamExt::try_next(&mut listed).await.expect("a page");
    assert_eq!(first.expect("one lease").name, "a");
    looking.ping().await.expect("a sign of life");
    assert_eq!(looking.shutdown().await.tasks_left, 0);
}

#[tokio::test]
async fn who_only_looks_is_refused_everything_that_writes_before_it_is_sent() {
    let database = migrated(Server::shared()).await;
    let leases = LeaseManager::builder(&database).build().await.expect("a manager");
    let lease = leases.acquire("a").await.expect("a lease");
    let value = lease.value().to_owned();
    let key = lease.detach();

    // Its user may write: it is the manager that does not.
    let looking = LeaseManager::builder(&database).read_only(true).build().await.expect("a look");
    let is_refused = |what: &str, error: Option<Error>| {
        let error = error.unwrap_or_else(|| panic!("{what} was not refused"));
        let is_named = matches!(error, Error::InvalidOption { option: "read_only", .. });
        assert!(is_named, "{what}: {error:?}");
    };
    is_refused("acquire", looking.acquire("b").await.err());
    is_refused("try_acquire", looking.try_acquire("b").await.err());
    is_refused("resume", looking.resume(key).await.err());
    is_refused("release", looking.release("a", &value).await.err());
    is_refused("force_release", looking.force_release("a", &value).await.err());
    assert!(leases.get("a").await.expect("a look").is_some(), "it was released all the same");
    assert!(leases.get("b").await.expect("a look").is_none(), "it was granted all the same");

    // What is not set up is told to who may look at the indexes.
    let bare = Server::shared().database().await;
    let error = LeaseManager::builder(&bare).read_only(true).build().await.err();
    assert!(matches!(error, Some(Error::NotMigrated { .. })), "{error:?}");
}

#[tokio::test]
async fn what_is_not_allowed_is_named_and_not_quoted() {
    let server = server_with_users().await;
    let database = log_in(&server, "worker").await;
    let leases = LeaseManager::builder(&database).build().await.expect("a manager");
    let lease = leases.acquire("a").await.expect("a lease");
    let admin = log_in(&server, "root").await;
    let resource = doc! { "db": admin.name(), "collection": "locks" };
    let update = doc! { "resource": resource, "actions": ["update"] };
    let revoke = doc! { "revokePrivilegesFromRole": "worker", "privileges": [update] };
    admin.run_command(revoke).await.expect("it is taken away");
    let message = lease.renew().await.expect_err("renewed all the same").to_string();
    assert!(message.contains("not authorized on billing to execute command"), "{message}");
    assert!(!message.contains(lease.value()), "the value releases the lease: {message}");
    assert!(!message.contains('{'), "{message}");
}

#[tokio::test]
async fn no_password_is_shown() {
    let server = server_with_users().await;
    let database = log_in(&server, "worker").await;
    let leases = LeaseManager::builder(&database).build().await.expect("a manager");
    let lease = leases.acquire("a").await.expect("a lease");
    for shown in
        [format!("{leases:?}"), format!("{lease:?}"), format!("{:?}", leases.get("a").await)]
    {
        assert!(!shown.contains(PASSWORD), "{shown}");
    }
    lease.release().await.expect("a release");

    // A user who may not write, and one who does not exist.
    for (name, password) in [("reader", PASSWORD), ("worker", "hunter2-wrong")] {
        let database = connect(&server, name, password).await;
        let error = LeaseManager::builder(&database).build().await.expect_err("let in");
        let is_refusal = matches!(error, Error::MongoDb(_) | Error::MissingPrivilege { .. });
        assert!(is_refusal, "{error:?}");
        let shown = format!("{error} {error:?}");
        assert!(!shown.contains(password), "{shown}");
    }
}

/// A server with a migrated collection and users who may do this and that.
async fn server_with_users() -> Server {
    let server = Server::builder().standalone().argument("--auth").start();
    // The server lets the first user be made from its own machine.
    let root = doc! { "createUser": "root", "pwd": PASSWORD, "roles": ["root"] };
    let client = Client::with_uri_str(server.uri()).await.expect("a client");
    client.database("admin").run_command(root).await.expect("the first user");

    let admin = log_in(&server, "root").await;
    LeaseManager::builder(&admin).ensure_indexes().await.expect("the indexes");
    let all = ["find", "insert", "update", "remove", "listIndexes"];
    for (name, actions) in [("worker", &all[..]), ("blind", &all[..4]), ("reader", &all[..1])] {
        make_user(&admin, name, actions).await;
    }
    server
}

async fn make_user(admin: &Database, name: &str, actions: &[&str]) {
    let actions: Vec<Bson> = actions.iter().map(|action| Bson::from(*action)).collect();
    let privilege =
        doc! { "resource": { "db": admin.name(), "collection": "locks" }, "actions": actions };
    let role: Document = doc! { "createRole": name, "privileges": [privilege], "roles": [] };
    admin.run_command(role).await.expect("a role");
    let user = doc! { "createUser": name, "pwd": PASSWORD, "roles": [name] };
    admin.run_command(user).await.expect("a user");
}

async fn log_in(server: &Server, name: &str) -> Database {
    connect(server, name, PASSWORD).await
}

async fn connect(server: &Server, name: &str, password: &str) -> Database {
    let mut options = ClientOptions::parse(server.uri()).await.expect("an address");
    let source = if name == "root" { "admin" } else { "billing" };
    options.credential = Some(
        Credential::builder()
            .username(name.to_owned())
            .password(password.to_owned())
            .source(source.to_owned())
            .build(),
    );
    Client::with_options(options).expect("a client").database("billing")
}
