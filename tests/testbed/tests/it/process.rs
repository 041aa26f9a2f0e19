use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use mongo_lease_testbed::{LineProcess, Server, command};
use mongodb::bson::{Document, doc};

/// Set in the process which [`nothing_is_left_of_a_process_that_was_killed`] starts and kills.
const OWNER: &str = "MONGO_LEASE_TESTBED_OWNER";

/// There is no event for the end of a process that is not our child, so this polls.
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
    let server = Server::start();
    let (pid, folder) = (server.mongod().pid().unwrap(), server.mongod().data_folder());
    server.mongod().pause();
    drop(server);
    assert!(!folder.exists());
    wait_until_gone(pid, &folder);
}

#[tokio::test]
async fn a_worker_process_of_a_test_does_not_keep_a_server_alive() {
    let server = Server::start();
    let (pid, folder) = (server.mongod().pid().unwrap(), server.mongod().data_folder());
    let worker = LineProcess::start(command("cat")).unwrap();
    drop(server);
    assert!(!folder.exists());
    wait_until_gone(pid, &folder);
    assert!(worker.ended().await.unwrap().status.success());
}

/// Not a test by itself: the process that the next one kills.
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

#[tokio::test]
async fn nothing_is_left_of_a_process_that_was_killed() {
    let mut program = command(std::env::current_exe().unwrap());
    program.args(["--exact", "process::owner_of_a_server", "--nocapture"]).env(OWNER, "1");
    let mut owner = LineProcess::start(program).unwrap();
    let mut owned: Vec<(u32, PathBuf)> = Vec::new();
    loop {
        let line = owner.error_line().await.unwrap();
        match line.strip_prefix("OWNS ").map(|owned| owned.split_once(' ')) {
            Some(Some((pid, folder))) => owned.push((pid.parse().unwrap(), folder.into())),
            Some(None) => break,
            None => {}
        }
    }
    assert_eq!(owned.len(), 3);
    assert!(owned.iter().all(|(_, folder)| folder.exists()));
    owner.kill().await.unwrap();
    for (pid, folder) in owned {
        wait_until_gone(pid, &folder);
    }
}

/// Set in the process that ignores signals.
#[cfg(target_os = "linux")]
const IGNORING: &str = "MONGO_LEASE_TESTBED_IGNORING";

#[cfg(target_os = "linux")]
#[test]
fn a_child_ignores_no_signal_whatever_we_ignore() {
    // SIGHUP, SIGINT and SIGQUIT, as bits of a mask.
    const IGNORED: u64 = 0b111;
    let ignored = |status: &str| {
        let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).unwrap();
        u64::from_str_radix(mask.trim(), 16).unwrap() & IGNORED
    };
    if std::env::var_os(IGNORING).is_none() {
        // As `nohup` and a script's background do.
        let ran = command("sh")
            .args(["-c", "trap '' HUP INT QUIT; exec \"$@\"", "sh"])
            .arg(std::env::current_exe().unwrap())
            .args(["--exact", "process::a_child_ignores_no_signal_whatever_we_ignore"])
            .env(IGNORING, "1")
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&ran.stdout);
        assert!(ran.status.success() && said.contains("1 passed"), "{said}");
        return;
    }
    assert_eq!(ignored(&std::fs::read_to_string("/proc/self/status").unwrap()), IGNORED);
    let child = command("cat").arg("/proc/self/status").output().unwrap();
    assert_eq!(ignored(&String::from_utf8(child.stdout).unwrap()), 0);
}
