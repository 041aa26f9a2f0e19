//! tokio-cron-scheduler: two machines, one schedule.

use std::time::Duration;

use mongo_lease::{LeaseManager, Run, ScheduledJob};
use tokio::sync::mpsc;
use tokio_cron_scheduler::{Job, JobScheduler};

use crate::{another, setup, soon};

/// The machine that started the job, and whether it ran it.
type Ran = (&'static str, bool);

/// A machine whose scheduler starts the job every second.
async fn machine(
    name: &'static str,
    leases: &LeaseManager,
    told: &mpsc::UnboundedSender<Ran>,
) -> JobScheduler {
    let job = ScheduledJob::new(leases, "job:report")
        .at_least(Duration::from_millis(600))
        .at_most(Duration::from_secs(10));
    let told = told.clone();
    let scheduler = JobScheduler::new().await.unwrap();
    let scheduled = Job::new_async("* * * * * *", move |_, _| {
        let (job, told) = (job.clone(), told.clone());
        Box::pin(async move {
            let run = job.run(async |lease| lease.token().unwrap()).await;
            // The test may have ended.
            let _ = told.send((name, matches!(run.expect("the database answers"), Run::Done(_))));
        })
    });
    scheduler.add(scheduled.unwrap()).await.unwrap();
    scheduler.start().await.unwrap();
    scheduler
}

#[tokio::test]
async fn of_two_machines_with_one_schedule_one_runs_the_job_each_time() {
    let (database, leases) = setup().await;
    let others = another(&database).await;
    let (sender, mut told) = mpsc::unbounded_channel();
    let mut one = machine("one", &leases, &sender).await;
    let mut two = machine("two", &others, &sender).await;
    let (mut ran, mut skipped) = (0, 0);
    let mut starts = [0, 0];
    while starts.iter().any(|starts| *starts < 4) {
        let (name, is_done) = soon("a start", told.recv()).await.unwrap();
        starts[usize::from(name == "two")] += 1;
        match is_done {
            true => ran += 1,
            false => skipped += 1,
        }
    }
    one.shutdown().await.unwrap();
    two.shutdown().await.unwrap();
    // The first and the last second may belong to one machine alone.
    assert!((3..=6).contains(&ran), "{ran} times, of {starts:?} starts");
    assert!(skipped >= 2, "{ran} times, of {starts:?} starts");
}
