use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use mongo_lease_testbed::{ReplicaSet, Server};
use mongodb::bson::{Document, doc};

/// Set in the process which [`nothing_is_left_of_a_process_that_was_killed`] starts and kills.
const OWNER: &str = "MONGO_LEASE_TESTBED_OWNER";

/// There is no event for the end of a process that is not our child, so we look.
fn wait_until_gone(pid: u32, folder: &Path) {
    let process = PathBuf::from(format!("/proc/{pid}/cmdline"));
    let runs = || match std::fs::read(&process) {
        Ok(line) => String::from_utf8_lossy(&line).contains(&*folder.to_string_lossy()),
        Err(_) => false,
    };
    let deadline = Instant::now() + Duration::from_secs(20);
    while runs() || folder.exists() {
        assert!(Instant::now() < deadline, "mongod {pid} or {} is left", folder.display());
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[tokio::test]
async fn data_survives_a_kill_and_a_restart() {
    let server = Server::start();
    let database = server.database().await;
    let leases = database.collection::<Document>("leases");
    leases.insert_one(doc! { "_id": 1 }).await.unwrap();
    let (pid, port) = (server.mongod().pid().unwrap(), server.mongod().port());
    server.mongod().kill();
    assert_eq!(server.mongod().pid(), None);
    server.mongod().kill();
    server.restart().await;
    assert_eq!(server.mongod().port(), port);
    assert_ne!(server.mongod().pid().unwrap(), pid);
    assert_eq!(leases.count_documents(doc! {}).await.unwrap(), 1);
}

#[tokio::test]
async fn a_paused_server_answers_after_it_is_resumed() {
    let server = Server::start();
    let database = server.database().await;
    server.mongod().pause();
    let ping = tokio::spawn(async move { database.run_command(doc! { "ping": 1 }).await });
    assert!(server.mongod().pid().is_some(), "a pause is not the end");
    server.mongod().resume();
    ping.await.unwrap().unwrap();
}

#[test]
fn a_dropped_server_is_gone_even_when_it_was_paused() {
    for pause in [false, true] {
        let server = Server::start();
        let (pid, folder) = (server.mongod().pid().unwrap(), server.mongod().data_folder());
        if pause {
            server.mongod().pause();
        }
        drop(server);
        assert!(!folder.exists());
        wait_until_gone(pid, &folder);
    }
}

#[test]
fn a_worker_process_of_a_test_does_not_keep_a_server_alive() {
    let server = Server::start();
    let (pid, folder) = (server.mongod().pid().unwrap(), server.mongod().data_folder());
    let mut worker = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
    drop(server);
    wait_until_gone(pid, &folder);
    drop(worker.stdin.take());
    worker.wait().unwrap();
}

/// Not a test of its own: the process which the next one kills.
#[test]
fn owner_of_a_server() {
    if std::env::var_os(OWNER).is_none() {
        return;
    }
    let own = Server::start();
    let paused = Server::start();
    paused.mongod().pause();
    for server in [&own, &paused, Server::shared_standalone()] {
        let mongod = server.mongod();
        eprintln!("OWNS {} {}", mongod.pid().unwrap(), mongod.data_folder().display());
    }
    eprintln!("OWNS ALL");
    // Until it is killed: the input ends with the life of the test.
    let _end = std::io::stdin().lines().next();
}

#[test]
fn nothing_is_left_of_a_process_that_was_killed() {
    let mut owner = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "process::owner_of_a_server", "--nocapture"])
        .env(OWNER, "1")
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let lines = BufReader::new(owner.stderr.take().unwrap()).lines().map_while(Result::ok);
    let owned: Vec<(u32, PathBuf)> = lines
        .filter_map(|line| Some(line.strip_prefix("OWNS ")?.to_owned()))
        .take_while(|owned| owned != "ALL")
        .map(|owned| {
            let (pid, folder) = owned.split_once(' ').unwrap();
            (pid.parse().unwrap(), folder.into())
        })
        .collect();
    assert_eq!(owned.len(), 3);
    assert!(owned.iter().all(|(_, folder)| folder.exists()));
    owner.kill().unwrap();
    owner.wait().unwrap();
    for (pid, folder) in owned {
        wait_until_gone(pid, &folder);
    }
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn each_node_has_its_own_environment_also_behind_a_restart() {
    const NAME: &str = "MONGO_LEASE_TESTBED_NODE";
    let environments =
        ["zero", "one", "two"].map(|value| vec![(NAME.to_owned(), value.to_owned())]);
    let set = ReplicaSet::try_start_in(environments).unwrap();
    set.restart(2).await;
    for (node, value) in ["zero", "one", "two"].into_iter().enumerate() {
        let pid = set.node(node).pid().unwrap();
        let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap();
        let expected = format!("{NAME}={value}");
        let mut variables = environment.split(|byte| *byte == 0);
        assert!(variables.any(|variable| variable == expected.as_bytes()), "{node}");
        let program = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap();
        assert_eq!(program.trim(), "mongod", "the process is the server itself");
    }
}
