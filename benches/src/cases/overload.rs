//! More calls of one process than the server carries out: the load that just saturates it, and ten times that.
//!
//! Tasks acquire and release leases of random names, as fast as they can. A load is a number of tasks. What counts is
//! the number of pairs, and of the commands for each.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use mongo_lease::LeaseManager;
use mongo_lease::mongodb::bson::Document;
use mongo_lease_measure::{Extent, Outcome, counted, number};
use mongo_lease_testbed::FailCommand;
use tokio::task::JoinSet;

use crate::commands::Commands;
use crate::figure::Figure;
use crate::goal::Goal;
use crate::report::Report;
use crate::setup::Setup;
use crate::side::{insert_others, random_name};
use crate::unit::Unit;

/// As many calls as four batches hold: with more, nothing more is under way.
const SATURATING: usize = 1_000;
const TIMES: usize = 10;

/// Live locks of others: so a pair does not walk over all that this load has deleted.
const OTHERS: usize = 10_000;

/// The longest wait for pairs to take their time again.
const AFTER_MAX: Duration = Duration::from_secs(30);

/// What the server does meanwhile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Setting {
    Quick,
    /// Each command takes 50 ms longer.
    Slow,
    /// It stops for 8 s.
    Hangs,
}

impl Setting {
    const ALL: [Setting; 3] = [Setting::Quick, Setting::Slow, Setting::Hangs];
    const DELAY: Duration = Duration::from_millis(50);
    const HANG: Duration = Duration::from_secs(8);
    const COMMANDS: [&str; 4] = ["findAndModify", "update", "find", "delete"];

    fn label(self) -> &'static str {
        match self {
            Setting::Quick => "quick server",
            Setting::Slow => "50 ms more for each command",
            Setting::Hangs => "a hang of 8 s",
        }
    }
}

/// The result of a load.
struct Load {
    pairs: u64,
    failed: u64,
    commands: u64,
    /// How much longer than its bound the latest call took.
    late: Duration,
    /// How long it took after the load until a pair took no more than twice its time before.
    after: Duration,
}

/// Counters of all tasks.
#[derive(Default)]
struct Counters {
    pairs: AtomicU64,
    failed: AtomicU64,
    late_nanos: AtomicU64,
}

pub(crate) async fn measure(extent: Extent, report: &mut Report) -> Outcome<()> {
    report.section("Overload");
    for setting in Setting::ALL {
        let floor = load(setting, SATURATING, extent).await?;
        let ours = load(setting, SATURATING * TIMES, extent).await?;
        let ratio = |what: &str, value: fn(&Load) -> f64, unit| {
            let beside = "at the load that saturates";
            Figure::quotient(what, beside, value(&ours), value(&floor), unit)
        };
        let label = setting.label();
        let pairs = ratio("pairs at ten times the load", |load| counted(load.pairs), Unit::Count);
        let commands = ratio(
            "commands for 1,000 pairs at ten times the load",
            |load| 1e3 * counted(load.commands) / counted(load.pairs),
            Unit::Commands,
        );
        let millis = |what, time: Duration, goal| {
            Figure::counted(what, time.as_secs_f64() * 1e3, Unit::Millis).goal(Goal::AtMost(goal))
        };
        let failed = Figure::counted("calls that failed", counted(ours.failed), Unit::Count);
        for figure in [
            pairs.goal(Goal::AtLeast(0.9)),
            commands.goal(Goal::AtMost(1.1)),
            failed,
            millis("the latest end of a call after its bound", ours.late, 1_000.0),
            millis("after the load, until a pair takes its time again", ours.after, 1_000.0),
        ] {
            report.add(figure.at(label, None));
        }
    }
    Ok(())
}

/// So many tasks take pairs for a while, on a server of their own.
async fn load(setting: Setting, tasks: usize, extent: Extent) -> Outcome<Load> {
    let setup = Setup::new().await?;
    let locks = setup.databases.by_default().await?.collection::<Document>("locks");
    insert_others(&locks, OTHERS).await?;
    let time = Duration::from_secs(u64::try_from(extent.of(30, 16))?);
    let slow = match setting {
        Setting::Slow => {
            let delay = FailCommand::on(&Setting::COMMANDS).block_for(Setting::DELAY);
            Some(delay.enable(setup.server.uri()).await)
        }
        Setting::Quick | Setting::Hangs => None,
    };
    let usual = usual_pair(&setup.leases).await?;
    let before = Commands::to(&setup).await?;
    let counters = Arc::new(Counters::default());
    let end = Instant::now() + time;
    let mut all = JoinSet::new();
    for _ in 0..tasks {
        all.spawn(pairs_until(setup.leases.clone(), end, Arc::clone(&counters)));
    }
    if setting == Setting::Hangs {
        // These times are what is measured.
        tokio::time::sleep(time / 4).await;
        setup.server.mongod().pause();
        tokio::time::sleep(Setting::HANG).await;
        setup.server.mongod().resume();
    }
    while let Some(ended) = all.join_next().await {
        ended?;
    }
    let started = Instant::now();
    while pair(&setup.leases).await? > usual * 2 && started.elapsed() < AFTER_MAX {}
    let after = started.elapsed();
    let sent = Commands::to(&setup).await?.since(&before);
    drop(slow);
    let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    let load = Load {
        pairs: count(&counters.pairs),
        failed: count(&counters.failed),
        commands: sent.all(),
        late: Duration::from_nanos(count(&counters.late_nanos)),
        after,
    };
    setup.leases.shutdown().await;
    let a_second = number(usize::try_from(load.pairs)?) / time.as_secs_f64();
    println!("  {tasks} tasks, {}: {a_second:.0} pairs a second, {sent}", setting.label());
    Ok(load)
}

/// Takes pairs until `end`. Its calls wait for as long as there is time, and for a second at least.
async fn pairs_until(leases: LeaseManager, end: Instant, counters: Arc<Counters>) {
    loop {
        let started = Instant::now();
        if started >= end {
            return;
        }
        let bound = Setting::HANG * 2;
        let acquired = leases.acquire(random_name()).wait(bound).await;
        let late = started.elapsed().saturating_sub(bound);
        let late = u64::try_from(late.as_nanos()).unwrap_or(u64::MAX);
        counters.late_nanos.fetch_max(late, Ordering::Relaxed);
        let is_pair = match acquired {
            Ok(lease) => lease.release().await.is_ok(),
            Err(_) => false,
        };
        let counter = if is_pair { &counters.pairs } else { &counters.failed };
        counter.fetch_add(1, Ordering::Relaxed);
    }
}

/// The median of some pairs.
async fn usual_pair(leases: &LeaseManager) -> Outcome<Duration> {
    const PAIRS: usize = 21;
    let mut times = Vec::new();
    for _ in 0..PAIRS {
        times.push(pair(leases).await?);
    }
    times.sort_unstable();
    Ok(times[PAIRS / 2])
}

async fn pair(leases: &LeaseManager) -> Outcome<Duration> {
    let started = Instant::now();
    leases.acquire(random_name()).await?.release().await?;
    Ok(started.elapsed())
}
