//! One caller: acquire and release beside both floors.

use mongo_lease_measure::{Extent, Outcome, quantile};

use crate::figure::{Figure, Unit};
use crate::pairs::{OTHERS, Pairs};
use crate::per_side::PerSide;
use crate::report::Report;
use crate::setup::Setup;
use crate::side::{Contender, Side};

/// Pairs of a round.
const PAIRS: usize = 100;

pub(crate) const BARE_PAIR: &str = "bare `insert_one` and `delete_one`";
pub(crate) const RECIPE_PAIR: &str = "the recipe's upsert and delete";

pub(crate) async fn measure(extent: Extent, report: &mut Report) -> Outcome<()> {
    let setup = Setup::new().await?;
    let rounds = PerSide::measured(extent.of(24, 8), &Side::USUAL, async |side: Side| {
        let contender = Contender::fresh(&setup.database, side, OTHERS).await?;
        let pairs = Pairs::taken(&contender, PAIRS, || setup.server_time()).await?;
        contender.close().await;
        Ok(pairs)
    });
    let rounds = rounds.await?;
    report.section("One caller");
    for figure in figures(&rounds) {
        report.add(figure);
    }
    report.section("Latencies of one caller");
    latencies(&rounds, report);
    setup.leases.shutdown().await;
    Ok(())
}

fn figures(rounds: &PerSide<Pairs>) -> Vec<Figure> {
    let beside = |what: &str, beside: &str, floor: Side, figure: fn(&Pairs) -> f64| {
        Figure::ratio(what, beside, &rounds.beside(floor, figure), Unit::Millis)
    };
    let (bare, recipe) = (Side::Bare, Side::Recipe);
    let pair = "acquire and release";
    let (server, client) = ("a pair's processor time, server", "a pair's processor time, client");
    vec![
        beside(pair, BARE_PAIR, bare, Pairs::pair).goal("at most 1.15").drawn(),
        beside(pair, RECIPE_PAIR, recipe, Pairs::pair).goal("at most 1.05").drawn(),
        beside("acquire", "`insert_one`", bare, Pairs::acquire).drawn(),
        beside("acquire", "the recipe's upsert", recipe, Pairs::acquire)
            .goal("at most 1.05")
            .drawn(),
        beside("release", "`delete_one`", bare, Pairs::release).drawn(),
        beside(server, "the bare pair", bare, Pairs::server).goal("at most 1.22").drawn(),
        beside(server, "the recipe's pair", recipe, Pairs::server).drawn(),
        beside(client, "the bare pair", bare, Pairs::client).goal("at most 1.2").drawn(),
        beside(client, "the recipe's pair", recipe, Pairs::client).drawn(),
    ]
}

/// The median and the 99th percentile of all pairs of the run.
fn latencies(rounds: &PerSide<Pairs>, report: &mut Report) {
    for (what, part) in [
        ("a pair", (|it| it.pairs().collect()) as fn(&Pairs) -> Vec<f64>),
        ("an acquire", |it| it.acquires.clone()),
        ("a release", |it| it.releases.clone()),
    ] {
        for (name, thousandths) in [("p50", 500), ("p99", 990)] {
            for (column, side) in
                [("mongo-lease", Side::Ours), ("bare", Side::Bare), ("the recipe", Side::Recipe)]
            {
                let all: Vec<f64> = rounds.of(side).iter().flat_map(part).collect();
                let value = quantile(&all, thousandths);
                let figure = Figure::counted(&format!("{what}, {name}"), value, Unit::Millis);
                report.add(figure.at(column, None));
            }
        }
    }
}
