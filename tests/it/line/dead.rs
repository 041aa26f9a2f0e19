//! Waiters that die.

use mongo_lease::mongodb::bson::doc;

use super::workers::{self, QUICK};
use super::{granted, in_line, line_of, queued, start_waiting};
use crate::common::document;
use crate::lent::lent_database;
use crate::patience::{Listener, locks};
use crate::worker::Worker;

const KILLED: &str = "line::dead::processes_killed_while_they_wait_leave_nothing_behind";
const FROZEN: &str = "line::dead::a_dead_promoted_waiter_delays_the_next_by_its_waiter_ttl";
const PROCESSES: usize = 3;

#[tokio::test]
async fn processes_killed_while_they_wait_leave_nothing_behind() {
    if workers::serve().await {
        return;
    }
    let (server, database) = lent_database().await;
    let holder = QUICK.of(&database).build().await.unwrap();
    let lease = holder.acquire(workers::NAME).await.unwrap();
    let mut workers = workers::start(KILLED, &server, &database, PROCESSES, QUICK).await;
    workers::line_up(&mut workers).await;
    let leases = QUICK.of(&database).build().await.unwrap();
    let waiting = in_line(&leases, leases.acquire(workers::NAME)).await;
    assert_eq!(leases.get(workers::NAME).await.unwrap().unwrap().waiting as usize, PROCESSES + 1);
    workers.iter().for_each(Worker::kill);
    lease.release().await.unwrap();
    let lease = granted(waiting).await;
    assert_eq!(line_of(&database, workers::NAME).await, Vec::<String>::new());
    let found = document(&database, workers::NAME).await.unwrap();
    assert_eq!(found.get_str("value").ok(), Some(lease.value()));
    lease.release().await.unwrap();
    assert_eq!(locks(&database).count_documents(doc! {}).await.unwrap(), 0);
    for manager in [leases, holder] {
        assert_eq!(manager.shutdown().await.tasks_left, 0);
    }
}

/// It is stopped while it is promoted, and is killed before it can take over.
#[tokio::test]
async fn a_dead_promoted_waiter_delays_the_next_by_its_waiter_ttl() {
    if workers::serve().await {
        return;
    }
    let (server, database) = lent_database().await;
    let holder = QUICK.of(&database).build().await.unwrap();
    let lease = holder.acquire(workers::NAME).await.unwrap();
    let mut workers = workers::start(FROZEN, &server, &database, 1, QUICK).await;
    workers::line_up(&mut workers).await;
    let leases = QUICK.of(&database).build().await.unwrap();
    let mut events = Listener::of(&leases);
    let waiting = start_waiting(leases.acquire(workers::NAME));
    assert_eq!(queued(&mut events).await, 1);
    workers[0].pause();
    let before = document(&database, workers::NAME).await.unwrap();
    let head = before.get_array("queue").unwrap()[0].as_document().unwrap().clone();
    let token = lease.token().unwrap();
    lease.release().await.unwrap();
    let promoted = document(&database, workers::NAME).await.unwrap();
    assert_eq!(promoted.get_str("value").unwrap(), head.get_str("value").unwrap());
    workers[0].kill();
    let lease = granted(waiting).await;
    assert!(lease.token().unwrap() > token);
    // Its successor got it at the end of that grant: nobody had shortened it.
    let until = promoted.get_datetime("expiresAt").unwrap().timestamp_millis();
    let info = leases.get(workers::NAME).await.unwrap().unwrap();
    assert!(info.acquired_at.unwrap().timestamp_millis() >= until);
    lease.release().await.unwrap();
}
