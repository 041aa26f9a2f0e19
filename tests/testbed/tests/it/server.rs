use std::time::Duration;

use mongo_lease_testbed::{FailCommand, FailPoint, Server, command};
use mongodb::bson::{Document, doc};
use mongodb::error::ErrorKind;
use mongodb::options::ClientOptions;

#[tokio::test]
async fn the_shared_server_is_a_primary_and_databases_are_apart() {
    let hello = Server::shared().admin(doc! { "hello": 1 }).await;
    assert!(hello.get_bool("isWritablePrimary").unwrap());
    let first = Server::shared().database().await;
    let second = Server::shared().database().await;
    assert_ne!(first.name(), second.name());
    assert!(first.name().starts_with("mongo_lease_test_"));
    first.collection("c").insert_one(doc! { "_id": 1 }).await.unwrap();
    let unseen = second.collection::<Document>("c").find_one(doc! {}).await.unwrap();
    assert_eq!(unseen, None);
    first.drop_database().await.unwrap();
}

/// Runs the test above in another process, with these variables.
fn runs_with(variables: &[(&str, &str)]) {
    let test = "server::the_shared_server_is_a_primary_and_databases_are_apart";
    let mut program = command(std::env::current_exe().unwrap());
    program.args(["--exact", test]).env_remove("MONGO_LEASE_TESTBED_URI");
    let ran = program.envs(variables.iter().copied()).output().unwrap();
    let said = String::from_utf8_lossy(&ran.stdout);
    assert!(ran.status.success() && said.contains("1 passed"), "{said}");
}

#[test]
fn the_variable_of_a_service_under_test_is_not_ours() {
    // Nobody listens there. A developer may have the address of production in it.
    runs_with(&[("MONGODB_URI", "mongodb://127.0.0.1:1/?serverSelectionTimeoutMS=500")]);
}

#[tokio::test]
async fn the_shared_server_can_be_one_that_runs_already() {
    let server = Server::start();
    let before = server.command_counts().await;
    runs_with(&[("MONGO_LEASE_TESTBED_URI", server.uri())]);
    assert_eq!(server.command_counts().await.since(&before).insert, 1);
}

#[tokio::test]
async fn a_server_that_ran_already_is_used_and_not_stopped() {
    let server = Server::shared();
    let ran_already = Server::at(server.uri());
    let database = ran_already.database().await;
    database.collection("c").insert_one(doc! { "_id": 1 }).await.unwrap();
    let refused = std::panic::catch_unwind(|| ran_already.mongod().kill()).unwrap_err();
    let message = refused.downcast_ref::<String>().unwrap();
    assert!(message.contains("not ours to stop"), "{message}");
    drop(ran_already);
    let seen = server.client().await.database(database.name());
    assert_eq!(seen.collection::<Document>("c").count_documents(doc! {}).await.unwrap(), 1);
}

#[test]
fn a_missing_server_is_told_of_by_each_start() {
    if std::env::var("MONGO_LEASE_MONGOD").as_deref() != Ok("no/such/mongod") {
        let mut program = command(std::env::current_exe().unwrap());
        program.args(["--exact", "server::a_missing_server_is_told_of_by_each_start"]);
        program.env_remove("MONGO_LEASE_TESTBED_URI").env("MONGO_LEASE_MONGOD", "no/such/mongod");
        let ran = program.output().unwrap();
        let said = String::from_utf8_lossy(&ran.stdout);
        assert!(ran.status.success() && said.contains("1 passed"), "{said}");
        return;
    }
    let shared = std::panic::catch_unwind(|| Server::shared().uri()).unwrap_err();
    let shared = *shared.downcast::<String>().unwrap();
    for message in [shared, Server::try_start().unwrap_err().to_string()] {
        assert!(message.contains("MONGO_LEASE_MONGOD is no/such/mongod"), "{message}");
    }
}

#[tokio::test]
async fn a_standalone_server_is_in_no_replica_set() {
    let hello = Server::shared_standalone().admin(doc! { "hello": 1 }).await;
    assert_eq!(hello.get("setName"), None);
    assert!(hello.get_bool("isWritablePrimary").unwrap());
}

#[tokio::test]
async fn a_uri_names_a_database_whatever_its_name_is() {
    let uri = Server::shared_standalone().uri_of("bücher-1_a");
    assert!(uri.contains("cher-1_a?"), "{uri}");
    let read = ClientOptions::parse(&uri).await.unwrap();
    assert_eq!(read.default_database.as_deref(), Some("bücher-1_a"));
    assert_eq!(read.direct_connection, Some(true), "the options stay: {uri}");
}

#[test]
fn parameters_and_arguments_reach_the_server_without_a_runtime() {
    let builder = Server::builder().ttl_monitor_sleep_secs(7);
    let server = builder.parameter("cursorTimeoutMillis", 4321).argument("--quiet").start();
    let parameters = doc! { "getParameter": 1, "ttlMonitorSleepSecs": 1, "cursorTimeoutMillis": 1 };
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let values = runtime.block_on(server.admin(parameters));
    assert_eq!(values.get_i32("ttlMonitorSleepSecs").unwrap(), 7);
    assert!(values.to_string().contains("4321"), "{values}");
}

#[test]
fn a_port_can_be_chosen_and_is_refused_while_it_is_in_use() {
    let server = Server::start();
    let port = server.mongod().port();
    let refused = Server::builder().port(port).try_start().unwrap_err().to_string();
    assert!(refused.contains(&format!("port {port} is in use")), "{refused}");
    drop(server);
    assert_eq!(Server::builder().port(port).start().mongod().port(), port);
}

#[test]
fn a_server_that_cannot_start_shows_the_reason_at_once() {
    let refused = Server::builder().parameter("noSuchParameter", 1).try_start();
    let message = refused.unwrap_err().to_string();
    assert!(message.contains("noSuchParameter"), "{message}");
}

#[tokio::test]
async fn commands_are_counted() {
    let server = Server::start();
    let database = server.database().await;
    let leases = database.collection::<Document>("leases");
    leases.insert_one(doc! { "_id": 0 }).await.unwrap();
    let before = server.command_counts().await;
    leases.insert_one(doc! { "_id": 1 }).await.unwrap();
    leases.find_one_and_update(doc! {}, doc! { "$set": { "a": 1 } }).await.unwrap();
    leases.delete_one(doc! { "_id": 1 }).await.unwrap();
    leases.delete_one(doc! { "_id": 1 }).await.unwrap();
    for _ in 0..20 {
        leases.find_one(doc! {}).await.unwrap();
    }
    let counts = server.command_counts().await.since(&before);
    let writes = (counts.insert, counts.find_and_modify, counts.delete, counts.update);
    assert_eq!(writes, (1, 1, 2, 0));
    // A primary that is new has some of its own.
    assert!((20..30).contains(&counts.find), "{counts:?}");
    assert_eq!((counts.get_more, counts.aggregate), (0, 0));
}

#[tokio::test]
async fn a_fail_point_hits_the_named_client_and_ends_with_its_guard() {
    let server = Server::start();
    let victim = server.client_with(|options| options.app_name = Some("victim".into())).await;
    let other = server.client().await;
    let ping = doc! { "ping": 1 };

    let fault = FailCommand::on(&["ping"]).error_code(2).app_name("victim");
    let guard = fault.enable(server.uri()).await;
    let refused = victim.database("admin").run_command(ping.clone()).await.unwrap_err();
    assert!(matches!(&*refused.kind, ErrorKind::Command(error) if error.code == 2), "{refused}");
    other.database("admin").run_command(ping.clone()).await.unwrap();
    guard.wait_times_entered(1).await;
    drop(guard);
    victim.database("admin").run_command(ping.clone()).await.unwrap();

    let slow = FailCommand::on(&["ping"]).times(1).block_for(Duration::from_millis(1));
    let guard = slow.enable(server.uri()).await;
    other.database("admin").run_command(ping).await.unwrap();
    guard.wait_times_entered(1).await;
    assert_eq!(guard.disable().await, 1);

    let unknown = FailPoint::named("noSuchFailPoint").enable(server.uri().to_owned());
    let panic = tokio::spawn(unknown).await.unwrap_err().into_panic();
    let message = panic.downcast::<String>().unwrap();
    assert!(message.contains("noSuchFailPoint"), "{message}");
}

#[tokio::test]
async fn a_connection_that_is_closed_ends_a_command_unrun() {
    let server = Server::start();
    let client = server.client_with(|options| options.retry_writes = Some(false)).await;
    let leases = client.database("app").collection::<Document>("leases");
    let fault = FailCommand::on(&["insert"]).times(1).close_connection();
    let guard = fault.enable(server.uri()).await;
    let error = leases.insert_one(doc! { "_id": 1 }).await.unwrap_err();
    assert!(matches!(&*error.kind, ErrorKind::Io(_)), "{error}");
    guard.wait_times_entered(1).await;
    assert_eq!(leases.count_documents(doc! {}).await.unwrap(), 0);
}

#[tokio::test]
async fn a_write_concern_error_comes_after_the_write() {
    let server = Server::start();
    let database = server.database().await;
    let leases = database.collection::<Document>("leases");
    let fault = FailCommand::on(&["insert"]).times(1).write_concern_error(64);
    let guard = fault.enable(server.uri()).await;
    leases.insert_one(doc! { "_id": 1 }).await.unwrap_err();
    assert_eq!(leases.count_documents(doc! {}).await.unwrap(), 1);
    guard.disable().await;
}
