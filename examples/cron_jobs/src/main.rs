//! A job on a schedule, by tokio-cron-scheduler, on any number of machines: one of them runs it each time.
//!
//! `cargo run -p cron_jobs` starts one machine, and says how to start another in a second terminal. Without
//! `MONGODB_URI` it starts its own MongoDB server, and removes it at the end. Ctrl-C or SIGTERM stops it in order: a
//! job that runs is dropped, and its lease is released.
//!
//! | environment | default | |
//! | --- | --- | --- |
//! | `MONGODB_URI` | its own server | where the leases are |
//! | `CRON_JOBS_DATABASE` | `cron_jobs` | the machines of one schedule share it |
//! | `CRON_JOBS_SCHEDULE` | `*/5 * * * * *` | when the job starts: seconds come first |

#![allow(clippy::print_stdout, reason = "an example talks to a person")]

use std::error::Error;
use std::time::Duration;

use mongo_lease::mongodb::Client;
use mongo_lease::{LeaseManager, Run, ScheduledJob};
use mongo_lease_testbed::Server;
use tokio::signal::unix::{SignalKind, signal};
use tokio_cron_scheduler::{Job, JobScheduler};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

#[tokio::main]
async fn main() -> Result<()> {
    // Asked for before the first line is printed, so that no signal is missed.
    let end = end_signal()?;
    let server = Server::from_env("MONGODB_URI").unwrap_or_else(Server::start);
    let name = setting("CRON_JOBS_DATABASE", "cron_jobs");
    let database = Client::with_uri_str(server.uri()).await?.database(&name);
    // In production: `mongo-lease-migrate up`, once.
    let builder = LeaseManager::builder(&database).owner("cron-jobs").ensure_indexes(true);
    let leases = builder.build().await?;
    println!("Another machine: MONGODB_URI='{}' cargo run -p cron_jobs", server.uri());

    let job = ScheduledJob::new(&leases, "job:report")
        // Longer than the clocks of the machines differ, and shorter than the time from one start to the next.
        .at_least(Duration::from_millis(600))
        // Then the job is dropped.
        .at_most(Duration::from_secs(60));
    let mut scheduler = JobScheduler::new().await?;
    let schedule = setting("CRON_JOBS_SCHEDULE", "*/5 * * * * *");
    scheduler.add(Job::new_async(schedule, move |_, _| Box::pin(start(job.clone())))?).await?;
    scheduler.start().await?;

    end.await;
    scheduler.shutdown().await?;
    let report = leases.shutdown().await;
    println!("Stopped: {} leases released.", report.released);
    Ok(())
}

/// One start of the job. Every machine's scheduler calls it at the same time.
async fn start(job: ScheduledJob) {
    let run = job.run(async |lease| {
        // The work goes here. It gives the token to what it writes to.
        lease.token()
    });
    match run.await {
        Ok(Run::Done(Ok(token))) => println!("Ran, with fencing token {token}."),
        Ok(Run::Skipped(held)) => println!("Skipped: {held}"),
        // It runs again at the next start.
        Ok(Run::Done(Err(error))) | Err(error) => println!("Failed: {error}"),
    }
}

fn setting(name: &str, default: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| default.to_owned())
}

/// Completes at Ctrl-C or SIGTERM.
fn end_signal() -> Result<impl Future<Output = ()>> {
    let mut interrupted = signal(SignalKind::interrupt())?;
    let mut terminated = signal(SignalKind::terminate())?;
    Ok(async move {
        tokio::select! {
            _ = interrupted.recv() => (),
            _ = terminated.recv() => (),
        }
    })
}
