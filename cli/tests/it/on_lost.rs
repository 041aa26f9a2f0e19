//! `run --on-lost`: a command for the loss of the lease.

use std::path::Path;

use mongo_lease_testbed::Server;

use super::lifeline::Lifeline;
use super::loss::{TTL, next_expiry};
use super::tool::{Running, fresh, migrate, run, tool_at, tool_for};

/// A command that ends at SIGTERM, and shows its token.
const OBEDIENT: &str =
    "trap 'echo told; exit 0' TERM; echo \"$MONGO_LEASE_TOKEN\"; while :; do sleep 0.1; done";

/// A hook that adds a line to a file.
fn noting(file: &Path) -> String {
    let file = file.display();
    format!(
        "echo \"$MONGO_LEASE_NAME $MONGO_LEASE_TOKEN ${{MONGODB_URI-no URI}} \
         $MONGO_LEASE_LOST_REASON\" >> '{file}'"
    )
}

/// Runs a command until its lease was released by force.
async fn lost(database: &mongodb::Database, hook: &str) -> (String, super::tool::Ran) {
    let arguments = ["run", "a", "--ttl", TTL, "--on-lost", hook, "--", "sh", "-c", OBEDIENT];
    let mut running = Running::start(tool_for(database, &arguments));
    let token = running.line().await;
    let released = run(tool_for(database, &["release", "a", "--force"])).await;
    assert_eq!(released.exit, 0, "{released:?}");
    assert_eq!(running.line().await, "told");
    (token, running.ended().await)
}

#[tokio::test]
async fn the_hook_runs_once_when_the_lease_is_lost() {
    let database = fresh().await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("notes");
    let (token, ran) = lost(&database, &noting(&file)).await;
    assert_eq!(ran.exit, 76, "{ran:?}");
    assert!(ran.talk.contains("the command was ended"), "{ran:?}");
    let notes = std::fs::read_to_string(&file).unwrap();
    let reason = "lease \"a\" is lost: it was released by somebody else";
    assert_eq!(notes, format!("a {token} no URI {reason}\n"));
}

#[tokio::test]
async fn the_hook_runs_when_the_database_stops() {
    let server = Server::start();
    let database = server.database().await;
    migrate(&database).await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("notes");
    let hook = noting(&file);
    let arguments = ["run", "a", "--ttl", TTL, "--on-lost", &hook, "--", "sh", "-c", OBEDIENT];
    let mut running = Running::start(tool_at(server.uri(), database.name(), &arguments));
    let token = running.line().await;
    let _expires_at = next_expiry(&database, "a").await;
    server.mongod().pause();
    assert_eq!(running.line().await, "told");
    let ran = running.ended().await;
    assert_eq!(ran.exit, 76, "{ran:?}");
    let notes = std::fs::read_to_string(&file).unwrap();
    assert!(notes.starts_with(&format!("a {token} no URI lease \"a\" ")), "{notes}");
    assert!(notes.contains("renewed") && notes.lines().count() == 1, "{notes}");
    server.mongod().resume();
}

#[tokio::test]
async fn the_hook_does_not_run_when_the_command_ends() {
    let database = fresh().await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("notes");
    let hook = noting(&file);
    for (script, exit) in [("exit 0", 0), ("exit 7", 7), ("kill -TERM $$", 143)] {
        let arguments = ["run", "a", "--on-lost", &hook, "--", "sh", "-c", script];
        let ran = run(tool_for(&database, &arguments)).await;
        assert_eq!((ran.exit, ran.talk.as_str()), (exit, ""), "{ran:?}");
    }
    let arguments = ["run", "a", "--on-lost", &hook, "--", "no-such-command"];
    assert_eq!(run(tool_for(&database, &arguments)).await.exit, 127);
    assert!(!file.exists());
}

#[tokio::test]
async fn a_hook_that_fails_is_reported_and_it_is_76_all_the_same() {
    let database = fresh().await;
    let (_token, ran) = lost(&database, "exit 5").await;
    assert_eq!(ran.exit, 76, "{ran:?}");
    assert!(ran.talk.contains("the --on-lost command failed: exit status: 5"), "{ran:?}");
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
    let hook_ended = std::time::SystemTime::now();
    assert_eq!(ran.exit, 76, "{ran:?}");
    assert!(ran.talk.contains("the --on-lost command was killed after 10s"), "{ran:?}");
    // Nine seconds on an idle machine.
    let between = hook_ended.duration_since(dead).unwrap();
    assert!(between.as_secs() >= 5, "the command did not wait for the hook: {between:?}");
}
