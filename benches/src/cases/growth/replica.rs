//! A pair on a replica set of three, all of whose members are on this machine.

use std::time::Duration;

use mongo_lease_measure::{Extent, Outcome, host};
use mongo_lease_testbed::ReplicaSet;

use crate::cases::alone::{BARE_PAIR, RECIPE_PAIR};
use crate::databases::Databases;
use crate::figure::Figure;
use crate::pairs::{OTHERS, Pairs};
use crate::per_side::PerSide;
use crate::report::Report;
use crate::side::{Contender, Side};
use crate::unit::Unit;

pub(super) async fn measure(extent: Extent, report: &mut Report) -> Outcome<()> {
    report.section("A replica set of three");
    let set = ReplicaSet::start_on_disk();
    let databases = Databases::at(&set.uri());
    let members = || -> Duration {
        (0..3).map(|member| host::processor_time_of(set.node(member).pid())).sum()
    };
    let rounds = PerSide::measured(extent.of(6, 3), &Side::USUAL, async |side: Side| {
        let contender = Contender::fresh(&databases, side, OTHERS).await?;
        let pairs = Pairs::taken(&contender, 60, members).await?;
        contender.close().await;
        Ok(pairs)
    });
    let rounds = rounds.await?;
    let pair = "acquire and release, replica set of three";
    let server = "a pair's processor time, replica set of three";
    for (what, beside, floor, figure) in [
        (pair, BARE_PAIR, Side::Bare, Pairs::pair as fn(&Pairs) -> f64),
        (pair, RECIPE_PAIR, Side::Recipe, Pairs::pair),
        (server, "the bare pair", Side::Bare, Pairs::server),
        (server, "the recipe's pair", Side::Recipe, Pairs::server),
    ] {
        let rounds = rounds.beside(floor, figure);
        report.add(Figure::ratio(what, beside, &rounds, Unit::Millis).drawn());
    }
    Ok(())
}
