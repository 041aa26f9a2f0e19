//! Permits and shared leases: pairs beside exclusive ones, a writer that hands off to readers, and many holders.

use std::collections::BTreeSet;
use std::time::Duration;

use mongo_lease_measure::host::now;
use mongo_lease_measure::{Extent, Outcome, Spread, counted, number};

use crate::figure::Figure;
use crate::goal::Goal;
use crate::pairs::{OTHERS, Pairs};
use crate::per_side::PerSide;
use crate::report::Report;
use crate::setup::Setup;
use crate::side::{Contender, Side, random_name};
use crate::unit::Unit;
use crate::workers::{self, Turn, Worker, until_waiting};

/// Pairs of a round.
const PAIRS: usize = 100;
/// The other holders of the name whose permits are acquired and released.
const HOLDERS: usize = 100;
/// The processes that read or hold.
const PROCESSES: usize = 10;
/// The readers of each, all of which wait in the queue.
const READERS: usize = 10;
/// The permits of each, where all hold. Together they are the documented bound.
const PERMITS: usize = 25;
/// A third of the default ttl.
const PERIOD: Duration = Duration::from_secs(10);

const SIDES: [Side; 2] = [Side::Permit, Side::Ours];

pub(crate) async fn measure(extent: Extent, report: &mut Report) -> Outcome<()> {
    report.section("Permits and shared leases");
    for (others, name, goal) in [
        (0, "a permit".to_owned(), 1.3),
        (HOLDERS, format!("a permit beside {HOLDERS} holders"), 1.6),
    ] {
        let rounds = pairs(others, extent).await?;
        for figure in pair_figures(&name, goal, &rounds) {
            report.add(figure);
        }
    }
    for figure in hand_off(extent).await? {
        report.add(figure);
    }
    for figure in holding(extent).await? {
        report.add(figure);
    }
    Ok(())
}

/// Pairs of permits, all of one name where that has other holders, beside exclusive pairs.
async fn pairs(others: usize, extent: Extent) -> Outcome<PerSide<Pairs>> {
    let setup = Setup::new().await?;
    let rounds = PerSide::measured(extent.of(24, 8), &SIDES, async |side: Side| {
        let contender = Contender::fresh(&setup.databases, side, OTHERS).await?;
        let server_time = || setup.server_time();
        let pairs = if side == Side::Permit && others > 0 {
            let name = random_name();
            let mut held = Vec::with_capacity(others);
            for _ in 0..others {
                held.push(contender.acquire(&name).await?);
            }
            // As another process: its manager knows nothing of the other holders.
            let taker = contender.another(&setup.databases).await?;
            let pairs = Pairs::taken_of(&taker, PAIRS, move || name.clone(), server_time).await?;
            taker.close().await;
            drop(held);
            pairs
        } else {
            Pairs::taken(&contender, PAIRS, server_time).await?
        };
        contender.close().await;
        Ok(pairs)
    });
    let rounds = rounds.await?;
    setup.leases.shutdown().await;
    Ok(rounds)
}

fn pair_figures(name: &str, goal: f64, rounds: &PerSide<Pairs>) -> Vec<Figure> {
    let ratio = |what: &str, figure: fn(&Pairs) -> f64| {
        let rounds = rounds.compared(Side::Permit, Side::Ours, figure);
        Figure::ratio(what, "an exclusive pair", &rounds, Unit::Millis)
    };
    vec![
        ratio(&format!("acquire and release of {name}"), Pairs::pair).drawn(),
        ratio(&format!("acquire and release of {name}: processor time, server"), Pairs::server)
            .goal(Goal::AtMost(goal))
            .drawn(),
        ratio(&format!("acquire and release of {name}: processor time, client"), Pairs::client),
    ]
}

/// A writer hands off to all readers that wait.
async fn hand_off(extent: Extent) -> Outcome<Vec<Figure>> {
    let setup = Setup::new().await?;
    let mut readers = Worker::start_all(&setup, PROCESSES).await?;
    let (mut writes, mut commands, mut replies, mut millis) =
        (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let rounds = extent.of(14, 4);
    // The first round opens the change streams, and does not count.
    for round in 0..=rounds {
        let name = random_name();
        let writer = setup.leases.acquire(&name).await?;
        for reader in &mut readers {
            reader.order(&format!("read {name} {READERS}")).await?;
        }
        until_waiting(&setup.leases, &name, PROCESSES * READERS).await?;
        let before = setup.server.command_counts().await;
        let let_go = now();
        writer.release().await?;
        let mut granted: Vec<Turn> = Vec::new();
        for (number, reader) in readers.iter_mut().enumerate() {
            granted.extend(reader.turns(number).await?);
        }
        let spent = setup.server.command_counts().await - before;
        workers::all(&mut readers, "free").await?;
        if round == 0 {
            continue;
        }
        let tokens: BTreeSet<_> = granted.iter().map(|turn| turn.token).collect();
        writes.push(number(tokens.len()));
        commands.push(counted(spent.find_and_modify + spent.update + spent.delete));
        replies.push(counted(spent.get_more) / number(PROCESSES));
        let last = granted.iter().map(|turn| turn.granted).max().ok_or("nobody was granted it")?;
        millis.push(Duration::from_nanos(u64::try_from(last - let_go)?).as_secs_f64() * 1e3);
    }
    setup.leases.shutdown().await;
    let median = |figures| Spread::of(figures).median;
    let what = format!("a writer hands off to {} readers", PROCESSES * READERS);
    let row = |part: &str, figures, unit| {
        Figure::counted(&format!("{what}: {part}"), median(figures), unit)
    };
    Ok(vec![
        row("writes that admit them", writes, Unit::Count).goal(Goal::AtMost(1.0)),
        row("commands on the lease until the last one knows", commands, Unit::Commands),
        row("replies of the change stream of each process", replies, Unit::Commands)
            .goal(Goal::AtMost(1.0)),
        row("from the release to the last one's grant", millis, Unit::Millis),
    ])
}

/// The cost of a renewal period of what all processes hold.
struct Renewals {
    commands: f64,
    conflicts: f64,
    client: f64,
    server: f64,
}

/// As many holders of one name as are documented, beside as many exclusive leases.
async fn holding(extent: Extent) -> Outcome<Vec<Figure>> {
    let permits = renewals(Side::Permit, extent).await?;
    let exclusive = renewals(Side::Ours, extent).await?;
    let seconds = PERIOD.as_secs();
    let what =
        format!("renewing {} permits of one name, a period of {seconds} s", PROCESSES * PERMITS);
    let beside = "as many exclusive leases";
    let count = |part: &str, figure: f64| {
        Figure::counted(&format!("{what}: {part}"), figure, Unit::Commands)
    };
    let ratio = |part: &str, figure: fn(&Renewals) -> f64| {
        let what = format!("{what}: {part}'s processor time");
        Figure::quotient(&what, beside, figure(&permits), figure(&exclusive), Unit::Millis)
    };
    Ok(vec![
        count("commands", permits.commands),
        count("write conflicts", permits.conflicts),
        ratio("client", |it| it.client),
        ratio("server", |it| it.server),
    ])
}

async fn renewals(side: Side, extent: Extent) -> Outcome<Renewals> {
    let setup = Setup::new().await?;
    let mut holders = Worker::start_all(&setup, PROCESSES).await?;
    let names = random_name();
    // At once, as after a deployment: their renewals stay close together.
    let order = format!("share {} {names} {PERMITS}", side.word());
    workers::all(&mut holders, &order).await?;
    let periods = extent.of(6, 2);
    let time = PERIOD * u32::try_from(periods)?;
    let (commands, conflicts) =
        (setup.server.command_counts().await, setup.write_conflicts().await);
    let server = setup.server_time();
    let answers = workers::all(&mut holders, &format!("renew {}", time.as_millis())).await?;
    let server = setup.server_time() - server;
    let commands = setup.server.command_counts().await - commands;
    let conflicts = setup.write_conflicts().await - conflicts;
    let nanos: Outcome<Vec<u64>> = answers.iter().flatten().map(|line| Ok(line.parse()?)).collect();
    let client: u64 = nanos?.iter().sum();
    workers::all(&mut holders, "free").await?;
    setup.leases.shutdown().await;
    Ok(Renewals {
        commands: counted(commands.update + commands.find) / number(periods),
        conflicts: counted(conflicts) / number(periods),
        client: Duration::from_nanos(client).as_secs_f64() * 1e3 / number(periods),
        server: server.as_secs_f64() * 1e3 / number(periods),
    })
}
