//! One caller: acquire and release beside the driver's bare insert and delete, and losing beside a duplicate key.

use std::time::{Duration, Instant};

use mongo_lease::Attempt;
use mongo_lease::mongodb::bson::doc;
use mongo_lease_measure::{Extent, Outcome, Round, Rounds, host, millis_each, number};

use crate::bare::{Setup, lock, unlock};
use crate::report::Report;

const PAIRS: usize = 100;

/// One round's times for each half of a pair, and the processor time of both.
#[derive(Clone, Copy, Default)]
struct Pairs {
    take: Duration,
    give: Duration,
    client: Duration,
    server: Duration,
}

pub(crate) async fn measure(extent: Extent, report: &mut Report) -> Outcome<()> {
    let setup = Setup::new().await?;
    let mut rounds = Vec::new();
    // The first round opens the connections.
    for round in 0..=extent.of(30, 8) {
        let floor = timed(&setup, async || floor(&setup, round).await).await?;
        let ours = timed(&setup, async || ours(&setup, round).await).await?;
        if round > 0 {
            rounds.push((ours, floor));
        }
    }
    let of = |figure: fn(&Pairs) -> Duration| {
        let millis = |pairs: &Pairs| millis_each(figure(pairs), PAIRS);
        let both =
            |(ours, floor): &(Pairs, Pairs)| Round { ours: millis(ours), floor: millis(floor) };
        Rounds(rounds.iter().map(both).collect())
    };
    let cost = |rounds: &Rounds| format!("{:.2} ms and {:.2} ms", rounds.ours(), rounds.floor());
    let pair = of(|pairs| pairs.take + pairs.give);
    let bare = "bare `insert_one` and `delete_one`, majority and journal";
    report.ratio("acquire and release", bare, &pair, &cost(&pair), "1.05");
    let take = of(|pairs| pairs.take);
    report.ratio("acquire", "`insert_one`", &take, &cost(&take), "");
    let give = of(|pairs| pairs.give);
    report.ratio("release", "`delete_one`", &give, &cost(&give), "");
    for (what, figure) in [
        ("a pair's processor time, client", (|pairs| pairs.client) as fn(&Pairs) -> Duration),
        ("a pair's processor time, server", |pairs| pairs.server),
    ] {
        let total = |pick: fn(&(Pairs, Pairs)) -> Pairs| {
            let all: Duration = rounds.iter().map(|round| figure(&pick(round))).sum();
            millis_each(all, PAIRS * rounds.len())
        };
        let (ours, floor) = (total(|round| round.0), total(|round| round.1));
        let note = format!("{ours:.2} ms and {floor:.2} ms");
        report.row(what, "the bare pair", &format!("{:.2} x", ours / floor), &note, "");
    }
    losing(&setup, extent, report).await?;
    setup.leases.shutdown().await;
    Ok(())
}

async fn timed(setup: &Setup, pairs: impl AsyncFnOnce() -> Outcome<Pairs>) -> Outcome<Pairs> {
    let server = || host::processor_time_of(setup.server.mongod().pid());
    let before = (host::own_processor_time(), server());
    let pairs = pairs().await?;
    Ok(Pairs {
        client: host::own_processor_time() - before.0,
        server: server() - before.1,
        ..pairs
    })
}

async fn floor(setup: &Setup, round: usize) -> Outcome<Pairs> {
    let mut pairs = Pairs::default();
    for number in 0..PAIRS {
        let lock = lock(&format!("invoice:{round}:{number}"));
        let unlock = unlock(&lock);
        let started = Instant::now();
        setup.bare.insert_one(lock).await?;
        let taken = Instant::now();
        setup.bare.delete_one(unlock).await?;
        pairs.take += taken - started;
        pairs.give += taken.elapsed();
    }
    Ok(pairs)
}

async fn ours(setup: &Setup, round: usize) -> Outcome<Pairs> {
    let mut pairs = Pairs::default();
    for number in 0..PAIRS {
        let name = format!("invoice:{round}:{number}");
        let started = Instant::now();
        let lease = setup.leases.acquire(name).await?;
        let taken = Instant::now();
        lease.release().await?;
        pairs.take += taken - started;
        pairs.give += taken.elapsed();
    }
    Ok(pairs)
}

/// Our refusal, which names the holder, beside the duplicate-key error of a bare insert.
async fn losing(setup: &Setup, extent: Extent, report: &mut Report) -> Outcome<()> {
    let held = setup.leases.acquire("held").await?;
    setup.bare.insert_one(doc! { "name": "held", "value": "another" }).await?;
    let mut rounds = Vec::new();
    for _ in 0..extent.of(30, 8) {
        let mut round = Round { ours: 0.0, floor: 0.0 };
        for _ in 0..PAIRS {
            let started = Instant::now();
            if setup.bare.insert_one(doc! { "name": "held", "value": "mine" }).await.is_ok() {
                return Err("inserted a name twice".into());
            }
            round.floor += started.elapsed().as_secs_f64() * 1e3 / number(PAIRS);
            let started = Instant::now();
            if let Attempt::Granted(_) = setup.leases.try_acquire("held").await? {
                return Err("granted twice".into());
            }
            round.ours += started.elapsed().as_secs_f64() * 1e3 / number(PAIRS);
        }
        rounds.push(round);
    }
    let rounds = Rounds(rounds);
    let note = format!("{:.2} ms and {:.2} ms", rounds.ours(), rounds.floor());
    let what = "an attempt that loses, and names the holder";
    report.ratio(what, "a duplicate-key error", &rounds, &note, "0.5");
    held.release().await?;
    Ok(())
}
