//! The first acquire of a name makes its document, and many calls may race to make it.

use futures_util::future::join_all;
use mongo_lease::mongodb::Database;
use mongo_lease::mongodb::bson::doc;
use mongo_lease::{Attempt, LeaseManager};
use mongo_lease_testbed::Server;

use crate::common::{migrated, short_or_long};
use crate::patience::{PATIENCE, locks};
use crate::spy::Spy;
use crate::worker::{Worker, as_spied_worker, orders, say};

const PROCESSES: usize = 8;
const TASKS_EACH: usize = 4;

#[tokio::test]
async fn one_of_32_tasks_wins_each_round_without_duplicate_key_errors() {
    const NAME: &str = "first_upsert::\
        one_of_32_tasks_wins_each_round_without_duplicate_key_errors";
    if let Some((database, spy)) = as_spied_worker().await {
        return race(&database, &spy).await;
    }
    let server = Server::shared();
    let database = migrated(server).await;
    let start = |_| Worker::start(NAME, server.uri(), &database);
    let mut workers: Vec<Worker> = (0..PROCESSES).map(start).collect();
    for worker in &mut workers {
        assert_eq!(worker.says().await, "ready");
    }
    let rounds = short_or_long(10, 100);
    for round in 0..rounds {
        for worker in &mut workers {
            worker.tell(&format!("round:{round}")).await;
        }
        let mut said = Vec::new();
        for worker in &mut workers {
            said.push(worker.says().await);
        }
        let won = said.iter().filter(|line| *line == "1 granted, 3 busy").count();
        let lost = said.iter().filter(|line| *line == "0 granted, 4 busy").count();
        assert_eq!((won, lost), (1, PROCESSES - 1), "round {round}: {said:?}");
    }
    let documents = locks(&database).count_documents(doc! {}).await.unwrap();
    assert_eq!(documents, u64::try_from(rounds).unwrap());
}

/// One of the processes: in each round all its tasks make an attempt at once, and keep the lease if granted.
async fn race(database: &Database, spy: &Spy) {
    let leases = LeaseManager::builder(database).ttl(20 * PATIENCE).build().await.unwrap();
    let mut orders = orders();
    say("ready");
    while let Some(name) = orders.recv().await {
        let asking = (0..TASKS_EACH).map(|_| leases.try_acquire(&name));
        let (mut granted, mut busy, mut failed) = (0, 0, Vec::new());
        for answer in join_all(asking).await {
            match answer {
                Ok(Attempt::Granted(lease)) => {
                    granted += 1;
                    let _key = lease.detach().await.unwrap();
                }
                Ok(Attempt::Busy(_)) => busy += 1,
                Err(error) => failed.push(error.to_string()),
            }
        }
        // Not even one that the library would have handled, but for what a busy machine cuts off.
        let is_cut_off = |failure: &String| failure.ends_with(": 50");
        failed.extend(spy.failures().into_iter().filter(|it| !is_cut_off(it)));
        match failed.as_slice() {
            [] => say(format!("{granted} granted, {busy} busy")),
            failed => say(format!("failed: {failed:?}")),
        }
    }
}
