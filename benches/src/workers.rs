//! The other end of the workers: the processes that hold, wait and take pairs, seen from outside.

use std::time::Duration;

use futures_util::future::try_join_all;
use mongo_lease::{LeaseManager, Token};
use mongo_lease_measure::{Outcome, worker};
use mongo_lease_testbed::LineProcess;

use crate::setup::Setup;
use crate::worker::{DONE, URI};

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
    /// A worker whose manager is ready.
    pub(crate) async fn start(setup: &Setup) -> Outcome<Worker> {
        let mut worker = Worker::start_bare(setup).await?;
        worker.obey("manage").await?;
        Ok(worker)
    }

    /// A worker without a manager, for what the driver does alone.
    pub(crate) async fn start_bare(setup: &Setup) -> Outcome<Worker> {
        let mut process = worker::start(&[(URI, setup.server.uri())])?;
        worker::until_ready(&mut process).await?;
        Ok(Worker(process))
    }

    /// Several, one after the other.
    pub(crate) async fn start_all(setup: &Setup, count: usize) -> Outcome<Vec<Worker>> {
        let mut workers = Vec::new();
        for _ in 0..count {
            workers.push(Worker::start(setup).await?);
        }
        Ok(workers)
    }

    pub(crate) async fn order(&mut self, order: &str) -> Outcome<()> {
        Ok(self.0.send(order).await?)
    }

    /// Gives it an order, and returns when it has carried it out.
    pub(crate) async fn obey(&mut self, order: &str) -> Outcome<Vec<String>> {
        self.order(order).await?;
        self.answer().await
    }

    /// The lines of its answer.
    pub(crate) async fn answer(&mut self) -> Outcome<Vec<String>> {
        let mut lines = Vec::new();
        loop {
            let line = self.0.line().await?;
            if line == DONE {
                return Ok(lines);
            }
            lines.push(line);
        }
    }

    /// The number that answers an order.
    pub(crate) async fn number(&mut self, order: &str) -> Outcome<u64> {
        let lines = self.obey(order).await?;
        Ok(lines.first().ok_or("no number")?.parse()?)
    }

    /// The turns that it took.
    pub(crate) async fn turns(&mut self, worker: usize) -> Outcome<Vec<Turn>> {
        self.answer().await?.iter().map(|line| turn(worker, line)).collect()
    }
}

/// Gives all workers this order at once, and returns their answers when all are done.
pub(crate) async fn all(workers: &mut [Worker], order: &str) -> Outcome<Vec<Vec<String>>> {
    try_join_all(workers.iter_mut().map(|worker| worker.obey(order))).await
}

/// The milliseconds of all pairs that these workers took, from their answers.
pub(crate) fn pair_millis(answers: &[Vec<String>]) -> Outcome<Vec<f64>> {
    let words = answers.iter().flatten().flat_map(|line| line.split_whitespace());
    words.map(|micros| Ok(micros.parse::<f64>()? / 1e3)).collect()
}

/// Returns when the queue has so many entries.
pub(crate) async fn until_waiting(
    leases: &LeaseManager,
    name: &str,
    waiting: usize,
) -> Outcome<()> {
    const LOOK_EVERY: Duration = Duration::from_millis(5);
    let enough = u32::try_from(waiting)?;
    while leases.get(name).await?.is_none_or(|info| info.waiting < enough) {
        tokio::time::sleep(LOOK_EVERY).await;
    }
    Ok(())
}

fn turn(worker: usize, line: &str) -> Outcome<Turn> {
    let mut parts = line.split(' ');
    let mut next = || parts.next().ok_or("a line is too short");
    let token = next()?.parse()?;
    let (granted, let_go) = (next()?.parse()?, next()?.parse()?);
    Ok(Turn { token, worker, granted, let_go })
}

#[cfg(test)]
mod tests {
    use super::pair_millis;

    #[test]
    fn the_times_of_all_workers_are_read() {
        let answers = [vec!["1500 250".to_owned()], vec![String::new()], vec!["1000".to_owned()]];
        assert_eq!(pair_millis(&answers).unwrap(), [1.5, 0.25, 1.0]);
        assert!(pair_millis(&[vec!["soon".to_owned()]]).is_err());
    }
}
