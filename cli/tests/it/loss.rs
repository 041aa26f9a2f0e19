//! The lease is lost, or the database stops, while a command runs.

use super::lifeline::Lifeline;
use super::tool::{Running, TTL, fresh, lent_server, migrate, run, tool_at, tool_for};

#[tokio::test]
async fn a_commands_exit_code_survives_a_stopped_database() {
    let server = lent_server();
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
async fn a_command_that_is_stopped_is_ended_all_the_same() {
    let database = fresh().await;
    let mut lifeline = Lifeline::new();
    let script = "exec 9> \"$0\"; echo ready; kill -STOP $$; echo no";
    let path = lifeline.path().to_str().expect("a path in text");
    let arguments = ["run", "a", "--ttl", TTL, "--grace", "4s", "--", "sh", "-c", script, path];
    let mut running = Running::start(tool_for(&database, &arguments));
    assert_eq!(running.line().await, "ready");
    let released = run(tool_for(&database, &["release", "a", "--force"])).await;
    assert_eq!(released.exit, 0, "{released:?}");
    lifeline.end().await;
    assert_eq!(running.ended().await.exit, 76);
}
