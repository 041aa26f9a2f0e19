//! The controlling side of the workers: several processes of one contender, and their messages.

use std::process::Stdio;

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::Outcome;
use crate::contender::Contender;
use crate::worker::ROLE;

/// A worker's message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    Ready,
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
            None if line == "ready" => Event::Ready,
            None if line == "trying" => Event::Trying,
            Some(("granted", at)) => Event::Granted(at.parse().ok()?),
            Some(("done", at)) => Event::Done(at.parse().ok()?),
            Some(("number", number)) => Event::Number(number.parse().ok()?),
            None | Some(_) => return None,
        })
    }
}

struct Worker {
    process: Child,
    orders: ChildStdin,
}

/// Several processes of one contender.
pub(crate) struct Crew {
    workers: Vec<Worker>,
    events: UnboundedReceiver<(usize, Event)>,
}

impl Crew {
    /// Starts them, and returns when all are connected.
    pub(crate) async fn start(contender: &Contender, address: &str, count: usize) -> Outcome<Crew> {
        let (sender, events) = unbounded_channel();
        let mut crew = Crew { workers: Vec::new(), events };
        for number in 0..count {
            let mut process = Command::new(std::env::current_exe()?)
                .env(ROLE, format!("{} {address}", contender.id))
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .kill_on_drop(true)
                .spawn()?;
            let orders = process.stdin.take().ok_or("no input")?;
            let output = process.stdout.take().ok_or("no output")?;
            tokio::spawn(read(number, output, sender.clone()));
            crew.workers.push(Worker { process, orders });
        }
        for _ in 0..count {
            crew.expect(|event| event == Event::Ready).await?;
        }
        Ok(crew)
    }

    pub(crate) fn count(&self) -> usize {
        self.workers.len()
    }

    pub(crate) async fn order(&mut self, worker: usize, order: &str) -> Outcome<()> {
        let worker = self.workers.get_mut(worker).ok_or("no such worker")?;
        Ok(worker.orders.write_all(format!("{order}\n").as_bytes()).await?)
    }

    /// The next message of any worker.
    pub(crate) async fn next(&mut self) -> Outcome<(usize, Event)> {
        match self.events.recv().await {
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
        let mut ending = Vec::new();
        for Worker { process, orders } in self.workers {
            drop(orders);
            ending.push(process);
        }
        for mut process in ending {
            process.wait().await?;
        }
        Ok(())
    }
}

async fn read(worker: usize, output: ChildStdout, events: UnboundedSender<(usize, Event)>) {
    let mut lines = BufReader::new(output).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        let Some(event) = Event::read(&line) else { break };
        if events.send((worker, event)).is_err() {
            return;
        }
    }
    let _nobody_listens = events.send((worker, Event::Ended));
}
