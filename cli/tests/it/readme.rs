//! Each command of the README, as it is written there.

use std::process::Stdio;

use rustix::process::Signal;
use tokio::process::Command;

use super::tool::{Running, fresh, leases, run};

const README: &str = include_str!("../../README.md");

/// The commands of the README, with the exit code that each is to have.
fn commands() -> Vec<(&'static str, i32)> {
    let mut is_shell = false;
    let mut commands = Vec::new();
    for line in README.lines() {
        if line.starts_with("```") {
            is_shell = line == "```sh";
        } else if is_shell && line.starts_with("mongo-lease ") {
            let exit = line.split_once("# exit code ").map_or(0, |(_, code)| code.parse().unwrap());
            commands.push((line, exit));
        }
    }
    commands
}

#[tokio::test]
async fn each_command_works_as_it_is_written() {
    let database = fresh().await;
    let manager = leases(&database).await;
    let server = mongo_lease_testbed::Server::shared().uri();
    let uri = server.replacen("/?", &format!("/{}?", database.name()), 1);
    // The script of the first screen, in the folder where the commands are run.
    let folder = std::env::temp_dir().join(database.name());
    std::fs::create_dir(&folder).unwrap();
    let script = folder.join("report.sh");
    std::fs::write(&script, "#!/bin/sh\necho done\n").unwrap();
    let executable = Command::new("chmod").arg("+x").arg(&script).status().await.unwrap();
    assert!(executable.success());
    let binary = std::path::Path::new(env!("CARGO_BIN_EXE_mongo-lease"));
    let path = format!("{}:{}", binary.parent().unwrap().display(), std::env::var("PATH").unwrap());
    let commands = commands();
    assert!(commands.len() > 12, "{commands:?}");
    // They are about this lease.
    let _lease = manager.acquire("invoice:42").await.unwrap();
    for (line, exit) in commands {
        // In the place of the shell, so that a signal comes to it.
        let mut command = Command::new("bash");
        command.args(["-c", &format!("exec {line}")]).current_dir(&folder);
        command.env("PATH", &path).env("MONGODB_URI", &uri).stdin(Stdio::null());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let ran = if line.starts_with("mongo-lease watch") {
            let mut running = Running::start(command);
            assert!(running.line().await.contains("invoice:42"), "{line}");
            running.signal(Signal::INT);
            running.ended().await
        } else {
            run(command).await
        };
        assert_eq!(ran.exit, exit, "{line}: {ran:?}");
        if line.contains("./report.sh") {
            assert_eq!(ran.data, "done\n", "{line}");
        }
    }
    std::fs::remove_dir_all(&folder).unwrap();
}
