//! One caller: acquire and release beside both floors.

use mongo_lease_measure::{Extent, Outcome, quantile};

use crate::figure::Figure;
use crate::goal::Goal;
use crate::pairs::{OTHERS, Pairs};
use crate::per_side::PerSide;
use crate::report::Report;
use crate::setup::Setup;
use crate::side::{Contender, Side};
use crate::unit::Unit;

/// Pairs of a round.
const PAIRS: usize = 100;

pub(crate) const BARE_PAIR: &str = "bare `insert_one` and `delete_one`";
pub(crate) const RECIPE_PAIR: &str = "the recipe's upsert and delete";

/// Both floors also as the driver has them by default.
const SIDES: [Side; 5] =
    [Side::Ours, Side::Bare, Side::Recipe, Side::BareRetryable, Side::RecipeRetryable];

pub(crate) async fn measure(extent: Extent, report: &mut Report) -> Outcome<()> {
    let setup = Setup::new().await?;
    let rounds = PerSide::measured(extent.of(20, 6), &SIDES, async |side: Side| {
        let contender = Contender::fresh(&setup.databases, side, OTHERS).await?;
        let pairs = Pairs::taken(&contender, PAIRS, || setup.server_time()).await?;
        contender.close().await;
        Ok(pairs)
    });
    let rounds = rounds.await?;
    report.section("One caller");
    for figure in figures(&rounds).into_iter().chain(by_default(&rounds)) {
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
        beside(pair, BARE_PAIR, bare, Pairs::pair).goal(Goal::AtMost(1.15)).drawn(),
        beside(pair, RECIPE_PAIR, recipe, Pairs::pair).goal(Goal::AtMost(1.05)).drawn(),
        beside("acquire", "`insert_one`", bare, Pairs::acquire).drawn(),
        beside("acquire", "the recipe's upsert", recipe, Pairs::acquire)
            .goal(Goal::AtMost(1.05))
            .drawn(),
        beside("release", "`delete_one`", bare, Pairs::release).drawn(),
        beside(server, "the bare pair", bare, Pairs::server).goal(Goal::AtMost(1.22)).drawn(),
        beside(server, "the recipe's pair", recipe, Pairs::server).drawn(),
        beside(client, "the bare pair", bare, Pairs::client).goal(Goal::AtMost(1.2)).drawn(),
        beside(client, "the recipe's pair", recipe, Pairs::client).drawn(),
    ]
}

/// The floors with retryable writes.
fn by_default(rounds: &PerSide<Pairs>) -> Vec<Figure> {
    let compared = |what: &str, ours, beside: &str, floor, figure: fn(&Pairs) -> f64| {
        Figure::ratio(what, beside, &rounds.compared(ours, floor, figure), Unit::Millis)
    };
    let (bare, recipe) = ("the bare pair, retryable", "the recipe's pair, retryable");
    let server = |what: &str| format!("{what}: processor time, server");
    vec![
        compared("acquire and release", Side::Ours, bare, Side::BareRetryable, Pairs::pair),
        compared("acquire and release", Side::Ours, recipe, Side::RecipeRetryable, Pairs::pair),
        compared(bare, Side::BareRetryable, "the bare pair", Side::Bare, Pairs::pair),
        compared(&server(bare), Side::BareRetryable, "the bare pair", Side::Bare, Pairs::server),
        compared(recipe, Side::RecipeRetryable, "the recipe's pair", Side::Recipe, Pairs::pair),
        compared(
            &server(recipe),
            Side::RecipeRetryable,
            "the recipe's pair",
            Side::Recipe,
            Pairs::server,
        ),
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
