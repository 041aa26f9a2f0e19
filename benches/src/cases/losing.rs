//! Attempts at names that others hold: the same name again and again, and each name once.

use std::time::{Duration, Instant};

use futures_util::{StreamExt, TryStreamExt, stream};
use mongo_lease::LeaseManager;
use mongo_lease_measure::{Extent, Outcome, millis_each};

use crate::figure::Figure;
use crate::goal::Goal;
use crate::per_side::PerSide;
use crate::report::Report;
use crate::setup::Setup;
use crate::side::{Contender, Side, other, random_name};
use crate::unit::Unit;

/// Attempts of a round, of each kind.
const ATTEMPTS: usize = 100;

pub(crate) const DUPLICATE: &str = "a duplicate-key error";
const RECIPE: &str = "the recipe's duplicate-key error";

/// The milliseconds of an attempt.
struct Lost {
    again: f64,
    first: f64,
}

/// A contender, and names that others hold in its collection.
struct Contest {
    contender: Contender,
    names: Vec<String>,
    used: usize,
}

pub(crate) async fn measure(extent: Extent, report: &mut Report) -> Outcome<()> {
    let setup = Setup::new().await?;
    let rounds = extent.of(24, 6);
    let mut contests = Vec::new();
    for side in Side::USUAL {
        let contender = Contender::fresh(&setup.databases, side, 0).await?;
        let names: Vec<String> = (0..=(rounds + 1) * ATTEMPTS).map(|_| random_name()).collect();
        hold(&setup, &contender, &names).await?;
        contests.push(Contest { contender, names, used: 1 });
    }
    let lost = PerSide::measured(rounds, &Side::USUAL, async |side: Side| {
        let contest = contests.iter_mut().find(|contest| contest.contender.side == side);
        contest.ok_or("no such side")?.round().await
    });
    let lost = lost.await?;
    report.section("One caller");
    for (what, figure, goal) in [
        (
            "an attempt that loses again",
            (|it| it.again) as fn(&Lost) -> f64,
            Some(Goal::AtMost(1.0)),
        ),
        ("the first attempt that loses a name", |it| it.first, None),
    ] {
        let ratio = |beside, floor| {
            Figure::ratio(what, beside, &lost.beside(floor, figure), Unit::Millis).drawn()
        };
        report.add(ratio(DUPLICATE, Side::Bare).goal(goal));
        report.add(ratio(RECIPE, Side::Recipe));
    }
    setup.leases.shutdown().await;
    Ok(())
}

impl Contest {
    async fn round(&mut self) -> Outcome<Lost> {
        let again = vec![self.names.first().ok_or("no name")?.clone(); ATTEMPTS];
        let again = lose_all(&self.contender, again).await?;
        let unused = self.names.get(self.used..self.used + ATTEMPTS).ok_or("too few names")?;
        let first = lose_all(&self.contender, unused.to_vec()).await?;
        self.used += ATTEMPTS;
        Ok(Lost { again, first })
    }
}

/// The milliseconds of an attempt, where there is one at each of these names, in a spawned task.
pub(crate) async fn lose_all(contender: &Contender, names: Vec<String>) -> Outcome<f64> {
    let contender = contender.clone();
    let attempts = tokio::spawn(async move {
        let started = Instant::now();
        for name in &names {
            contender.lose(name).await?;
        }
        Outcome::Ok(millis_each(started.elapsed(), names.len()))
    });
    attempts.await?
}

/// Another holder of all these names: a manager for ours, and documents for the driver.
async fn hold(setup: &Setup, contender: &Contender, names: &[String]) -> Outcome<()> {
    const AN_HOUR: Duration = Duration::from_secs(3_600);
    if contender.side != Side::Ours {
        contender.collection.insert_many(names.iter().map(|name| other(name))).await?;
        return Ok(());
    }
    let collection = contender.collection.name();
    let holder = LeaseManager::builder(setup.databases.by_default().await?);
    let holder = holder.collection(collection).build().await?;
    let held = stream::iter(names).map(|name| {
        let lease = holder.acquire(name).renew(false).ttl(AN_HOUR);
        async { Outcome::Ok(lease.await?.detach().await?) }
    });
    held.buffer_unordered(16).try_for_each(|_| async { Ok(()) }).await
}
