//! Signals reach the command, and its end becomes ours.

use mongo_lease_testbed::{Server, command};
use rustix::process::Signal;
use tokio::process::Command;

use super::tool::{BINARY, Running, fresh, leases, tool_for};

/// A command that runs until a signal comes.
const GOES_ON: &str = "echo ready; while :; do sleep 0.05; done";

#[tokio::test]
async fn a_signal_is_passed_on_and_ends_the_command() {
    let database = fresh().await;
    for (signal, exit) in [
        (Signal::HUP, 129),
        (Signal::INT, 130),
        (Signal::QUIT, 131),
        (Signal::TERM, 143),
        (Signal::USR1, 128 + Signal::USR1.as_raw()),
        (Signal::USR2, 128 + Signal::USR2.as_raw()),
    ] {
        let arguments = ["run", "a", "--", "sh", "-c", "echo ready; exec sleep 1000"];
        let mut running = Running::start(tool_for(&database, &arguments));
        assert_eq!(running.line().await, "ready");
        running.signal(signal);
        let ran = running.ended().await;
        assert_eq!((ran.exit, ran.talk.as_str()), (exit, ""), "{signal:?}");
        assert!(leases(&database).await.get("a").await.unwrap().is_none(), "it is given back");
    }
}

#[tokio::test]
async fn a_command_that_handles_a_signal_goes_on_and_keeps_the_lease() {
    let database = fresh().await;
    let script = format!("trap 'echo heard' TERM; trap 'echo bye; exit 9' USR1; {GOES_ON}");
    let mut running = Running::start(tool_for(&database, &["run", "a", "--", "sh", "-c", &script]));
    assert_eq!(running.line().await, "ready");
    for _ in 0..2 {
        running.signal(Signal::TERM);
        assert_eq!(running.line().await, "heard");
        assert!(leases(&database).await.get("a").await.unwrap().is_some(), "it is held");
    }
    running.signal(Signal::USR1);
    assert_eq!(running.line().await, "bye");
    assert_eq!(running.ended().await.exit, 9);
}

#[tokio::test]
async fn a_signal_goes_to_the_command_alone() {
    let database = fresh().await;
    // The command waits for a child that would report the signal if it got one.
    let inner = "trap 'echo inner' TERM; echo ready; while :; do sleep 0.05; done";
    let script = format!("trap 'echo outer; kill -9 $!; exit 2' TERM; sh -c \"{inner}\" & wait");
    let mut running = Running::start(tool_for(&database, &["run", "a", "--", "sh", "-c", &script]));
    assert_eq!(running.line().await, "ready");
    running.signal(Signal::TERM);
    assert_eq!(running.line().await, "outer");
    let ran = running.ended().await;
    assert_eq!((ran.exit, ran.data.as_str()), (2, ""), "{ran:?}");
}

#[tokio::test]
async fn a_signal_of_the_keyboard_goes_to_the_whole_group() {
    let database = fresh().await;
    // The command waits for its child, which only the signal ends.
    let inner = "trap 'echo inner; exit 0' INT QUIT HUP; echo ready; while :; do sleep 0.05; done";
    // A shell may report that the signal has ended its `sleep`.
    let script =
        format!("trap 'heard=1' INT QUIT HUP; sh -c \"{inner}\" 2>&-; exit $((7 + heard))");
    for signal in [Signal::INT, Signal::QUIT, Signal::HUP] {
        let arguments = ["run", "a", "--", "sh", "-c", &script];
        let mut running = Running::start(tool_for(&database, &arguments));
        assert_eq!(running.line().await, "ready");
        running.signal(signal);
        assert_eq!(running.line().await, "inner", "{signal:?}");
        let ran = running.ended().await;
        assert_eq!((ran.exit, ran.talk.as_str()), (8, ""), "{signal:?}: {ran:?}");
    }
}

#[tokio::test]
async fn a_signal_ends_the_wait_and_no_command_is_started() {
    let database = fresh().await;
    let manager = leases(&database).await;
    let lease = manager.acquire("a").await.unwrap();
    for (signal, exit) in [(Signal::INT, 130), (Signal::TERM, 143)] {
        let arguments = ["run", "a", "--wait", "forever", "--", "echo", "no"];
        let mut running = Running::start(tool_for(&database, &arguments));
        assert!(running.talk().await.starts_with("waiting for"));
        running.signal(signal);
        let ran = running.ended().await;
        assert_eq!((ran.exit, ran.data.as_str()), (exit, ""), "{ran:?}");
    }
    lease.release().await.unwrap();
    assert!(manager.get("a").await.unwrap().is_none(), "nobody has taken it meanwhile");
}

// Other systems do not show it.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn what_was_ignored_from_the_start_stays_ignored() {
    let database = fresh().await;
    let script = format!("trap 'exit 9' USR1; {GOES_ON}");
    // As `nohup` does.
    let mut shell = Command::from(command("sh"));
    shell.args(["-c", "trap '' HUP; exec \"$0\" \"$@\"", BINARY, "--db", database.name()]);
    shell.args(["run", "a", "--", "sh", "-c", &script]).env("MONGODB_URI", Server::shared().uri());
    shell.stdin(std::process::Stdio::null());
    shell.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
    let mut running = Running::start(shell);
    assert_eq!(running.line().await, "ready");
    running.signal(Signal::HUP);
    running.signal(Signal::USR1);
    assert_eq!(running.ended().await.exit, 9);
}
