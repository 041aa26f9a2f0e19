//! `mongo-lease run` itself is killed, or stopped: the guard ends the command.

use std::time::Duration;

use rustix::process::Signal;

use super::lifeline::Lifeline;
use super::tool::{Running, fresh, leases, run, tool_for};

/// For a script: waits until `run` waits too. Then the guard has its first order. If `run` is killed between the
/// command's start and that order, the command goes on alone: a window of microseconds, or more on a busy machine.
pub(crate) fn once_guarded(script: &str) -> String {
    let waits = "until grep -q '^State:.S' /proc/$PPID/status; do :; done; echo ready";
    script.replace("echo ready", waits)
}

#[tokio::test]
async fn the_command_of_a_run_that_is_killed_is_told_to_end_at_once() {
    let database = fresh().await;
    let mut lifeline = Lifeline::new();
    let path = lifeline.path().to_str().unwrap();
    let script = "trap 'echo told; exit 0' TERM; exec 9> \"$0\"; echo ready; \
                  while :; do sleep 0.1; done";
    let arguments = ["run", "a", "--ttl", "60s", "--", "sh", "-c", &once_guarded(script), path];
    let mut running = Running::start(tool_for(&database, &arguments));
    assert_eq!(running.line().await, "ready");
    running.signal(Signal::KILL);
    assert_eq!(running.line().await, "told");
    lifeline.end().await;
    // No process was left to release it.
    assert!(leases(&database).await.get("a").await.unwrap().is_some());
}

#[tokio::test]
async fn a_killed_runs_command_that_ignores_sigterm_dies_after_grace() {
    let database = fresh().await;
    let mut lifeline = Lifeline::new();
    let path = lifeline.path().to_str().unwrap();
    let script = "trap '' TERM; exec 9> \"$0\"; sleep 1000 & echo ready; \
                  while :; do sleep 0.1; done";
    let arguments = [
        "run",
        "a",
        "--ttl",
        "30s",
        "--grace",
        "500ms",
        "--",
        "sh",
        "-c",
        &once_guarded(script),
        path,
    ];
    let mut running = Running::start(tool_for(&database, &arguments));
    assert_eq!(running.line().await, "ready");
    running.signal(Signal::KILL);
    lifeline.end().await;
    let left = leases(&database).await.get("a").await.unwrap().unwrap().remaining.unwrap();
    assert!(left > Duration::from_secs(10), "long before the lease has expired: {left:?}");
}

// Looks into `/proc`.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn the_guard_goes_with_the_command() {
    let database = fresh().await;
    // The guard is the other child of this command's parent.
    let script = "echo $(ps -o pid= --ppid $PPID | grep -v \"^ *$$\\$\")";
    let ran = run(tool_for(&database, &["run", "a", "--", "sh", "-c", script])).await;
    assert_eq!(ran.exit, 0, "{ran:?}");
    let guard: u32 = ran.data.trim().parse().unwrap_or_else(|error| panic!("{error}: {ran:?}"));
    // In a container whose first process waits for no orphans, an ended one stays as a zombie.
    let status = || std::fs::read_to_string(format!("/proc/{guard}/status"));
    let is_there = || status().is_ok_and(|status| !status.contains("State:\tZ"));
    let gone = async {
        while is_there() {
            tokio::task::yield_now().await;
        }
    };
    super::tool::soon("the guard has gone", gone).await;
}
