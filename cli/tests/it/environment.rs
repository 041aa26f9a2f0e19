//! Options from the environment.

use mongo_lease::LeaseManager;
use mongo_lease_testbed::Server;
use tokio::process::Command;

use super::tool::{fresh, leases, run, tool, tool_for};

/// The binary, for the shared server, and with these variables.
fn with(variables: &[(&str, &str)], arguments: &[&str]) -> Command {
    let mut command = tool(arguments);
    command.env("MONGODB_URI", Server::shared().uri()).envs(variables.iter().copied());
    command
}

#[tokio::test]
async fn options_come_from_the_environment() {
    let database = fresh().await;
    let builder = LeaseManager::builder(&database).collection("jobs");
    let jobs = builder.ensure_indexes(true).build().await.unwrap();
    let variables = [
        ("MONGO_LEASE_DB", database.name()),
        ("MONGO_LEASE_COLLECTION", "jobs"),
        ("MONGO_LEASE_TTL", "5m"),
        ("MONGO_LEASE_OWNER", "nightly"),
    ];
    let ran = run(with(&variables, &["acquire", "a"])).await;
    assert_eq!(ran.exit, 0, "{ran:?}");
    let info = jobs.get("a").await.unwrap().expect("it is held");
    assert!(info.owner.unwrap().starts_with("nightly@"));
    let left = info.remaining.unwrap().as_secs();
    assert!((280..=301).contains(&left), "{left}");
    // The command line goes first.
    let arguments =
        ["acquire", "a", "--collection", "locks", "--ttl", "1m", "--owner", "me", "--no-wait"];
    let ran = run(with(&variables, &arguments)).await;
    assert_eq!(ran.exit, 0, "{ran:?}");
    let info = leases(&database).await.get("a").await.unwrap().expect("it is held");
    assert!(info.owner.unwrap().starts_with("me@") && info.remaining.unwrap().as_secs() <= 61);
}

#[tokio::test]
async fn a_bad_value_of_the_environment_says_where_it_is_from() {
    for (variable, value, arguments) in [
        ("MONGO_LEASE_TTL", "soon", &["run", "a", "--db", "b", "--", "echo", "--ttl"][..]),
        ("MONGO_LEASE_TTL", "", &["acquire", "a", "--db", "b"]),
        ("MONGO_LEASE_DB", "a.b", &["ls"]),
        ("MONGO_LEASE_DB", "", &["ls"]),
        ("MONGO_LEASE_COLLECTION", "a$b", &["ls", "--db", "b"]),
    ] {
        let ran = run(with(&[(variable, value)], arguments)).await;
        assert_eq!((ran.exit, ran.data.as_str()), (64, ""), "{variable}: {ran:?}");
        assert!(ran.talk.contains(variable), "{variable}: {ran:?}");
    }
    // A value of the command line is not blamed on the variable, nor is another mistake.
    for arguments in [
        &["run", "a", "--ttl", "later", "--", "true"][..],
        &["run", "a", "--collection", "a$b", "--db", "b", "--", "true"],
        &["run", "--no-wait"],
        &["acquire"],
    ] {
        let variables = [("MONGO_LEASE_TTL", "10s"), ("MONGO_LEASE_COLLECTION", "b")];
        let ran = run(with(&variables, arguments)).await;
        assert_eq!((ran.exit, ran.data.as_str()), (64, ""), "{arguments:?}: {ran:?}");
        assert!(!ran.talk.contains("MONGO_LEASE_"), "{arguments:?}: {ran:?}");
        let usage = ran.talk.lines().find(|line| line.starts_with("Usage:"));
        let usage = usage.unwrap_or_default();
        assert!(!usage.contains("--ttl") && !usage.contains("--collection"), "{ran:?}");
    }
}

#[tokio::test]
async fn neither_help_nor_a_mistake_shows_a_secret_variable() {
    let secret = "mongodb://app:s3cr3t-word@localhost/app";
    for variable in
        ["MONGO_LEASE_DB", "MONGO_LEASE_COLLECTION", "MONGO_LEASE_TTL", "MONGO_LEASE_OWNER"]
    {
        for arguments in [&["run", "--help"][..], &["ls", "--oops"], &["run", "a", "--", "true"]] {
            let mut command = tool(arguments);
            command.env(variable, secret);
            let ran = run(command).await;
            assert!(!ran.data.contains("s3cr3t"), "{variable}: {ran:?}");
            assert!(!ran.talk.contains("s3cr3t"), "{variable}: {ran:?}");
        }
    }
}

#[tokio::test]
async fn a_nested_run_inherits_the_options_and_its_own_lease() {
    let database = fresh().await;
    let builder = LeaseManager::builder(&database).collection("jobs");
    let jobs = builder.ensure_indexes(true).build().await.unwrap();
    let binary = super::tool::BINARY;
    let script = r#"echo "$MONGO_LEASE_NAME"
        exec "$0" run inner --uri "$1" -- sh -c '
            echo "$MONGO_LEASE_NAME"
            exec "$0" show inner --uri "$1"
        ' "$0" "$1""#;
    let uri = Server::shared().uri();
    let variables = [("MONGO_LEASE_DB", database.name()), ("MONGO_LEASE_COLLECTION", "jobs")];
    let arguments = ["run", "outer", "--", "sh", "-c", script, binary, uri];
    let ran = run(with(&variables, &arguments)).await;
    assert_eq!((ran.exit, ran.talk.as_str()), (0, ""), "{ran:?}");
    assert!(ran.data.starts_with("outer\ninner\nname      inner\n"), "{ran:?}");
    assert!(jobs.get("outer").await.unwrap().is_none());
    // A control: without the variables the inner one looks into another collection.
    let arguments = ["run", "outer", "--collection", "jobs", "--", "sh", "-c", script, binary, uri];
    let ran = run(tool_for(&database, &arguments)).await;
    assert_eq!(ran.exit, 64, "{ran:?}");
}
