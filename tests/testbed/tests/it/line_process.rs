//! A child process that is told what to do in lines, and answers in lines.

use std::process::Command;
use std::time::Duration;

use mongo_lease_testbed::{LineProcess, command};

fn shell(script: &str) -> Command {
    let mut command = command("sh");
    command.args(["-c", script]);
    command
}

#[tokio::test]
async fn a_process_answers_line_by_line_and_ends_with_its_input() {
    let mut echo = LineProcess::start(shell("while read a; do echo got $a; done")).unwrap();
    for word in ["one", "two"] {
        echo.send(word).await.unwrap();
        assert_eq!(echo.line().await.unwrap(), format!("got {word}"));
    }
    echo.send("three").await.unwrap();
    let ended = echo.ended().await.unwrap();
    assert!(ended.status.success());
    assert_eq!((ended.output.as_str(), ended.errors.as_str()), ("got three\n", ""));
}

#[tokio::test]
async fn lines_that_are_not_accepted_are_passed_over() {
    let mut process = LineProcess::start(shell("echo noise; echo '> signal'; echo rest")).unwrap();
    let accept = |line: &str| line.strip_prefix("> ").map(str::to_owned);
    assert_eq!(process.line_with(accept).await.unwrap(), "signal");
    assert_eq!(process.ended().await.unwrap().output, "rest\n");
}

#[tokio::test]
async fn an_ended_process_is_an_error_with_its_error_output() {
    let script = "echo ready; echo 'out of luck' >&2; exit 3";
    let mut process = LineProcess::start_without_input(shell(script)).unwrap();
    assert_eq!(process.line().await.unwrap(), "ready");
    for _ in 0..2 {
        let error = process.line().await.unwrap_err().to_string();
        assert!(error.contains("sh has ended its output"), "{error}");
        assert!(error.contains("out of luck"), "{error}");
    }
    assert_eq!(process.error_line().await.unwrap(), "out of luck");
    assert_eq!(process.ended().await.unwrap().status.code(), Some(3));
}

#[tokio::test]
async fn a_silent_process_is_an_error_after_the_patience() {
    let mut process = LineProcess::start(shell("echo waiting >&2; read line")).unwrap();
    assert_eq!(process.error_line().await.unwrap(), "waiting");
    // Its start may take longer than that.
    let mut process = process.with_patience(Duration::from_millis(50));
    let error = process.line().await.unwrap_err().to_string();
    assert!(error.contains("within 50ms: to write a line"), "{error}");
    assert!(error.contains("waiting"), "{error}");
}

#[tokio::test]
async fn only_the_last_lines_of_the_error_output_are_repeated() {
    let script = "i=0; while [ $i -lt 100 ]; do echo line $i. >&2; i=$((i + 1)); done";
    let mut process = LineProcess::start(shell(script)).unwrap();
    let error = process.line().await.unwrap_err().to_string();
    assert!(error.contains("line 60.\n") && error.contains("line 99.\n"), "{error}");
    assert!(!error.contains("line 59."), "{error}");
}

#[tokio::test]
async fn a_dropped_process_is_killed() {
    let mut survivor = LineProcess::start(shell("read line; echo over")).unwrap();
    let input = survivor.take_input();
    let mut output = survivor.take_output();
    drop(survivor);
    let end = tokio::time::timeout(LineProcess::PATIENCE, output.next_line()).await;
    assert_eq!(end.unwrap().unwrap(), None, "it has not written `over`");
    drop(input);
}

#[tokio::test]
async fn a_signal_reaches_the_process() {
    use std::os::unix::process::ExitStatusExt;
    let mut process =
        LineProcess::start(shell("trap 'echo heard' USR1; echo ready; read a; read b")).unwrap();
    assert_eq!(process.line().await.unwrap(), "ready");
    process.signal(rustix::process::Signal::USR1).unwrap();
    assert_eq!(process.line().await.unwrap(), "heard");
    assert_eq!(process.kill().await.unwrap().signal(), Some(9));
    let error = process.signal(rustix::process::Signal::USR1).unwrap_err().to_string();
    assert!(error.contains("sh has ended"), "{error}");
}
