//! `run --on-lost`: a command for the loss of the lease.

use std::path::Path;

use super::lifeline::Lifeline;
use super::tool::{Running, TTL, fresh, leases, run, tool_for};

/// A command that ends at SIGTERM, and shows its token.
const OBEDIENT: &str = "trap 'echo told; exit 0' TERM; exec 9> \"$0\"; \
                        echo \"$MONGO_LEASE_TOKEN\"; while :; do sleep 0.1; done";

/// A hook that adds a line to a file.
pub(crate) fn noting(file: &Path) -> String {
    let file = file.display();
    format!(
        "echo \"$MONGO_LEASE_NAME $MONGO_LEASE_TOKEN ${{MONGODB_URI-no URI}} \
         $MONGO_LEASE_LOST_REASON\" >> '{file}'"
    )
}

/// Runs a command until its lease was released by force.
async fn lost(database: &mongodb::Database, hook: &str) -> (String, super::tool::Ran) {
    let mut lifeline = Lifeline::new();
    let path = lifeline.path().to_str().expect("a path in text");
    let arguments = ["run", "a", "--ttl", TTL, "--on-lost", hook, "--", "sh", "-c", OBEDIENT, path];
    let mut running = Running::start(tool_for(database, &arguments));
    let token = running.line().await;
    let released = run(tool_for(database, &["release", "a", "--force"])).await;
    assert_eq!(released.exit, 0, "{released:?}");
    assert_eq!(running.line().await, "told");
    lifeline.end().await;
    let ran = running.ended().await;
    assert_eq!(ran.exit, 76, "{ran:?}");
    assert!(ran.talk.contains("released by somebody else; the command was ended"), "{ran:?}");
    assert!(leases(database).await.get("a").await.unwrap().is_none());
    (token, ran)
}

#[tokio::test]
async fn the_hook_runs_once_when_the_lease_is_lost() {
    let database = fresh().await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("notes");
    let (token, _ran) = lost(&database, &noting(&file)).await;
    let notes = std::fs::read_to_string(&file).unwrap();
    let reason = "lease \"a\" is lost: it was released by somebody else";
    assert_eq!(notes, format!("a {token} no URI {reason}\n"));
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
    assert!(ran.talk.contains("the --on-lost command failed: exit status: 5"), "{ran:?}");
}
