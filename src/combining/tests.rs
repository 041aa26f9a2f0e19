//! Calls that travel together, with a database that is never asked: whoever carries them out does what the test says.

use std::collections::HashMap;
use std::time::Duration;

use mongodb::Client;
use mongodb::options::{ClientOptions, ServerAddress};
use tokio::sync::{mpsc, oneshot};

use super::{Combine, Combiner, PATIENCE};
use crate::clock;
use crate::error::Cause;
use crate::rules::company::{TOGETHER_MAX, UNDER_WAY_MAX};
use crate::rules::outcome::MAYBE_APPLIED;
use crate::rules::time::Instant;
use crate::runner::{Answered, NO_ANSWER, Runner, UnderWay};

/// Nothing here takes that long, however busy the machine is.
const LONG: Duration = Duration::from_secs(30);

/// An item at which carrying out panics.
const PANIC: u32 = 0;

/// What is answered to an item.
fn answer_to(item: u32) -> Answered<u32> {
    match item % 2 {
        0 => Ok(item * 10),
        _ => Err(unanswered()),
    }
}

fn unanswered() -> crate::error::Failure {
    crate::error::Failure { outcome: MAYBE_APPLIED, cause: Cause::Deadline }
}

/// A command that is under way.
struct Departed {
    items: Vec<u32>,
    deadline: Instant,
    come_back: oneshot::Sender<()>,
}

/// Tells of each command, and has it come back when the test says so.
struct Fake(mpsc::UnboundedSender<Departed>);

impl Combine for Fake {
    type Item = u32;
    type Reply = u32;

    async fn carry_out(
        &self,
        _runner: &Runner,
        items: Vec<u32>,
        deadline: Instant,
    ) -> Vec<Answered<u32>> {
        assert!(!items.contains(&PANIC), "as the test wants it");
        let (come_back, comes_back) = oneshot::channel();
        let answers = items.iter().copied().map(answer_to).collect();
        self.0.send(Departed { items, deadline, come_back }).expect("the test goes on");
        comes_back.await.expect("the test lets it come back");
        answers
    }
}

/// Calls of one kind, and the commands that were seen to go.
struct Station {
    combiner: Combiner<Fake>,
    runner: Runner,
    departures: mpsc::UnboundedReceiver<Departed>,
    /// What was told to each call, whether or not its caller was there.
    told: mpsc::UnboundedReceiver<(u32, Option<u32>)>,
    tell: mpsc::UnboundedSender<(u32, Option<u32>)>,
    /// Those that fill the line up, until they are told to come back.
    fillers: Vec<Departed>,
}

impl Station {
    async fn new() -> Station {
        // Nobody listens there, and nothing is sent.
        let host = ServerAddress::Tcp { host: "127.0.0.1".to_owned(), port: Some(1) };
        let client = Client::with_options(ClientOptions::builder().hosts(vec![host]).build());
        let runner = Runner::new(client.unwrap().database("none"), 10).unwrap();
        let (sender, departures) = mpsc::unbounded_channel();
        let (tell, told) = mpsc::unbounded_channel();
        let combiner = Combiner::new(runner.clone(), Fake(sender));
        Station { combiner, runner, departures, told, tell, fillers: Vec::new() }
    }

    /// As many are under way as may be: whoever comes now waits.
    async fn full() -> Station {
        let mut station = Station::new().await;
        for _ in 0..UNDER_WAY_MAX {
            drop(station.start(2));
            let departed = station.departed_at_once().await;
            assert_eq!(departed.items, [2]);
            station.fillers.push(departed);
        }
        station
    }

    fn start(&self, item: u32) -> UnderWay<u32> {
        self.start_until(item, clock::now().after(LONG))
    }

    fn start_until(&self, item: u32, deadline: Instant) -> UnderWay<u32> {
        self.combiner.start(item, deadline, self.teller(item))
    }

    fn teller(&self, item: u32) -> impl FnOnce(&Answered<u32>) + Send + use<> {
        let tell = self.tell.clone();
        move |answer| {
            // At the end nobody listens any more.
            let _ = tell.send((item, answer.as_ref().ok().copied()));
        }
    }

    async fn departed(&mut self) -> Departed {
        soon(self.departures.recv()).await.expect("the combiner goes on")
    }

    /// The same without any time that passes: only the tasks have their turns.
    async fn departed_at_once(&mut self) -> Departed {
        for _ in 0..20 {
            if let Ok(departed) = self.departures.try_recv() {
                return departed;
            }
            tokio::task::yield_now().await;
        }
        panic!("it did not go at once");
    }

    fn nobody_departs(&mut self) {
        assert!(self.departures.try_recv().is_err(), "it went, and was to wait");
    }

    async fn told(&mut self) -> (u32, Option<u32>) {
        soon(self.told.recv()).await.expect("somebody can tell")
    }

    /// One of those that fill the line up comes back.
    fn one_comes_back(&mut self) {
        let filler = self.fillers.pop().expect("there is one");
        filler.come_back.send(()).expect("it is awaited");
    }

    /// After everything has come back: the line is as it was at the start, and no task is left.
    async fn assert_is_idle(mut self) {
        while !self.fillers.is_empty() {
            self.one_comes_back();
        }
        self.runner.idle(clock::now().after(LONG)).await;
        assert_eq!(self.runner.tasks(), 0);
        self.nobody_departs();
        let mut under_way = Vec::new();
        for _ in 0..UNDER_WAY_MAX {
            drop(self.start(4));
            under_way.push(self.departed_at_once().await);
        }
        assert!(under_way.iter().all(|departed| departed.items == [4]));
        drop(self.start(4));
        // A turn for each task: who was to go would have gone.
        tokio::task::yield_now().await;
        self.nobody_departs();
        drop(under_way);
    }
}

async fn soon<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(LONG, future).await.expect("it has to come")
}

async fn answered(under_way: UnderWay<u32>) -> Option<u32> {
    soon(under_way).await.ok()
}

#[tokio::test]
async fn a_lone_call_goes_at_once_and_alone() {
    let mut station = Station::new().await;
    for _ in 0..3 * UNDER_WAY_MAX {
        let deadline = clock::now().after(LONG);
        let call = station.start_until(8, deadline);
        let departed = station.departed_at_once().await;
        assert_eq!((departed.items, departed.deadline), (vec![8], deadline));
        departed.come_back.send(()).unwrap();
        assert_eq!(answered(call).await, Some(80));
        assert_eq!(station.told().await, (8, Some(80)));
        station.runner.idle(clock::now().after(LONG)).await;
    }
    station.assert_is_idle().await;
}

#[tokio::test]
async fn calls_that_come_meanwhile_go_together_in_order_and_each_has_its_own_answer() {
    let mut station = Station::full().await;
    let deadlines: Vec<_> = [3, 9, 5].map(|more| clock::now().after(LONG * more)).to_vec();
    let items = [14, 11, 12];
    let calls: Vec<_> = std::iter::zip(items, &deadlines)
        .map(|(item, deadline)| station.start_until(item, *deadline))
        .collect();
    station.nobody_departs();
    station.one_comes_back();
    let departed = station.departed_at_once().await;
    assert_eq!(departed.items, items);
    // As long as one of them waits.
    assert_eq!(departed.deadline, deadlines[1]);
    departed.come_back.send(()).unwrap();
    let mut answers = Vec::new();
    for call in calls {
        answers.push(answered(call).await);
    }
    assert_eq!(answers, [Some(140), None, Some(120)]);
    station.assert_is_idle().await;
}

#[tokio::test]
async fn no_more_go_together_than_may() {
    let mut station = Station::full().await;
    let more = TOGETHER_MAX + 3;
    let items: Vec<u32> = (1..).take(more).collect();
    let calls: Vec<_> = items.iter().map(|item| station.start(*item)).collect();
    station.one_comes_back();
    let first = station.departed_at_once().await;
    assert_eq!(first.items, items[..TOGETHER_MAX]);
    first.come_back.send(()).unwrap();
    let rest = station.departed_at_once().await;
    assert_eq!(rest.items, items[TOGETHER_MAX..]);
    rest.come_back.send(()).unwrap();
    for (item, call) in std::iter::zip(items, calls) {
        assert_eq!(answered(call).await, answer_to(item).ok());
    }
    station.assert_is_idle().await;
}

#[tokio::test]
async fn whose_time_is_over_while_it_waits_sends_nothing_and_is_told_so() {
    let mut station = Station::full().await;
    let late = station.start_until(6, clock::now());
    let in_time = station.start(8);
    station.one_comes_back();
    let departed = station.departed_at_once().await;
    assert_eq!(departed.items, [8]);
    let failure = soon(late).await.unwrap_err();
    assert_eq!(failure.outcome, NO_ANSWER.outcome);
    assert!(!failure.outcome.maybe_applied);
    departed.come_back.send(()).unwrap();
    assert_eq!(answered(in_time).await, Some(80));
    station.assert_is_idle().await;
}

/// Nobody goes, and the next ones are not kept by that.
#[tokio::test]
async fn a_company_whose_time_is_over_altogether_does_not_stop_the_line() {
    let mut station = Station::full().await;
    let late = [6, 8].map(|item| station.start_until(item, clock::now()));
    station.one_comes_back();
    for call in late {
        assert!(!soon(call).await.unwrap_err().outcome.maybe_applied);
    }
    station.nobody_departs();
    let next = station.start(10);
    let departed = station.departed_at_once().await;
    assert_eq!(departed.items, [10]);
    departed.come_back.send(()).unwrap();
    assert_eq!(answered(next).await, Some(100));
    station.assert_is_idle().await;
}

#[tokio::test]
async fn nobody_waits_for_a_command_that_takes_too_long() {
    let mut station = Station::full().await;
    let started = clock::now();
    let waiting = [12, 14].map(|item| station.start(item));
    // Nothing comes back.
    let departed = station.departed().await;
    assert_eq!(departed.items, [12, 14]);
    let waited = clock::now().since(started);
    assert!(waited < PATIENCE * 20, "{waited:?}");
    departed.come_back.send(()).unwrap();
    let [first, second] = waiting;
    assert_eq!((answered(first).await, answered(second).await), (Some(120), Some(140)));
    // Those that took so long are answered all the same, and make no second room when they are.
    let mut told = HashMap::new();
    while !station.fillers.is_empty() {
        station.one_comes_back();
    }
    for _ in 0..UNDER_WAY_MAX + 2 {
        let (item, answer) = station.told().await;
        told.insert(item, answer);
    }
    assert_eq!(told, HashMap::from([(2, Some(20)), (12, Some(120)), (14, Some(140))]));
    station.assert_is_idle().await;
}

#[tokio::test]
async fn a_command_in_which_something_breaks_does_not_stop_the_line() {
    let mut station = Station::full().await;
    let broken = station.start(PANIC);
    station.one_comes_back();
    // Nobody knows how far it came.
    let failure = soon(broken).await.unwrap_err();
    assert!(failure.outcome.maybe_applied);
    let next = station.start(16);
    let departed = station.departed_at_once().await;
    assert_eq!(departed.items, [16]);
    departed.come_back.send(()).unwrap();
    assert_eq!(answered(next).await, Some(160));
    station.assert_is_idle().await;
}

#[tokio::test]
async fn what_was_answered_is_told_when_the_caller_has_gone() {
    let mut station = Station::full().await;
    drop(station.start(18));
    let kept = station.start(20);
    drop(station.start_until(22, clock::now()));
    station.one_comes_back();
    let departed = station.departed_at_once().await;
    // Also for a caller who went before it did: what it asked for may be wanted by what comes of its going.
    assert_eq!(departed.items, [18, 20]);
    departed.come_back.send(()).unwrap();
    assert_eq!(answered(kept).await, Some(200));
    let mut told = Vec::new();
    for _ in 0..4 {
        told.push(station.told().await);
    }
    told.sort_unstable();
    assert_eq!(told, [(2, Some(20)), (18, Some(180)), (20, Some(200)), (22, None)]);
    station.assert_is_idle().await;
}

#[tokio::test]
async fn who_is_to_go_alone_does_so_and_takes_nobodys_room() {
    let mut station = Station::full().await;
    let alone = |station: &Station, item| {
        let deadline = clock::now().after(LONG);
        station.combiner.start_alone(item, deadline, station.teller(item))
    };
    let waiting = station.start(24);
    let first = alone(&station, 26);
    let departed = station.departed_at_once().await;
    assert_eq!(departed.items, [26]);
    departed.come_back.send(()).unwrap();
    assert_eq!(answered(first).await, Some(260));
    assert_eq!(station.told().await, (26, Some(260)));
    // Its coming back lets nobody go.
    tokio::task::yield_now().await;
    station.nobody_departs();
    station.one_comes_back();
    let departed = station.departed_at_once().await;
    assert_eq!(departed.items, [24]);
    departed.come_back.send(()).unwrap();
    assert_eq!(answered(waiting).await, Some(240));
    station.assert_is_idle().await;
}
