//! A process knows itself by what it has made: not by its host's name and its id, and not by its parent.

use std::process::Command;

use mongo_lease::LeaseManager;
use mongo_lease_testbed::{LineProcess, Server, TestDatabase, command};

/// The process that the tests start.
const PROCESS: &str = env!("CARGO_BIN_EXE_mongo-lease-processes");

async fn migrated() -> (TestDatabase, LeaseManager) {
    let database = Server::shared().database().await;
    let leases = LeaseManager::builder(&database).ensure_indexes(true).build().await.unwrap();
    (database, leases)
}

fn start(mut command: Command, database: &TestDatabase) -> LineProcess {
    command.args([Server::shared().uri(), database.name()]);
    LineProcess::start(command).unwrap()
}

async fn ask(process: &mut LineProcess, order: &str) -> String {
    process.send(order).await.unwrap();
    process.line().await.unwrap()
}

/// The process as the first one of a namespace of its own, as in a container.
fn contained() -> Command {
    let mut command = command("unshare");
    command.args(["--user", "--map-root-user", "--pid", "--fork", "--kill-child", PROCESS]);
    command
}

/// Why this machine gives a process no namespace of its own.
fn no_namespaces() -> Option<String> {
    let tried =
        command("unshare").args(["--user", "--map-root-user", "--pid", "--fork", "true"]).output();
    match tried {
        Ok(output) if output.status.success() => None,
        Ok(output) => Some(String::from_utf8_lossy(&output.stderr).into_owned()),
        Err(error) => Some(error.to_string()),
    }
}

#[tokio::test]
async fn two_containers_with_one_host_name_are_two_processes() {
    if let Some(reason) = no_namespaces() {
        eprintln!("NOT RUN, for want of namespaces: two containers with one host name: {reason}");
        return;
    }
    let (database, _leases) = migrated().await;
    let mut holder = start(contained(), &database);
    let mut other = start(contained(), &database);
    let held = ask(&mut holder, "hold leader").await;
    let (owner, held_here) = held.split_once(' ').unwrap();
    assert!(owner.starts_with("test@") && owner.ends_with(":1"), "{owner}");
    assert_eq!(held_here, "true", "it holds it");
    // They look alike.
    assert_eq!(ask(&mut other, "hold another").await, held);
    let seen = ask(&mut other, "look leader").await;
    assert!(seen.starts_with("false false lease \"leader\" is held by test@"), "{seen}");
    assert!(!seen.contains("re-entrant"), "{seen}");
    let seen = ask(&mut holder, "look leader").await;
    assert!(seen.starts_with("true true ") && seen.contains("re-entrant"), "{seen}");
}

#[tokio::test]
async fn a_forked_child_releases_nothing_of_its_parents() {
    let (database, leases) = migrated().await;
    let mut parent = start(command(PROCESS), &database);
    let refused = ask(&mut parent, "fork a").await;
    assert!(refused.starts_with("unsupported: this process was forked"), "{refused}");
    assert!(parent.ended().await.unwrap().status.success());
    assert!(leases.get("a").await.unwrap().is_some(), "the child has released it");
    // A child that is another program does what it likes: what the parent has dropped is released.
    let mut other = start(command(PROCESS), &database);
    ask(&mut other, "hold b").await;
    assert!(leases.get("b").await.unwrap().is_some());
}
