//! A lease that nobody prolongs: its command, with all its children, is dead before the lease expires.
//!
//! Each of these tests waits until the validity of a lease is over, or for a hook's time limit. So they stand first, by
//! the name of their module, and others run meanwhile.

use std::time::{Duration, SystemTime};

use futures_util::StreamExt;
use mongo_lease_testbed::{Proxy, Server};
use mongodb::Database;
use mongodb::bson::{Document, doc};
use rustix::process::Signal;

use super::guard::once_guarded;
use super::lifeline::Lifeline;
use super::on_lost::noting;
use super::tool::{Running, TTL, fresh, lent_server, migrate, run, soon, tool_at, tool_for};

/// How much longer the server keeps the lease than the holder believes: the library's default.
const MAX_CLOCK_SKEW: Duration = Duration::from_secs(1);
/// How often a lease with [`TTL`] is renewed.
const RENEWED_EVERY: Duration = Duration::from_secs(4);

/// A command that ignores SIGTERM, and has started another that does too.
const STUBBORN: &str = "trap '' TERM HUP INT; exec 9> \"$0\"; sleep 1000 & echo ready; \
                        while :; do sleep 0.1; done";

/// The same, but it ends at the signal. It shows its token.
const OBEDIENT: &str = "trap 'echo told; exit 0' TERM; exec 9> \"$0\"; \
                        echo \"$MONGO_LEASE_TOKEN\"; while :; do sleep 0.1; done";

/// How the command that ignores SIGTERM is started under the lease `name`.
fn under<'a>(name: &'a str, lifeline: &'a Lifeline) -> Vec<&'a str> {
    let path = lifeline.path().to_str().expect("a path in text");
    vec!["run", name, "--ttl", TTL, "--grace", "1s", "--", "sh", "-c", STUBBORN, path]
}

/// The expiry that the next renewal of a lease writes. There is time until the one after that.
async fn next_expiry(database: &Database, name: &str) -> SystemTime {
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
    let server = lent_server();
    let database = server.database().await;
    migrate(&database).await;
    for round in 1..=rounds {
        let mut lifeline = Lifeline::new();
        let name = format!("round {round}");
        let arguments = under(&name, &lifeline);
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
        // The next test shows that a run also ends while the database says nothing.
        server.mongod().resume();
        let ran = running.ended().await;
        assert_eq!((ran.exit, ran.data.as_str()), (76, ""), "{ran:?}");
        assert!(ran.talk.contains(&format!("{name:?} was not renewed, ")), "{ran:?}");
        assert!(ran.talk.contains("the command was ended"), "{ran:?}");
    }
}

#[tokio::test]
async fn a_cut_off_run_kills_its_command_before_the_next_grant() {
    let database = fresh().await;
    let address = Server::shared().uri().trim_start_matches("mongodb://");
    let address = address.split('/').next().expect("an address");
    let proxy = Proxy::start(address);
    let mut lifeline = Lifeline::new();
    let arguments = under("a", &lifeline);
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
async fn with_the_database_stopped_a_command_has_its_grace_and_hook() {
    let server = lent_server();
    let database = server.database().await;
    migrate(&database).await;
    let mut lifeline = Lifeline::new();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("notes");
    let hook = noting(&file);
    let path = lifeline.path().to_str().expect("a path in text");
    let arguments = ["run", "a", "--ttl", TTL, "--grace", "4s", "--on-lost", &hook];
    let command = ["--", "sh", "-c", OBEDIENT, path];
    let arguments = [&arguments[..], &command].concat();
    let mut running = Running::start(tool_at(server.uri(), database.name(), &arguments));
    let token = running.line().await;
    let expires_at = next_expiry(&database, "a").await;
    server.mongod().pause();
    assert_eq!(running.line().await, "told");
    let dead = lifeline.end().await;
    let free = expires_at.duration_since(dead).expect("dead before the lease has expired");
    assert!(free > MAX_CLOCK_SKEW + Duration::from_millis(300), "well before the end: {free:?}");
    // The command has lost its lease: its exit code 0 is no success.
    let ran = running.ended().await;
    assert_eq!(ran.exit, 76, "{ran:?}");
    let notes = std::fs::read_to_string(&file).unwrap();
    assert!(notes.starts_with(&format!("a {token} no URI lease \"a\" ")), "{notes}");
    assert!(notes.contains("renewed") && notes.lines().count() == 1, "{notes}");
    server.mongod().resume();
}

#[tokio::test]
async fn a_stopped_runs_command_is_dead_before_the_lease_expires() {
    let database = fresh().await;
    let mut lifeline = Lifeline::new();
    let path = lifeline.path().to_str().unwrap();
    let script = "trap '' TERM; exec 9> \"$0\"; sleep 1000 & echo ready; \
                  while :; do sleep 0.1; done";
    let arguments =
        ["run", "a", "--ttl", TTL, "--grace", "1s", "--", "sh", "-c", &once_guarded(script), path];
    let mut running = Running::start(tool_for(&database, &arguments));
    assert_eq!(running.line().await, "ready");
    let expires_at = next_expiry(&database, "a").await;
    running.signal(Signal::STOP);
    let dead = lifeline.end().await;
    let free = expires_at.duration_since(dead).expect("dead before the lease has expired");
    // Within validity, or on a busy machine a little later.
    assert!(free >= MAX_CLOCK_SKEW / 2, "dead within validity: {free:?}");
    let next = run(tool_for(&database, &["run", "a", "--", "echo", "next"])).await;
    assert_eq!((next.exit, next.data.as_str()), (0, "next\n"), "{next:?}");
    running.signal(Signal::CONT);
    // It finds the command dead, and knows that the guard ended it.
    let ran = running.ended().await;
    assert_eq!(ran.exit, 76, "{ran:?}");
    // It may have been stopped before it read the reply to its newest renewal.
    let reasons = ["it was not renewed in time", "the database has confirmed no renewal for "];
    let is_told = |reason| ran.talk.contains(&format!("lease \"a\" is lost: {reason}"));
    assert!(reasons.into_iter().any(is_told), "{ran:?}");
}

#[tokio::test]
async fn a_short_trouble_costs_nothing() {
    let server = lent_server();
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
async fn a_hook_that_hangs_delays_no_signal_and_is_killed() {
    let database = fresh().await;
    let mut lifeline = Lifeline::new();
    let path = lifeline.path().to_str().unwrap();
    // It ignores SIGTERM: only SIGKILL, after the grace, ends it.
    let script = "trap '' TERM; exec 9> \"$0\"; echo ready; while :; do sleep 0.1; done";
    let hook = "echo hook; sleep 1000";
    let arguments = [
        "run",
        "a",
        "--ttl",
        TTL,
        "--grace",
        "1s",
        "--on-lost",
        hook,
        "--",
        "sh",
        "-c",
        script,
        path,
    ];
    let mut running = Running::start(tool_for(&database, &arguments));
    assert_eq!(running.line().await, "ready");
    let released = run(tool_for(&database, &["release", "a", "--force"])).await;
    assert_eq!(released.exit, 0, "{released:?}");
    assert_eq!(running.line().await, "hook");
    let dead = lifeline.end().await;
    let ran = running.ended().await;
    let hook_ended = SystemTime::now();
    assert_eq!(ran.exit, 76, "{ran:?}");
    assert!(ran.talk.contains("the --on-lost command was killed after 10s"), "{ran:?}");
    // Nine seconds on an idle machine.
    let between = hook_ended.duration_since(dead).unwrap();
    assert!(between.as_secs() >= 5, "the command did not wait for the hook: {between:?}");
}
