//! The other end of the workers: the processes that hold and wait, seen from outside.

use std::time::Duration;

use mongo_lease::{LeaseManager, Token};
use mongo_lease_measure::{Outcome, worker};
use mongo_lease_testbed::LineProcess;

use crate::worker::{DATABASE, NAME, URI};

/// A worker. It is killed when this is dropped.
pub(crate) struct Worker(LineProcess);

/// One turn of one worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Turn {
    pub(crate) token: Token,
    pub(crate) worker: usize,
    pub(crate) granted: i64,
    pub(crate) let_go: i64,
}

impl Worker {
    pub(crate) async fn start(uri: &str, database: &str) -> Outcome<Worker> {
        let mut process = worker::start(&[(URI, uri), (DATABASE, database)])?;
        worker::until_ready(&mut process).await?;
        Ok(Worker(process))
    }

    /// Several, one after the other.
    pub(crate) async fn start_all(count: usize, uri: &str, database: &str) -> Outcome<Vec<Worker>> {
        let mut workers = Vec::new();
        for _ in 0..count {
            workers.push(Worker::start(uri, database).await?);
        }
        Ok(workers)
    }

    pub(crate) async fn order(&mut self, order: &str) -> Outcome<()> {
        Ok(self.0.send(order).await?)
    }

    /// The number that is its answer.
    pub(crate) async fn number(&mut self) -> Outcome<usize> {
        Ok(self.0.line().await?.parse()?)
    }

    /// The turns until it is done with its order.
    pub(crate) async fn turns(&mut self, worker: usize) -> Outcome<Vec<Turn>> {
        let mut turns = Vec::new();
        loop {
            let line = self.0.line().await?;
            if line == "done" {
                return Ok(turns);
            }
            let mut parts = line.split(' ');
            let mut next = || parts.next().ok_or("a line is too short");
            let token = next()?.parse()?;
            let (granted, let_go) = (next()?.parse()?, next()?.parse()?);
            turns.push(Turn { token, worker, granted, let_go });
        }
    }
}

/// Returns when the queue has so many entries.
pub(crate) async fn until_waiting(leases: &LeaseManager, waiting: usize) -> Outcome<()> {
    const LOOK_EVERY: Duration = Duration::from_millis(5);
    let enough = u32::try_from(waiting)?;
    while leases.get(NAME).await?.is_none_or(|info| info.waiting < enough) {
        tokio::time::sleep(LOOK_EVERY).await;
    }
    Ok(())
}
