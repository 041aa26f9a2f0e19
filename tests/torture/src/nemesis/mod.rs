//! The nemeses: the faults of the database, the network and the workers, and their plan.

mod commands;
mod network;
mod processes;

pub(crate) use commands::cursors;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use mongo_lease_checker::history::{KILL_WORKER, What};
use mongo_lease_checker::{Nanos, SECOND};
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use tokio::task::JoinSet;

use crate::clock;
use crate::cluster::{Cluster, Failed};
use crate::console;
use crate::fleet::Fleet;
use crate::history::Writer;

/// One kind of fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Nemesis {
    Kill,
    Stop,
    StepDown,
    Partition,
    Network,
    Lag,
    StopWorker,
    KillWorker,
    /// Workers in Node block their event loops. One of `all` where there are such workers.
    Block,
}

impl Nemesis {
    /// The faults of `all`.
    pub(crate) const ALL: [Nemesis; 8] = [
        Nemesis::Kill,
        Nemesis::Stop,
        Nemesis::StepDown,
        Nemesis::Partition,
        Nemesis::Network,
        Nemesis::Lag,
        Nemesis::StopWorker,
        Nemesis::KillWorker,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Nemesis::Kill => "kill",
            Nemesis::Stop => "stop",
            Nemesis::StepDown => "stepdown",
            Nemesis::Partition => "partition",
            Nemesis::Network => "network",
            Nemesis::Lag => "lag",
            Nemesis::StopWorker => "stop-worker",
            Nemesis::KillWorker => KILL_WORKER,
            Nemesis::Block => "block",
        }
    }

    /// Whether both may go on at once: two faults of the same process may not.
    fn goes_with(self, other: Nemesis) -> bool {
        let needs_the_process = |it| matches!(it, Nemesis::Kill | Nemesis::Stop);
        self != other && !(needs_the_process(self) && needs_the_process(other))
    }
}

/// The faults that go on at once.
type Slot = Vec<Nemesis>;

/// The choice of faults: `all`, or slots that repeat.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Choice {
    slots: Vec<Slot>,
    /// First each alone, then alone and in pairs at random.
    mixes: bool,
}

impl Choice {
    /// Names separated by commas, and `+` between those that go on at once.
    pub(crate) fn parse(text: &str) -> Result<Choice, String> {
        if text == "all" {
            return Ok(Choice::all());
        }
        let one = |name: &str| {
            let every = || Nemesis::ALL.into_iter().chain([Nemesis::Block]);
            let found = every().find(|nemesis| nemesis.name() == name);
            let names = || every().map(Nemesis::name).collect::<Vec<_>>().join(", ");
            found.ok_or_else(|| format!("no nemesis {name:?}; there are {}", names()))
        };
        let slots: Vec<Slot> = text
            .split(',')
            .map(|slot| slot.split('+').map(one).collect())
            .collect::<Result<_, _>>()?;
        let mixes = slots.iter().all(|slot| slot.len() == 1) && slots.len() > 2;
        Ok(Choice { slots, mixes })
    }

    pub(crate) fn all() -> Choice {
        Choice { slots: Nemesis::ALL.map(|nemesis| vec![nemesis]).into(), mixes: true }
    }

    /// The same faults beside workers in Node: `all` has one more then.
    pub(crate) fn beside_node(mut self) -> Choice {
        if self == Choice::all() {
            self.slots.push(vec![Nemesis::Block]);
        }
        self
    }

    /// The slots in their order, without end.
    fn plan(self, mut random: StdRng) -> impl Iterator<Item = Slot> {
        let mut left: Vec<Slot> = Vec::new();
        let mut round = 0;
        std::iter::from_fn(move || {
            if left.is_empty() {
                left.clone_from(&self.slots);
                left.shuffle(&mut random);
                round += 1;
            }
            let mut slot = left.pop()?;
            // Each fault comes alone once, before there are pairs.
            if self.mixes && round > 1 && random.random_bool(0.7) {
                let fits = |other: &Slot| slot[0].goes_with(other[0]);
                let others: Vec<&Slot> = self.slots.iter().filter(|other| fits(other)).collect();
                if !others.is_empty() {
                    slot.push(others[random.random_range(0..others.len())][0]);
                }
            }
            Some(slot)
        })
    }
}

/// The targets of the faults.
pub(crate) struct Target {
    pub(crate) cluster: Arc<Cluster>,
    pub(crate) fleet: Arc<Fleet>,
    pub(crate) history: Arc<Writer>,
    faults: AtomicUsize,
}

impl Target {
    pub(crate) fn new(cluster: Arc<Cluster>, fleet: Arc<Fleet>, history: Arc<Writer>) -> Target {
        Target { cluster, fleet, history, faults: AtomicUsize::new(0) }
    }

    /// Notes the begin of a fault, and returns its number, for [`Target::ended`].
    pub(crate) fn began(&self, nemesis: Nemesis, detail: String) -> usize {
        let fault = self.faults.fetch_add(1, Ordering::Relaxed);
        console::say(&format!("  {:<12} {detail}", nemesis.name()));
        let kind = nemesis.name().to_owned();
        self.history.note(What::FaultBegan { fault, kind, detail });
        fault
    }

    pub(crate) fn ended(&self, fault: usize) {
        self.history.note(What::FaultEnded { fault });
    }
}

/// Makes one fault after the other, until the time is over. All is healed when it returns.
pub(crate) async fn rage(
    target: Arc<Target>,
    choice: Choice,
    seed: u64,
    until: Nanos,
) -> Result<(), Failed> {
    let mut random = StdRng::seed_from_u64(seed);
    let began = clock::now();
    let slots = choice.plan(StdRng::seed_from_u64(seed ^ 0x5107));
    for slot in slots {
        if clock::now() >= until {
            break;
        }
        let names: Vec<_> = slot.iter().map(|nemesis| nemesis.name()).collect();
        let second = (clock::now() - began) / SECOND;
        console::say(&format!("{second:>4} s  {}", names.join(" + ")));
        // Dropped with this future: a control that has been found ends in the midst of any fault.
        let mut under_way = JoinSet::new();
        for (number, nemesis) in slot.into_iter().enumerate() {
            let target = Arc::clone(&target);
            let mut random = StdRng::seed_from_u64(random.random());
            // The second fault of a pair begins in the midst of the first.
            let delay = if number == 0 { 0 } else { random.random_range(100..1_200) };
            under_way.spawn(async move {
                tokio::time::sleep(Duration::from_millis(delay)).await;
                strike(&target, nemesis, &mut random).await
            });
        }
        while let Some(strike) = under_way.join_next().await {
            strike.map_err(|error| Failed::at("a nemesis", error))??;
        }
        let rest = random.random_range(800..2_000);
        tokio::time::sleep(Duration::from_millis(rest)).await;
    }
    Ok(())
}

async fn strike(target: &Target, nemesis: Nemesis, random: &mut StdRng) -> Result<(), Failed> {
    match nemesis {
        Nemesis::Kill => processes::kill(target, random).await,
        Nemesis::Stop => processes::stop(target, random).await,
        Nemesis::StopWorker => processes::stop_worker(target, random).await,
        Nemesis::KillWorker => processes::kill_worker(target, random).await,
        Nemesis::Partition => network::partition(target, random).await,
        Nemesis::Network => network::bad_weather(target, random).await,
        Nemesis::StepDown => commands::step_down(target).await,
        Nemesis::Lag => commands::lag(target, random).await,
        Nemesis::Block => processes::block(target, random).await,
    }
}

/// A random time within these, in milliseconds.
fn some(random: &mut StdRng, millis: std::ops::Range<u64>) -> Duration {
    Duration::from_millis(random.random_range(millis))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_comes_alone_and_then_in_pairs() {
        let slots: Vec<Slot> =
            Choice::all().plan(StdRng::seed_from_u64(1)).take(3 * Nemesis::ALL.len()).collect();
        let (first, rest) = slots.split_at(Nemesis::ALL.len());
        assert!(Nemesis::ALL.iter().all(|nemesis| first.contains(&vec![*nemesis])));
        assert!(rest.iter().any(|slot| slot.len() == 2));
        let pairs = rest.iter().filter(|slot| slot.len() == 2);
        assert!(pairs.into_iter().all(|slot| slot[0].goes_with(slot[1])));
    }

    #[test]
    fn the_same_seed_is_the_same_plan() {
        let plan =
            |seed| Choice::all().plan(StdRng::seed_from_u64(seed)).take(40).collect::<Vec<_>>();
        assert_eq!(plan(7), plan(7));
        assert_ne!(plan(7), plan(8));
    }

    #[test]
    fn names_are_understood() {
        let choice = Choice::parse("partition,lag+kill").unwrap();
        let pair = vec![Nemesis::Lag, Nemesis::Kill];
        assert_eq!(choice.slots, vec![vec![Nemesis::Partition], pair]);
        assert!(Choice::parse("earthquake").unwrap_err().contains("stop-worker"));
    }
}
