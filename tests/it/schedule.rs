//! `ScheduledJob`: started everywhere, run once.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::future::join_all;
use mongo_lease::{Error, LeaseInfo, LeaseManager, Run, ScheduledJob};
use tokio::sync::{Notify, mpsc, oneshot};

use crate::both::{Backend, check};
use crate::common::{SHORT_TTL, builder, document, setup};
use crate::patience::{pass, soon, until};

const LONG: Duration = Duration::from_secs(60);

/// Counts how often it is run.
async fn start(job: &ScheduledJob, runs: &AtomicUsize) -> Run<usize> {
    job.run(async |_lease| runs.fetch_add(1, Ordering::Relaxed) + 1).await.unwrap()
}

#[tokio::test]
async fn of_ten_machines_one_runs_the_job_and_the_others_are_told_who() {
    let (database, _) = setup().await;
    let runs = AtomicUsize::new(0);
    let gate = Notify::new();
    let (skipped, mut skips) = mpsc::unbounded_channel();
    let machine = async |number: usize| {
        let leases = builder(&database).owner(format!("machine-{number}")).build().await.unwrap();
        let job = ScheduledJob::new(&leases, "job:report");
        let ran = job.run(async |lease| {
            runs.fetch_add(1, Ordering::Relaxed);
            gate.notified().await;
            lease.token().unwrap()
        });
        let ran = ran.await.unwrap();
        if let Run::Skipped(held) = &ran {
            skipped.send(held.owner.clone().unwrap()).unwrap();
        }
        ran.done().is_some()
    };
    let all_others_skip = async {
        let mut told = Vec::new();
        for _ in 0..9 {
            told.push(soon("a machine skips", skips.recv()).await.unwrap());
        }
        gate.notify_one();
        told
    };
    let machines = soon("all", join_all((0..10).map(machine)));
    let (ran, told) = tokio::join!(machines, all_others_skip);
    assert!(told[0].starts_with("machine-"), "{}", told[0]);
    assert!(told.iter().all(|holder| *holder == told[0]), "{told:?}");
    assert_eq!(ran.into_iter().filter(|ran| *ran).count(), 1);
    assert_eq!(runs.load(Ordering::Relaxed), 1);
    // At once, because nothing keeps the name blocked.
    assert!(document(&database, "job:report").await.is_none());
}

#[tokio::test]
async fn within_at_least_it_runs_once_and_behind_it_again() {
    check(async |backend| {
        let (leases, others) = (backend.manager().await, backend.manager().await);
        let runs = AtomicUsize::new(0);
        let on = |leases: &LeaseManager| {
            ScheduledJob::new(leases, "job").at_least(LONG).at_most(2 * LONG)
        };
        let (here, there) = (on(&leases), on(&others));
        assert_eq!(start(&here, &runs).await.done(), Some(1));
        // It is done, and the other machine's clock is a little late.
        assert!(matches!(start(&there, &runs).await, Run::Skipped(_)));
        assert!(matches!(start(&here, &runs).await, Run::Skipped(_)));
        assert_eq!(runs.load(Ordering::Relaxed), 1);
        // For this the clock must not be the machine's.
        if let Backend::Memory(_) = backend {
            pass(LONG).await;
            let again = until("the next start", async || start(&there, &runs).await.done()).await;
            assert_eq!(again, 2);
        }
    })
    .await;
}

#[tokio::test]
async fn a_job_that_panics_or_is_dropped_keeps_the_name_for_at_least() {
    let (database, leases) = setup().await;
    let runs = AtomicUsize::new(0);
    for name in ["panics", "dropped"] {
        let job = ScheduledJob::new(&leases, name).at_least(LONG);
        let (started, start_of) = oneshot::channel();
        let failing = job.clone();
        let task = tokio::spawn(async move {
            let run = failing.run(async move |_lease| {
                started.send(()).unwrap();
                if name == "dropped" {
                    std::future::pending::<()>().await;
                }
                panic!("this is the panic");
            });
            run.await
        });
        soon("the start", start_of).await.unwrap();
        task.abort();
        assert!(task.await.is_err());
        // It is released when its value is gone, and the name is kept all the same.
        until("it is given back", async || {
            let value = document(&database, name).await?.get_str("value").ok()?.to_owned();
            LeaseInfo::is_tombstone_value(&value).then_some(())
        })
        .await;
        assert!(matches!(start(&job, &runs).await, Run::Skipped(_)), "{name}");
    }
    assert_eq!(runs.load(Ordering::Relaxed), 0);
}

#[tokio::test]
async fn what_contradicts_itself_is_refused_and_nothing_runs() {
    check(async |backend| {
        let leases = backend.manager().await;
        let runs = AtomicUsize::new(0);
        let job = ScheduledJob::new(&leases, "job");
        for (job, refused) in [
            (job.clone().at_least(LONG).at_most(SHORT_TTL), "at_least"),
            (job.clone().at_most(Duration::from_millis(1)), "max_hold"),
            (job.clone().ttl(Duration::ZERO), "ttl"),
        ] {
            match job.run(async |_lease| runs.fetch_add(1, Ordering::Relaxed)).await {
                Err(Error::InvalidOption { option, .. }) => assert_eq!(option, refused),
                other => panic!("{refused}: {other:?}"),
            }
        }
        assert_eq!(runs.load(Ordering::Relaxed), 0);
        assert!(leases.get("job").await.unwrap().is_none());
    })
    .await;
}
