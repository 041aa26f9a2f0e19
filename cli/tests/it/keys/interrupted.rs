//! A key that does not reach its owner: its lease is not left held. And a key that is still needed is not lost.

use std::fs::File;
use std::process::Stdio;

use mongo_lease_testbed::Server;
use mongodb::Database;
use rustix::process::Signal;
use tokio::process::Command;

use super::{Folder, Running, acquired, fresh, leases, run, soon, text, tool_for};
use crate::tool::{lent_server, migrate, tool_at};

#[tokio::test]
async fn a_signal_ends_the_wait_for_a_key_and_leaves_nothing() {
    let database = fresh().await;
    let (folder, manager) = (Folder::new(), leases(&database).await);
    let lease = manager.acquire("a").await.unwrap();
    let key = folder.path("key");
    for (signal, exit) in [(Signal::INT, 130), (Signal::TERM, 143), (Signal::HUP, 129)] {
        let arguments = ["acquire", "a", "--wait", "forever", "--key", text(&key)];
        let mut running = Running::start(tool_for(&database, &arguments));
        assert!(running.talk().await.starts_with("waiting for \"a\": test@"));
        running.signal(signal);
        let ran = running.ended().await;
        assert_eq!((ran.exit, ran.data.as_str()), (exit, ""), "{ran:?}");
    }
    lease.release().await.unwrap();
    assert!(manager.get("a").await.unwrap().is_none(), "nobody has taken it meanwhile");
    assert!(folder.names().is_empty());
}

#[tokio::test]
async fn a_key_that_cannot_be_written_is_refused_beforehand() {
    let database = fresh().await;
    let (folder, manager) = (Folder::new(), leases(&database).await);
    let file = folder.path("file");
    std::fs::write(&file, "").unwrap();
    for path in [folder.path("none").join("key"), file.join("key")] {
        // Somebody else holds it: a call for the lease would wait, or exit with 75.
        let lease = manager.acquire("a").await.unwrap();
        let arguments = ["acquire", "a", "--no-wait", "--key", text(&path)];
        let ran = run(tool_for(&database, &arguments)).await;
        assert_eq!((ran.exit, ran.data.as_str()), (71, ""), "{ran:?}");
        assert!(ran.talk.contains("the key cannot be written"), "{ran:?}");
        lease.release().await.unwrap();
    }
}

#[tokio::test]
async fn a_lease_whose_key_cannot_be_written_is_released() {
    let database = fresh().await;
    let (folder, manager) = (Folder::new(), leases(&database).await);
    let lease = manager.acquire("a").await.unwrap();
    let inner = folder.path("inner");
    std::fs::create_dir(&inner).unwrap();
    let key = inner.join("key");
    let arguments = ["acquire", "a", "--wait", "60s", "--key", text(&key)];
    let mut running = Running::start(tool_for(&database, &arguments));
    assert!(running.talk().await.starts_with("waiting for"));
    // It was there when the wait began.
    std::fs::remove_dir(&inner).unwrap();
    lease.release().await.unwrap();
    let ran = running.ended().await;
    assert_eq!((ran.exit, ran.data.as_str()), (71, ""), "{ran:?}");
    assert!(ran.talk.contains("the key cannot be written"), "{ran:?}");
    assert!(manager.get("a").await.unwrap().is_none(), "it is given back");
}

#[tokio::test]
async fn a_lease_whose_key_nobody_reads_is_released() {
    let database = fresh().await;
    let manager = leases(&database).await;
    let (reader, closed) = std::io::pipe().unwrap();
    drop(reader);
    let mut outputs = vec![Stdio::from(closed)];
    // A file system without space; only Linux has it.
    if let Ok(full) = File::options().write(true).open("/dev/full") {
        outputs.push(full.into());
    }
    for output in outputs {
        let mut command = tool_for(&database, &["acquire", "a"]);
        let process = command.stdout(output).kill_on_drop(true).spawn().unwrap();
        drop(command);
        let ended = soon("it ends", process.wait_with_output()).await.unwrap();
        let talk = String::from_utf8_lossy(&ended.stderr).into_owned();
        assert_eq!(ended.status.code(), Some(71), "{talk}");
        assert!(talk.contains("the key cannot be printed"), "{talk}");
        assert!(manager.get("a").await.unwrap().is_none(), "it is given back");
    }
}

/// Rust opens `/dev/null` in place of a closed output, and a key is written there with success.
#[tokio::test]
async fn a_key_for_a_closed_output_is_refused_beforehand() {
    let database = fresh().await;
    let manager = leases(&database).await;
    // Somebody else holds it: a call for the lease would exit with 75.
    let lease = manager.acquire("a").await.unwrap();
    for arguments in [&["acquire", "a", "--no-wait"][..], &["acquire", "a", "--no-wait", "--json"]]
    {
        let ran = run(redirected(&database, arguments, ">&-")).await;
        assert_eq!((ran.exit, ran.data.as_str()), (71, ""), "{ran:?}");
        assert!(ran.talk.contains("the key cannot be printed"), "{ran:?}");
    }
    lease.release().await.unwrap();
    let ran = run(redirected(&database, &["acquire", "a"], ">&-")).await;
    assert_eq!(ran.exit, 71, "{ran:?}");
    assert!(manager.get("a").await.unwrap().is_none(), "nothing is held");
}

/// The control of the test above: this lease ends with its ttl, as its caller wants.
#[tokio::test]
async fn a_key_that_its_caller_discards_is_discarded() {
    let database = fresh().await;
    let (folder, manager) = (Folder::new(), leases(&database).await);
    let ran = run(redirected(&database, &["acquire", "a"], ">/dev/null")).await;
    assert_eq!((ran.exit, ran.data.as_str()), (0, ""), "{ran:?}");
    assert!(manager.get("a").await.unwrap().is_some());
    // With a file for the key, the output has only a message.
    let key = folder.path("key");
    let ran = run(redirected(&database, &["acquire", "b", "--key", text(&key)], ">&-")).await;
    assert_eq!(ran.exit, 0, "{ran:?}");
    assert!(key.exists());
}

/// The binary, with its output redirected by a shell.
fn redirected(database: &Database, arguments: &[&str], redirection: &str) -> Command {
    let tool = tool_for(database, arguments);
    let mut command = Command::from(mongo_lease_testbed::command("sh"));
    command.args(["-c", &format!("exec \"$0\" \"$@\" {redirection}")]);
    command.arg(tool.as_std().get_program()).args(tool.as_std().get_args());
    for (variable, value) in tool.as_std().get_envs() {
        match value {
            Some(value) => command.env(variable, value),
            None => command.env_remove(variable),
        };
    }
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

#[tokio::test]
async fn a_key_file_stays_while_the_database_does_not_answer() {
    let server = lent_server();
    let database = server.database().await;
    migrate(&database).await;
    let folder = Folder::new();
    let key = folder.path("key");
    let acquire = ["acquire", "a", "--key", text(&key)];
    let ran = run(tool_at(server.uri(), database.name(), &acquire)).await;
    assert_eq!(ran.exit, 0, "{ran:?}");
    server.mongod().pause();
    for task in ["release", "renew"] {
        let arguments = [task, "--timeout", "1s", "--key", text(&key), "--json"];
        let ran = run(tool_at(server.uri(), database.name(), &arguments)).await;
        assert_eq!((ran.exit, &ran.json()["exit_code"]), (69, &69.into()), "{ran:?}");
        assert!(key.exists());
    }
    server.mongod().resume();
    let arguments = ["release", "--key", text(&key)];
    let ran = run(tool_at(server.uri(), database.name(), &arguments)).await;
    assert_eq!((ran.exit, folder.names().len()), (0, 0), "{ran:?}");
}

#[tokio::test]
async fn a_released_key_of_an_earlier_grant_leaves_the_new_file() {
    let database = fresh().await;
    let folder = Folder::new();
    let key = folder.path("key");
    acquired(&database, "a", &key, &[]).await;
    // The next holder waits with the same file, and writes it while this release is under way.
    let next = ["acquire", "a", "--wait", "60s", "--key", text(&key)];
    let mut next = Running::start(tool_for(&database, &next));
    assert!(next.talk().await.starts_with("waiting for"));
    let address = Server::shared().uri().trim_start_matches("mongodb://").to_owned();
    let proxy = mongo_lease_testbed::Proxy::start(address.split('/').next().unwrap());
    let arguments = ["release", "--key", text(&key)];
    let replies = proxy.hold_replies_to("update");
    let release = Running::start(tool_at(&proxy.uri(), database.name(), &arguments));
    assert_eq!(next.ended().await.exit, 0);
    replies.release();
    let ran = release.ended().await;
    assert_eq!(ran.exit, 0, "{ran:?}");
    assert_eq!(folder.names(), ["key"], "the key of the next holder");
    assert_eq!(super::released(&database, &key).await.exit, 0);
}

#[tokio::test]
async fn a_key_that_came_during_the_wait_is_left_alone() {
    let database = fresh().await;
    let folder = Folder::new();
    let (first, key) = (folder.path("first"), folder.path("key"));
    acquired(&database, "a", &first, &[]).await;
    let next = ["acquire", "a", "--wait", "60s", "--key", text(&key)];
    let mut next = Running::start(tool_for(&database, &next));
    assert!(next.talk().await.starts_with("waiting for"));
    // Another job gets its key at the same path meanwhile.
    acquired(&database, "b", &key, &[]).await;
    assert_eq!(super::released(&database, &first).await.exit, 0);
    let ran = next.ended().await;
    assert_eq!(ran.exit, 64, "{ran:?}");
    assert!(ran.talk.contains("the key of another lease, \"b\""), "{ran:?}");
    // Its own lease is free again, and the other key is as it was.
    acquired(&database, "a", &first, &["--no-wait"]).await;
    assert_eq!(super::released(&database, &key).await.exit, 0);
}
