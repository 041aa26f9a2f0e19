//! Waiters are granted in the order in which they came.

use std::time::Duration;

use super::workers::{self, Options, QUICK};
use crate::common::document;
use crate::lent::lent_database;
use crate::patience::until_free;

const TEST: &str = "line::order::processes_are_granted_in_the_order_in_which_they_came";
const PROCESSES: usize = 5;
/// No entry expires because a busy machine stands still.
const OPTIONS: Options =
    Options { waiter_ttl: Duration::from_secs(6), recheck_every: Duration::from_secs(10), ..QUICK };

/// Processes that come one after the other, all alive; and again, with some killed while they wait, the first waiter
/// among them.
#[tokio::test]
async fn processes_are_granted_in_the_order_in_which_they_came() {
    if workers::serve().await {
        return;
    }
    let (server, database) = lent_database().await;
    let mut workers = workers::start(TEST, &server, &database, PROCESSES, OPTIONS).await;
    for killed in [vec![], vec![0_usize, 3]] {
        let holder = OPTIONS.of(&database).build().await.unwrap();
        let lease = holder.acquire(workers::NAME).await.unwrap();
        let mut tokens = vec![lease.token().unwrap().as_u64()];
        workers::line_up(&mut workers).await;
        for &number in &killed {
            workers[number].kill();
        }
        lease.release().await.unwrap();
        for (number, worker) in workers.iter_mut().enumerate() {
            if !killed.contains(&number) {
                tokens.push(workers::token(worker).await);
            }
        }
        // The last one has released it, and reported that before.
        until_free(&holder, workers::NAME).await;
        assert_eq!(tokens.len(), 1 + PROCESSES - killed.len());
        assert!(tokens.is_sorted_by(|earlier, later| earlier < later), "{killed:?}: {tokens:?}");
    }
    assert!(document(&database, workers::NAME).await.is_none());
}
