//! `acquire`, `renew` and `release --key`: a lease that goes from one process to another.

mod files;
mod interrupted;

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use mongo_lease_testbed::{Server, command};
use mongodb::bson::Document;
use serde_json::Value;
use tempfile::TempDir;
use tokio::process::Command;

use super::tool::{BINARY, Ran, Running, fresh, leases, run, soon, tool, tool_for};

/// A folder for key files.
struct Folder(TempDir);

impl Folder {
    fn new() -> Folder {
        Folder(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// The names of the files in it, also hidden ones.
    fn names(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.0.path()).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names.collect()
    }
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// Runs `acquire NAME --key FILE` with more options, which must succeed.
async fn acquired(database: &mongodb::Database, name: &str, key: &Path, more: &[&str]) -> Ran {
    let mut arguments = vec!["acquire", name, "--key", text(key)];
    arguments.extend(more);
    let ran = run(tool_for(database, &arguments)).await;
    assert_eq!(ran.exit, 0, "{ran:?}");
    ran
}

async fn released(database: &mongodb::Database, key: &Path) -> Ran {
    run(tool_for(database, &["release", "--key", text(key)])).await
}

#[tokio::test]
async fn a_lease_goes_to_another_process_by_its_key_file() {
    let database = fresh().await;
    let (folder, manager) = (Folder::new(), leases(&database).await);
    let key = folder.path("key");
    let ran = acquired(&database, "a", &key, &["--owner", "deploy"]).await;
    assert!(ran.data.starts_with("\"a\" is held until 20"), "{ran:?}");
    assert_eq!(ran.talk, "");
    let mode = std::fs::metadata(&key).unwrap().permissions().mode() & 0o7777;
    assert_eq!((mode, folder.names()), (0o600, vec!["key".to_owned()]));
    let info = manager.get("a").await.unwrap().expect("it stays held");
    assert!(info.owner.unwrap().starts_with("deploy@"));
    let left = info.remaining.unwrap().as_secs();
    assert!((3_500..=3_601).contains(&left), "an hour by default: {left}");

    let written = std::fs::read_to_string(&key).unwrap();
    let object: Value = serde_json::from_str(&written).unwrap();
    let fields: Vec<&String> = object.as_object().unwrap().keys().collect();
    let expected = ["version", "database", "collection", "name", "value", "grant", "token"];
    assert_eq!(fields, expected);
    assert!(!written.contains("mongodb"), "{written}");
    let busy = run(tool_for(&database, &["run", "a", "--no-wait", "--", "true"])).await;
    assert_eq!(busy.exit, 75, "{busy:?}");

    let ran = released(&database, &key).await;
    assert_eq!((ran.exit, ran.data.as_str()), (0, "\"a\" is released\n"), "{ran:?}");
    assert!(manager.get("a").await.unwrap().is_none());
    assert!(folder.names().is_empty());
    let again = released(&database, &key).await;
    assert_eq!((again.exit, again.data.as_str()), (1, ""), "{again:?}");
    assert!(again.talk.contains("there is no key file"), "{again:?}");
}

#[tokio::test]
async fn a_key_goes_through_a_pipe_too() {
    let database = fresh().await;
    let ran = run(tool_for(&database, &["acquire", "a b", "--ttl", "1m"])).await;
    assert_eq!((ran.exit, ran.talk.as_str()), (0, ""), "{ran:?}");
    assert_eq!(ran.json()["name"], "a b");
    for (arguments, exit) in [
        (&["renew", "--key", "-"][..], 0),
        (&["release", "--key", "-"], 0),
        (&["release", "--key", "-"], 1),
        (&["renew", "--key", "-"], 76),
    ] {
        let mut running = Running::start_with_input(tool_for(&database, arguments));
        running.tell(ran.data.trim()).await;
        let ended = running.ended().await;
        assert_eq!(ended.exit, exit, "{arguments:?}: {ended:?}");
    }
    assert!(leases(&database).await.get("a b").await.unwrap().is_none());
}

#[tokio::test]
async fn a_release_after_the_ttl_says_so_if_nobody_took_it() {
    let database = fresh().await;
    let (folder, manager) = (Folder::new(), leases(&database).await);
    let key = folder.path("key");
    acquired(&database, "a", &key, &["--ttl", "1s"]).await;
    soon("it expires", async { while manager.get("a").await.unwrap().is_some() {} }).await;
    let ran = released(&database, &key).await;
    assert_eq!(ran.exit, 1, "{ran:?}");
    assert!(ran.data.starts_with("\"a\" had expired"), "{ran:?}");
    assert!(folder.names().is_empty(), "the key is good for nothing any more");
}

#[tokio::test]
async fn a_release_after_the_ttl_leaves_the_next_holder_alone() {
    let database = fresh().await;
    let (folder, manager) = (Folder::new(), leases(&database).await);
    let key = folder.path("key");
    acquired(&database, "a", &key, &["--ttl", "1s"]).await;
    let next = manager.acquire("a").await.unwrap();
    let renewal = run(tool_for(&database, &["renew", "--key", text(&key)])).await;
    assert_eq!((renewal.exit, renewal.data.as_str()), (76, ""), "{renewal:?}");
    assert!(renewal.talk.contains("has taken it over"), "{renewal:?}");
    let arguments = ["release", "--key", text(&key), "--json"];
    let ran = run(tool_for(&database, &arguments)).await;
    let report = ran.json();
    assert_eq!((ran.exit, &report["status"]), (1, &"not_held".into()), "{ran:?}");
    assert!(report["owner"].as_str().unwrap().starts_with("test@"), "{ran:?}");
    next.renew().await.unwrap();
    assert!(folder.names().is_empty());
}

#[tokio::test]
async fn a_renewal_prolongs_the_lease_and_keeps_the_key() {
    let database = fresh().await;
    let (folder, manager) = (Folder::new(), leases(&database).await);
    let key = folder.path("key");
    acquired(&database, "a", &key, &["--ttl", "1m"]).await;
    let written = std::fs::read(&key).unwrap();
    let first = manager.get("a").await.unwrap().unwrap().expires_at.unwrap();
    let ran = run(tool_for(&database, &["renew", "--key", text(&key)])).await;
    assert_eq!(ran.exit, 0, "{ran:?}");
    let second = manager.get("a").await.unwrap().unwrap().expires_at.unwrap();
    assert!(second > first, "{first}, {second}");
    assert!(ran.data.starts_with("\"a\" is held until 20"), "{ran:?}");

    let longer = ["renew", "--key", text(&key), "--ttl", "10m", "--json"];
    let ran = run(tool_for(&database, &longer)).await;
    let report = ran.json();
    assert_eq!((ran.exit, &report["status"]), (0, &"renewed".into()), "{ran:?}");
    let third = manager.get("a").await.unwrap().unwrap().expires_at.unwrap();
    assert!(third > second + std::time::Duration::from_secs(500), "{second}, {third}");
    let told = mongodb::bson::DateTime::parse_rfc3339_str(report["expires_at"].as_str().unwrap());
    assert_eq!(told.unwrap().timestamp_millis(), third.timestamp_millis());
    assert_eq!(std::fs::read(&key).unwrap(), written, "the key does not change");
    // The variable is for new leases.
    let mut with_variable = tool_for(&database, &["renew", "--key", text(&key)]);
    with_variable.env("MONGO_LEASE_TTL", "oops");
    assert_eq!(run(with_variable).await.exit, 0);

    let forced = run(tool_for(&database, &["release", "a", "--force"])).await;
    assert_eq!(forced.exit, 0, "{forced:?}");
    let ran = run(tool_for(&database, &longer)).await;
    assert_eq!((ran.exit, &ran.json()["exit_code"]), (76, &76.into()), "{ran:?}");
}

#[tokio::test]
async fn the_result_of_an_acquire_is_json_where_it_is_wanted() {
    let database = fresh().await;
    let (folder, manager) = (Folder::new(), leases(&database).await);
    let ran = run(tool_for(&database, &["acquire", "a", "--json"])).await;
    let report = ran.json();
    assert_eq!((&report["status"], &report["key_file"]), (&"acquired".into(), &Value::Null));
    assert_eq!(report["key"]["value"], report["value"]);
    assert_eq!(report["key"]["token"], report["token"]);
    let key = folder.path("key");
    let ran = acquired(&database, "b", &key, &["--json"]).await;
    let report = ran.json();
    assert_eq!((&report["key_file"], &report["key"]), (&text(&key).into(), &Value::Null));
    let info = manager.get("b").await.unwrap().unwrap();
    assert_eq!(info.value.as_deref(), report["value"].as_str());
    let busy = run(tool_for(&database, &["acquire", "b", "--no-wait", "--json"])).await;
    assert_eq!((busy.exit, &busy.json()["exit_code"]), (75, &75.into()), "{busy:?}");
}

/// As `ExecStartPre`, `ExecStart` and `ExecStopPost` of a service, each a process of its own.
#[tokio::test]
async fn a_script_that_acquires_and_releases_excludes_another() {
    const SCRIPT: &str = r#"
        set -e
        "$MONGO_LEASE" acquire job --wait 60s --ttl 10m --key "$1" > /dev/null
        stop_post() { "$MONGO_LEASE" release --key "$1" > /dev/null; }
        trap 'stop_post "$1"' EXIT
        for step in 1 2 3; do
            echo "$2" >> "$3"
            "$MONGO_LEASE" renew --key "$1" > /dev/null
        done
    "#;
    let database = fresh().await;
    let folder = Folder::new();
    let log = folder.path("log");
    let script = |name: &str| {
        let mut shell = Command::from(command("sh"));
        shell.args(["-c", SCRIPT, "sh", text(&folder.path(name)), name, text(&log)]);
        shell.env("MONGO_LEASE", BINARY).env("MONGODB_URI", Server::shared().uri());
        shell.env("MONGO_LEASE_DB", database.name());
        shell.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        run(shell)
    };
    let scripts = ["one", "two", "three"].map(script);
    for ran in futures_util::future::join_all(scripts).await {
        assert_eq!((ran.exit, ran.data.as_str()), (0, ""), "{ran:?}");
    }
    let written = std::fs::read_to_string(&log).unwrap();
    let mut lines: Vec<&str> = written.lines().collect();
    assert_eq!(lines.len(), 9, "{written}");
    lines.dedup();
    assert_eq!(lines.len(), 3, "they ran one after the other: {written}");
    assert_eq!(folder.names(), ["log"]);
    let locks = database.collection::<Document>("locks");
    assert_eq!(locks.count_documents(mongodb::bson::doc! {}).await.unwrap(), 0);
}
