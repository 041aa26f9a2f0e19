//! `run --limit`, `--permits` and `--shared`: commands that hold a lease at the same time.

use mongo_lease_testbed::TestDatabase;
use rustix::process::Signal;

use super::tool::{Ran, Running, fresh, leases, run, tool, tool_for};

/// A command that runs until it gets a line.
const GOES_ON: [&str; 4] = ["--", "sh", "-c", "echo ready; read line; echo done"];

/// A command that runs under the lease `a`, with these options.
async fn running(database: &TestDatabase, options: &[&str]) -> Running {
    let mut arguments = vec!["run", "a"];
    arguments.extend(options);
    arguments.extend(GOES_ON);
    let mut running = Running::start_with_input(tool_for(database, &arguments));
    assert_eq!(running.line().await, "ready");
    running
}

async fn finished(mut running: Running) {
    running.tell("go").await;
    let ran = running.ended().await;
    assert_eq!((ran.exit, ran.data.as_str()), (0, "done\n"), "{ran:?}");
}

/// The same, of a command that ends at once and does not wait for the lease.
async fn tried(database: &TestDatabase, options: &[&str]) -> Ran {
    let mut arguments = vec!["run", "a", "--no-wait"];
    arguments.extend(options);
    arguments.extend(["--", "true"]);
    run(tool_for(database, &arguments)).await
}

/// The permits in use, and the limit in force.
async fn in_use(database: &TestDatabase) -> (Option<u32>, Option<u32>) {
    let info = leases(database).await.get("a").await.unwrap().expect("it is held");
    (info.in_use, info.limit)
}

#[tokio::test]
async fn as_many_commands_run_at_a_time_as_the_limit_says() {
    let database = fresh().await;
    let others = leases(&database).await;
    let others = others.semaphore("a", 3).acquire().await.unwrap();
    let (first, second) =
        (running(&database, &["--limit", "3"]).await, running(&database, &["--limit", "3"]).await);
    assert_eq!(in_use(&database).await, (Some(3), Some(3)));
    let refused = tried(&database, &["--limit", "3"]).await;
    assert_eq!(refused.exit, 75, "{refused:?}");
    let told = "error: lease \"a\" has 3 of 3 permits in use; the first expires in ";
    assert!(refused.talk.starts_with(told), "{refused:?}");
    finished(first).await;
    let granted = tried(&database, &["--limit", "3"]).await;
    assert_eq!((granted.exit, granted.talk.as_str()), (0, ""), "{granted:?}");
    finished(second).await;
    others.release().await.unwrap();
    assert!(leases(&database).await.get("a").await.unwrap().is_none(), "it is given back");
}

#[tokio::test]
async fn a_command_can_have_several_of_the_permits() {
    let database = fresh().await;
    let first = running(&database, &["--limit", "5", "--permits", "3"]).await;
    assert_eq!(in_use(&database).await, (Some(3), Some(5)));
    let refused = tried(&database, &["--limit", "5", "--permits", "3"]).await;
    assert!(refused.talk.contains("has 3 of 5 permits in use"), "{refused:?}");
    let granted = tried(&database, &["--limit", "5", "--permits", "2"]).await;
    assert_eq!(granted.exit, 0, "{granted:?}");
    finished(first).await;
}

#[tokio::test]
async fn a_command_waits_for_a_permit_and_says_what_for() {
    let database = fresh().await;
    let others = leases(&database).await;
    let held = others.semaphore("a", 2).acquire().permits(2).await.unwrap();
    let arguments = ["run", "a", "--limit", "2", "--wait", "60s", "--", "echo", "mine"];
    let mut waiting = Running::start(tool_for(&database, &arguments));
    let said = waiting.talk().await;
    let told = "waiting for \"a\": 2/2 permits are in use, and the first holder has ";
    assert!(said.starts_with(told) && said.ends_with("s left"), "{said}");
    held.release().await.unwrap();
    assert_eq!(waiting.line().await, "mine");
    assert_eq!(waiting.ended().await.exit, 0);
}

#[tokio::test]
async fn shared_runs_go_together_and_exclude_the_others() {
    let database = fresh().await;
    let readers =
        [running(&database, &["--shared"]).await, running(&database, &["--shared"]).await];
    assert_eq!(in_use(&database).await, (Some(2), Some(1_000)));
    let writer = tried(&database, &[]).await;
    assert_eq!(writer.exit, 75, "{writer:?}");
    assert!(writer.talk.contains("lease \"a\" is held by several"), "{writer:?}");
    for reader in readers {
        finished(reader).await;
    }
    let writer = running(&database, &[]).await;
    let reader = tried(&database, &["--shared"]).await;
    assert_eq!(reader.exit, 75, "{reader:?}");
    assert!(reader.talk.contains("lease \"a\" is held by mongo-lease@"), "{reader:?}");
    finished(writer).await;
    assert_eq!(tried(&database, &["--shared"]).await.exit, 0);
}

/// Nobody is left who could release it: the permit is free when it expires.
#[tokio::test]
async fn a_killed_run_frees_its_permit_after_its_ttl() {
    let database = fresh().await;
    let others = leases(&database).await;
    let _held = others.semaphore("a", 2).acquire().await.unwrap();
    let killed = running(&database, &["--limit", "2", "--ttl", "1s"]).await;
    killed.signal(Signal::KILL);
    let arguments = ["run", "a", "--limit", "2", "--wait", "60s", "--", "echo", "mine"];
    let ran = run(tool_for(&database, &arguments)).await;
    assert_eq!((ran.exit, ran.data.as_str()), (0, "mine\n"), "{ran:?}");
}

/// Before anything is sent: none of them names a server.
#[tokio::test]
async fn options_that_exclude_each_other_are_refused_before_all_else() {
    for (options, told) in [
        (&["--limit", "0"][..], "'0' for '--limit <N>'"),
        (&["--limit", "1001"], "1001 is not in 1..=1000"),
        (&["--limit", "many"], "'many' for '--limit <N>'"),
        (&["--limit", "5", "--permits", "0"], "'0' for '--permits <K>'"),
        (&["--limit", "5", "--permits", "6"], "--permits 6 is more than --limit 5"),
        (&["--permits", "2"], "--limit <N>"),
        (&["--shared", "--limit", "5"], "'--shared' cannot be used with '--limit <N>'"),
        (&["--shared", "--permits", "1"], "cannot be used with '--permits <K>'"),
    ] {
        let mut arguments = vec!["run", "a"];
        arguments.extend(options);
        arguments.extend(["--", "echo", "no"]);
        let ran = run(tool(&arguments)).await;
        assert_eq!((ran.exit, ran.data.as_str()), (64, ""), "{options:?}: {ran:?}");
        assert!(ran.talk.contains(told), "{options:?}: {ran:?}");
    }
}

#[tokio::test]
async fn acquire_refuses_to_share_a_lease_and_says_why() {
    for options in [&["--limit", "5"][..], &["--permits", "2"], &["--shared"]] {
        let mut arguments = vec!["acquire", "a"];
        arguments.extend(options);
        let ran = run(tool(&arguments)).await;
        assert_eq!((ran.exit, ran.data.as_str()), (64, ""), "{options:?}: {ran:?}");
        let told = format!(
            "error: `acquire` has no {option}: a key names the holder of an exclusive lease; \
             `mongo-lease run {option}` shares a lease for as long as a command runs",
            option = options[0]
        );
        assert_eq!(ran.talk.trim_end(), told);
        let help = run(tool(&["acquire", "--help"])).await;
        assert!(!help.data.contains(options[0]), "{}", help.data);
    }
}
