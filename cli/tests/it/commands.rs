//! The command's arguments and environment, and the exit code for its end.

use std::process::Stdio;

use mongo_lease_testbed::command;
use mongodb::bson::doc;
use tokio::io::AsyncWriteExt;

use super::tool::{Running, fresh, leases, run, soon, tool, tool_for};

#[tokio::test]
async fn the_exit_code_is_the_commands() {
    let database = fresh().await;
    for (script, exit) in [("exit 0", 0), ("exit 7", 7), ("exit 255", 255), ("kill -9 $$", 137)] {
        let ran = run(tool_for(&database, &["run", "a", "--", "sh", "-c", script])).await;
        assert_eq!((ran.exit, ran.data.as_str(), ran.talk.as_str()), (exit, "", ""), "{script}");
    }
    assert!(leases(&database).await.get("a").await.unwrap().is_none(), "it is given back");
}

#[tokio::test]
async fn a_failed_start_exits_like_env_and_leaves_no_lease() {
    let database = fresh().await;
    for (command, exit, why) in [
        ("no-such-command", 127, "No such file"),
        ("/no/such/file", 127, "No such file"),
        ("/etc/passwd", 126, "Permission denied"),
        ("/tmp", 126, "Permission denied"),
    ] {
        let ran = run(tool_for(&database, &["run", "a", "--", command])).await;
        assert_eq!((ran.exit, ran.data.as_str()), (exit, ""), "{ran:?}");
        assert!(ran.talk.contains(command) && ran.talk.contains(why), "{ran:?}");
        assert!(leases(&database).await.get("a").await.unwrap().is_none());
    }
}

#[tokio::test]
async fn the_lease_is_in_the_environment_and_the_password_is_not() {
    let database = fresh().await;
    let script = "env | grep -E '^MONGO' | sort";
    let ran = run(tool_for(&database, &["run", "nightly", "--", "sh", "-c", script])).await;
    let lines: Vec<&str> = ran.data.lines().collect();
    let [expires_at, name, token] = lines[..] else { panic!("{ran:?}") };
    assert_eq!(name, "MONGO_LEASE_NAME=nightly");
    let token: u64 = token.strip_prefix("MONGO_LEASE_TOKEN=").unwrap().parse().unwrap();
    let date = expires_at.strip_prefix("MONGO_LEASE_EXPIRES_AT=").unwrap();
    assert!(mongodb::bson::DateTime::parse_rfc3339_str(date).is_ok(), "{date}");
    let second = ["run", "nightly", "--", "sh", "-c", "echo $MONGO_LEASE_TOKEN"];
    let second: u64 = run(tool_for(&database, &second)).await.data.trim().parse().unwrap();
    assert!(second > token, "a later grant has a greater token");
}

#[tokio::test]
async fn a_name_goes_to_the_command_as_it_is() {
    let database = fresh().await;
    let name = "a b\n$(id) \u{1b}[31m'\"";
    let ran = run(tool_for(&database, &["run", name, "--", "printenv", "MONGO_LEASE_NAME"])).await;
    assert_eq!((ran.exit, ran.data), (0, format!("{name}\n")));
}

#[tokio::test]
async fn the_command_is_seen_as_the_holder_while_it_runs() {
    let database = fresh().await;
    let command =
        tool_for(&database, &["run", "a", "--owner", "billing", "--ttl", "45s", "--", "cat"]);
    let mut running = Running::start_with_input(command);
    running.tell("ready").await;
    assert_eq!(running.line().await, "ready", "standard input is passed on");
    let info = leases(&database).await.get("a").await.unwrap().expect("it is held");
    let owner = info.owner.unwrap();
    assert!(owner.starts_with("billing@"), "{owner}");
    assert_eq!(owner.rsplit_once(':').unwrap().1, running.pid().as_raw_nonzero().to_string());
    let ttl = info.remaining.unwrap().as_secs();
    assert!((40..=46).contains(&ttl), "{ttl}");
    // The end of its input is the end of `cat`.
    assert_eq!(running.ended().await.exit, 0);
}

#[tokio::test]
async fn a_shell_gets_the_words_as_one_line() {
    let database = fresh().await;
    let piped = ["run", "a", "--shell", "--", "echo one two | tr a-z A-Z; exit 5"];
    let ran = run(tool_for(&database, &piped)).await;
    assert_eq!((ran.exit, ran.data.as_str()), (5, "ONE TWO\n"), "{ran:?}");
    let words = ["run", "a", "--shell", "--", "echo", "$MONGO_LEASE_NAME", "&&", "exit", "6"];
    let ran = run(tool_for(&database, &words)).await;
    assert_eq!((ran.exit, ran.data.as_str()), (6, "a\n"), "{ran:?}");
    // Without a shell, no character has a special meaning.
    let plain = ["run", "a", "--", "echo", "$MONGO_LEASE_NAME", "&&"];
    assert_eq!(run(tool_for(&database, &plain)).await.data, "$MONGO_LEASE_NAME &&\n");
}

#[tokio::test]
async fn a_lease_that_was_lost_by_the_commands_end_is_told_of() {
    let database = fresh().await;
    let script = "echo ready; read line; exit 4";
    let command = tool_for(&database, &["run", "a", "--", "sh", "-c", script]);
    let mut running = Running::start_with_input(command);
    assert_eq!(running.line().await, "ready");
    // Before the first renewal could detect it.
    let locks = database.collection::<mongodb::bson::Document>("locks");
    locks.delete_one(doc! { "name": "a" }).await.unwrap();
    running.tell("").await;
    let ran = running.ended().await;
    assert_eq!(ran.exit, 4, "the command was done, whatever came of the lease");
    assert!(ran.talk.contains("\"a\" was no longer held"), "{ran:?}");
}

#[tokio::test]
async fn leftover_processes_are_killed_before_the_lease_is_released() {
    let database = fresh().await;
    let script = "trap '' TERM; sleep 1000 & echo ready; exit 3";
    let arguments = ["run", "a", "--ttl", "30s", "--grace", "200ms", "--", "sh", "-c", script];
    let mut running = Running::start(tool_for(&database, &arguments));
    assert_eq!(running.line().await, "ready");
    // It ends only when no process has its output any more.
    let ran = running.ended().await;
    assert_eq!(ran.exit, 3, "{ran:?}");
    assert!(ran.talk.contains("left processes behind"), "{ran:?}");
    assert!(leases(&database).await.get("a").await.unwrap().is_none());
}

#[tokio::test]
async fn a_command_line_that_makes_no_sense_is_a_usage_error() {
    let database = fresh().await;
    for arguments in [
        &["run", "a"][..],
        &["run", "a", "true"],
        &["run", "--", "true"],
        &["run", "a", "--wait", "1s", "--no-wait", "--", "true"],
        &["run", "a", "--wait", "soon", "--", "true"],
        &["run", "a", "--ttl", "999ms", "--", "true"],
        &["run", "a", "--grace", "11s", "--", "true"],
        &["run", "a", "--ttl", "3s", "--grace", "1001ms", "--", "true"],
        &["run", "", "--", "true"],
        &["run", "a", "--json", "--", "true"],
        &["show"],
        &["show", ""],
        &["release", "a"],
        &["release", "a", "--force", "--value", "v"],
        &["release"],
        &["release", "--force"],
        &["release", "a", "--key", "k"],
        &["release", "--key", "k", "--force"],
        &["acquire"],
        &["acquire", ""],
        &["acquire", "a", "--ttl", "99ms"],
        &["acquire", "a", "--wait", "1s", "--no-wait"],
        &["renew"],
        &["renew", "a"],
        &["run", "a", "--on-lost", "--", "true"],
        &["man"],
        &["ls", "--collection", "a$b"],
        &["ls", "--timeout", "0s"],
        &["completions", "no-shell"],
        &["sideways"],
        &[],
    ] {
        let ran = run(tool_for(&database, arguments)).await;
        assert_eq!((ran.exit, ran.data.as_str()), (64, ""), "{arguments:?}: {ran:?}");
        assert!(!ran.talk.is_empty(), "{arguments:?}");
    }
    for arguments in [&["ls"][..], &["ls", "--uri", "mongodb://localhost:1"]] {
        let ran = run(tool(arguments)).await;
        assert_eq!((ran.exit, ran.data.as_str()), (64, ""), "{arguments:?}: {ran:?}");
    }
    let grace = run(tool_for(&database, &["run", "a", "--grace", "11s", "--", "true"])).await;
    assert!(grace.talk.contains("--grace 11s is too long for --ttl 30s"), "{grace:?}");
}

#[tokio::test]
async fn a_usage_line_does_not_demand_what_the_environment_has() {
    let database = fresh().await;
    let ran = run(tool_for(&database, &["ls", "--nonsense"])).await;
    assert_eq!(ran.exit, 64, "{ran:?}");
    assert!(ran.talk.contains("Usage: mongo-lease ls"), "{ran:?}");
    assert!(!ran.talk.contains("--uri"), "{ran:?}");
    let help = run(tool(&["ls", "--help"])).await;
    assert!(help.data.contains("--uri <URI>") && help.data.contains("MONGODB_URI"), "{help:?}");
}

/// The driver's tasks used to panic in about one of 200 runs.
#[tokio::test]
async fn no_run_panics_at_its_end() {
    let is_long = std::env::var_os("MONGO_LEASE_LONG").is_some_and(|value| value == "1");
    let database = fresh().await;
    for _ in 0..if is_long { 20 } else { 5 } {
        let started = (0..15).map(|_| run(tool_for(&database, &["show", "nobody"])));
        for ran in futures_util::future::join_all(started).await {
            assert_eq!((ran.exit, ran.talk.as_str()), (1, "nobody holds \"nobody\"\n"));
        }
    }
}

#[tokio::test]
async fn the_help_tells_the_exit_codes() {
    for arguments in [&["--help"][..], &["run", "--help"]] {
        let ran = run(tool(arguments)).await;
        assert_eq!((ran.exit, ran.talk.as_str()), (0, ""));
        for line in
            ["64  usage", "69  the database", "75  busy", "76  lost", "78  ", "126  ", "127  "]
        {
            assert!(ran.data.contains(line), "{line}: {ran:?}");
        }
        assert!(!ran.data.contains("guard"), "{ran:?}");
    }
    assert_eq!(run(tool(&["--version"])).await.exit, 0);
}

#[tokio::test]
async fn every_shell_gets_its_completions() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let ran = run(tool(&["completions", shell])).await;
        assert_eq!((ran.exit, ran.talk.as_str()), (0, ""), "{shell}");
        for word in ["mongo-lease", "release", "no-wait"] {
            assert!(ran.data.contains(word), "{shell}: {word}");
        }
    }
    // The one shell that exists wherever these tests run accepts the script.
    let script = run(tool(&["completions", "bash"])).await.data;
    let mut bash = tokio::process::Command::from(command("bash"));
    let check = bash.arg("-n").stdin(Stdio::piped()).spawn();
    let mut check = check.expect("bash is there");
    check.stdin.take().unwrap().write_all(script.as_bytes()).await.unwrap();
    assert!(soon("bash has read it", check.wait()).await.unwrap().success());
}
