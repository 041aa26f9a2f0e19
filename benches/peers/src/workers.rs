//! The controlling side of the workers: several processes of one contender, and their messages.

use std::time::Duration;

use futures_util::future::try_join_all;
use mongo_lease_measure::{Outcome, worker};
use mongo_lease_testbed::{LineOutput, LineProcess};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::contender::Contender;
use crate::worker::ROLE;

/// A worker's message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// It is about to acquire.
    Trying,
    /// It holds, since this moment.
    Granted(i64),
    /// It has released, and began to at this moment.
    Done(i64),
    /// The number that it was asked for.
    Number(u64),
    Ended,
}

impl Event {
    fn read(line: &str) -> Option<Event> {
        Some(match line.split_once(' ') {
            None if line == "trying" => Event::Trying,
            Some(("granted", at)) => Event::Granted(at.parse().ok()?),
            Some(("done", at)) => Event::Done(at.parse().ok()?),
            Some(("number", number)) => Event::Number(number.parse().ok()?),
            None | Some(_) => return None,
        })
    }
}

/// Fails where this takes longer than any part of a case may: a library may wait without end.
pub(crate) async fn in_time<T>(what: &str, future: impl Future<Output = T>) -> Outcome<T> {
    const LONGEST: Duration = Duration::from_secs(180);
    let done = tokio::time::timeout(LONGEST, future).await;
    done.map_err(|_| format!("{what} has not come within {} s", LONGEST.as_secs()).into())
}

/// Several processes of one contender.
pub(crate) struct Workers {
    processes: Vec<LineProcess>,
    events: UnboundedReceiver<(usize, Event)>,
}

impl Workers {
    /// Starts them, and returns when all are connected.
    pub(crate) async fn start(
        contender: &Contender,
        address: &str,
        count: usize,
    ) -> Outcome<Workers> {
        let (sender, events) = unbounded_channel();
        let mut workers = Workers { processes: Vec::new(), events };
        let role = format!("{} {address}", contender.id);
        for _ in 0..count {
            workers.processes.push(worker::start(&[(ROLE, &role)])?);
        }
        for (number, process) in workers.processes.iter_mut().enumerate() {
            worker::until_ready(process).await?;
            tokio::spawn(read(number, process.take_output(), sender.clone()));
        }
        Ok(workers)
    }

    pub(crate) fn count(&self) -> usize {
        self.processes.len()
    }

    pub(crate) async fn order(&mut self, worker: usize, order: &str) -> Outcome<()> {
        let process = self.processes.get_mut(worker).ok_or("no such worker")?;
        Ok(process.send(order).await?)
    }

    /// The next message of any worker. No order takes as long as this waits.
    pub(crate) async fn next(&mut self) -> Outcome<(usize, Event)> {
        match in_time("a worker's answer", self.events.recv()).await? {
            None | Some((_, Event::Ended)) => Err("a worker has ended".into()),
            Some(event) => Ok(event),
        }
    }

    /// The next message, which must be of this kind.
    pub(crate) async fn expect(&mut self, is_it: impl Fn(Event) -> bool) -> Outcome<Event> {
        let (_, event) = self.next().await?;
        if is_it(event) { Ok(event) } else { Err(format!("unexpected: {event:?}").into()) }
    }

    /// The number that is the answer of the only worker.
    pub(crate) async fn number(&mut self) -> Outcome<u64> {
        let (_, event) = self.next().await?;
        let Event::Number(number) = event else {
            return Err(format!("unexpected: {event:?}").into());
        };
        Ok(number)
    }

    /// Ends them, and returns when they have.
    pub(crate) async fn dismiss(self) -> Outcome<()> {
        // All at once: the end of its input is a worker's end.
        let ending = self.processes.into_iter().map(LineProcess::ended);
        try_join_all(ending).await?;
        Ok(())
    }
}

async fn read(worker: usize, mut output: LineOutput, events: UnboundedSender<(usize, Event)>) {
    while let Ok(Some(line)) = output.next_line().await {
        let Some(event) = Event::read(&line) else { break };
        if events.send((worker, event)).is_err() {
            return;
        }
    }
    let _nobody_listens = events.send((worker, Event::Ended));
}
