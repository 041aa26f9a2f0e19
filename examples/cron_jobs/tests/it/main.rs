//! Two machines with one schedule: two processes of the example.

#![cfg(unix)]

use mongo_lease_testbed::{LineProcess, Server, command};
use rustix::process::Signal;

/// A machine whose scheduler starts the job every second.
async fn machine(database: &str) -> LineProcess {
    let mut program = command(env!("CARGO_BIN_EXE_cron_jobs"));
    program.env("MONGODB_URI", Server::shared().uri());
    program.env("CRON_JOBS_DATABASE", database).env("CRON_JOBS_SCHEDULE", "* * * * * *");
    let mut machine = LineProcess::start(program).expect("a process");
    let line = machine.line().await.expect("it starts");
    assert!(line.starts_with("Another machine: "), "{line}");
    machine
}

#[tokio::test]
async fn of_two_machines_with_one_schedule_one_runs_the_job() {
    let database = Server::shared().database().await;
    let mut machines = [machine(database.name()).await, machine(database.name()).await];
    let (mut ran, mut skipped) = (0, 0);
    for _ in 0..4 {
        for machine in &mut machines {
            let line = machine.line().await.expect("a start");
            match line.split_once([',', ':']) {
                Some(("Ran", _)) => ran += 1,
                Some(("Skipped", _)) => skipped += 1,
                _ => panic!("{line}"),
            }
        }
    }
    // The first and the last second may belong to one machine alone.
    assert!((3..=6).contains(&ran) && skipped >= 2, "{ran} ran, and {skipped} were skipped");
    for machine in machines {
        machine.signal(Signal::TERM).expect("it runs");
        let ended = machine.ended().await.expect("it ends");
        assert!(ended.status.success() && ended.output.contains("Stopped: "), "{ended:?}");
    }
    database.drop_database().await.expect("an answer");
}
