//! The lease is lost: the command, with all its children, is dead before anybody else can hold it.

use std::time::{Duration, SystemTime};

use futures_util::StreamExt;
use mongo_lease_testbed::{Proxy, Server};
use mongodb::Database;
use mongodb::bson::{Document, doc};

use super::lifeline::Lifeline;
use super::tool::{Running, leases, migrate, run, soon, tool_at};

/// How much longer the server keeps the lease than the holder believes: the library's default.
pub(crate) const MAX_CLOCK_SKEW: Duration = Duration::from_secs(1);
/// The ttl of a lease that is lost. A busy machine needs some of it: to stop the server before the next renewal, and to
/// end the command.
pub(crate) const TTL: &str = "12s";
/// How often such a lease is renewed.
const RENEWED_EVERY: Duration = Duration::from_secs(4);

/// A command that ignores SIGTERM, and has started another that does too.
const STUBBORN: &str = "trap '' TERM HUP INT; exec 9> \"$0\"; sleep 1000 & echo ready; \
                        while :; do sleep 0.1; done";

/// The same, but it ends at the signal.
const OBEDIENT: &str = "trap 'echo told; exit 0' TERM; exec 9> \"$0\"; echo ready; \
                        while :; do sleep 0.1; done";

/// How the command is started under the lease `name`: the one that ignores SIGTERM with a short grace.
fn under<'a>(name: &'a str, script: &'a str, lifeline: &'a Lifeline) -> Vec<&'a str> {
    let path = lifeline.path().to_str().expect("a path in text");
    let grace = if script == STUBBORN { "1s" } else { "4s" };
    vec!["run", name, "--ttl", TTL, "--grace", grace, "--", "sh", "-c", script, path]
}

/// The expiry that the next renewal of a lease writes. There is time until the one after that.
pub(crate) async fn next_expiry(database: &Database, name: &str) -> SystemTime {
    let wanted = [doc! { "$match": { "operationType": "update", "fullDocument.name": name } }];
    let locks = database.collection::<Document>("locks");
    let stream = locks.watch().pipeline(wanted);
    let stream = stream.full_document(mongodb::options::FullDocumentType::UpdateLookup).await;
    let mut stream = stream.expect("a change stream");
    let event = soon("a renewal", stream.next()).await.expect("it goes on").expect("an event");
    let document = event.full_document.expect("it was looked up");
    document.get_datetime("expiresAt").expect("a date").to_system_time()
}

#[tokio::test]
async fn with_the_database_stopped_the_command_dies_before_expiry() {
    // More rounds with this in the environment.
    let rounds = std::env::var("MONGO_LEASE_LOSS_ROUNDS").ok();
    let rounds: u32 = rounds.map_or(1, |rounds| rounds.parse().expect("a number"));
    let server = Server::start();
    let database = server.database().await;
    migrate(&database).await;
    for round in 1..=rounds {
        let mut lifeline = Lifeline::new();
        let name = format!("round {round}");
        let arguments = under(&name, STUBBORN, &lifeline);
        let mut running = Running::start(tool_at(server.uri(), database.name(), &arguments));
        assert_eq!(running.line().await, "ready");
        let expires_at = next_expiry(&database, &name).await;
        server.mongod().pause();
        let dead = lifeline.end().await;
        // On this machine the server's clock is ours.
        let free = expires_at.duration_since(dead).expect("dead before the lease has expired");
        eprintln!("round {round}: dead {free:?} before the lease was free");
        // Within validity, or on a busy machine a little later.
        assert!(free >= MAX_CLOCK_SKEW / 2, "dead within validity: {free:?}");
        // The server may have been stopped with the reply to that renewal still on its way: then the one before counts.
        let early = MAX_CLOCK_SKEW + RENEWED_EVERY + Duration::from_secs(1);
        assert!(free < early, "and not long before: {free:?}");
        let ran = running.ended().await;
        assert_eq!((ran.exit, ran.data.as_str()), (76, ""), "{ran:?}");
        assert!(ran.talk.contains(&format!("{name:?} was not renewed, ")), "{ran:?}");
        assert!(ran.talk.contains("the command was ended"), "{ran:?}");
        server.mongod().resume();
        let next = ["run", &name, "--wait", "60s", "--", "echo", "next"];
        let next = run(tool_at(server.uri(), database.name(), &next)).await;
        assert_eq!((next.exit, next.data.as_str()), (0, "next\n"), "{next:?}");
    }
}

#[tokio::test]
async fn a_cut_off_run_kills_its_command_before_the_next_grant() {
    let database = super::tool::fresh().await;
    let address = Server::shared().uri().trim_start_matches("mongodb://");
    let address = address.split('/').next().expect("an address");
    let proxy = Proxy::start(address);
    let mut lifeline = Lifeline::new();
    let arguments = under("a", STUBBORN, &lifeline);
    let mut running = Running::start(tool_at(&proxy.uri(), database.name(), &arguments));
    assert_eq!(running.line().await, "ready");
    let next = ["run", "a", "--wait", "60s", "--", "date", "+%s%N"];
    let mut next = Running::start(tool_at(Server::shared().uri(), database.name(), &next));
    assert!(next.talk().await.starts_with("waiting for \"a\""));
    let _silence = proxy.hold_replies();
    let dead = lifeline.end().await;
    let granted = next.line().await.parse().expect("nanoseconds");
    let granted = SystemTime::UNIX_EPOCH + Duration::from_nanos(granted);
    let between = granted.duration_since(dead).expect("dead before the next grant");
    assert!(between >= MAX_CLOCK_SKEW / 2, "with the maximum clock skew in between: {between:?}");
    assert_eq!(running.ended().await.exit, 76);
    assert_eq!(next.ended().await.exit, 0);
}

#[tokio::test]
async fn a_command_that_goes_when_it_is_told_has_its_grace() {
    let server = Server::start();
    let database = server.database().await;
    migrate(&database).await;
    let mut lifeline = Lifeline::new();
    let arguments = under("a", OBEDIENT, &lifeline);
    let mut running = Running::start(tool_at(server.uri(), database.name(), &arguments));
    assert_eq!(running.line().await, "ready");
    let expires_at = next_expiry(&database, "a").await;
    server.mongod().pause();
    assert_eq!(running.line().await, "told");
    let dead = lifeline.end().await;
    let free = expires_at.duration_since(dead).expect("dead before the lease has expired");
    assert!(free > MAX_CLOCK_SKEW + Duration::from_millis(300), "well before the end: {free:?}");
    // The command has lost its lease: its exit code 0 is no success.
    assert_eq!(running.ended().await.exit, 76);
    server.mongod().resume();
}

#[tokio::test]
async fn a_short_trouble_costs_nothing() {
    let server = Server::start();
    let database = server.database().await;
    migrate(&database).await;
    let script = "echo ready; read line; echo done";
    let arguments = ["run", "a", "--ttl", TTL, "--grace", "1s", "--", "sh", "-c", script];
    let command = tool_at(server.uri(), database.name(), &arguments);
    let mut running = Running::start_with_input(command);
    assert_eq!(running.line().await, "ready");
    let _expires_at = next_expiry(&database, "a").await;
    server.mongod().pause();
    // It reports a failed renewal while there is time for another.
    assert!(running.talk().await.starts_with("\"a\" was not renewed, "));
    server.mongod().resume();
    assert_eq!(running.talk().await, "\"a\" is renewed again");
    running.tell("").await;
    assert_eq!(running.line().await, "done");
    let ran = running.ended().await;
    assert_eq!((ran.exit, ran.talk.as_str()), (0, ""), "{ran:?}");
}

#[tokio::test]
async fn a_commands_exit_code_survives_a_stopped_database() {
    let server = Server::start();
    let database = server.database().await;
    migrate(&database).await;
    let script = "echo ready; read line; exit 4";
    let arguments = ["run", "a", "--timeout", "1s", "--", "sh", "-c", script];
    let command = tool_at(server.uri(), database.name(), &arguments);
    let mut running = Running::start_with_input(command);
    assert_eq!(running.line().await, "ready");
    server.mongod().pause();
    running.tell("").await;
    let ran = running.ended().await;
    assert_eq!(ran.exit, 4, "{ran:?}");
    assert!(ran.talk.contains("\"a\" could not be released, and expires at 20"), "{ran:?}");
    server.mongod().resume();
}

#[tokio::test]
async fn a_lease_that_an_operator_releases_ends_the_command() {
    let database = super::tool::fresh().await;
    let mut lifeline = Lifeline::new();
    let arguments = under("a", OBEDIENT, &lifeline);
    let mut running = Running::start(super::tool::tool_for(&database, &arguments));
    assert_eq!(running.line().await, "ready");
    let released = run(super::tool::tool_for(&database, &["release", "a", "--force"])).await;
    assert_eq!(released.exit, 0, "{released:?}");
    assert_eq!(running.line().await, "told");
    lifeline.end().await;
    let ran = running.ended().await;
    assert_eq!(ran.exit, 76, "{ran:?}");
    assert!(ran.talk.contains("released by somebody else; the command was ended"), "{ran:?}");
    assert!(leases(&database).await.get("a").await.unwrap().is_none());
}

#[tokio::test]
async fn a_command_that_is_stopped_is_ended_all_the_same() {
    let database = super::tool::fresh().await;
    let mut lifeline = Lifeline::new();
    let script = "exec 9> \"$0\"; echo ready; kill -STOP $$; echo no";
    let arguments = under("a", script, &lifeline);
    let mut running = Running::start(super::tool::tool_for(&database, &arguments));
    assert_eq!(running.line().await, "ready");
    let released = run(super::tool::tool_for(&database, &["release", "a", "--force"])).await;
    assert_eq!(released.exit, 0, "{released:?}");
    lifeline.end().await;
    assert_eq!(running.ended().await.exit, 76);
}
