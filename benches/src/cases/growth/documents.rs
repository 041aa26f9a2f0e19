//! All operations in one collection, which has ever more live leases of others. All sides share it.

use std::time::{Duration, Instant};

use futures_util::TryStreamExt;
use mongo_lease::mongodb::Collection;
use mongo_lease::mongodb::bson::{Document, doc};
use mongo_lease_measure::{Extent, Outcome, journalled_collection, number};

use crate::cases::alone::{BARE_PAIR, RECIPE_PAIR};
use crate::cases::hand_off;
use crate::cases::holding::{self, Renewal};
use crate::cases::losing::{DUPLICATE, lose_all};
use crate::figure::Figure;
use crate::pairs::Pairs;
use crate::per_side::PerSide;
use crate::report::Report;
use crate::setup::Setup;
use crate::side::{Contender, Side, insert_others};
use crate::unit::Unit;
use crate::workers::Worker;

/// The collection of all sides, which is the default one.
const COLLECTION: &str = "locks";
/// Pairs and attempts of a round.
const TIMES: usize = 60;
/// Leases of one process, which are renewed and listed.
const HELD: usize = 1_000;
/// Their ttl, and a third of it.
const TTL: Duration = Duration::from_secs(6);
const PERIOD: Duration = Duration::from_secs(2);
const PERIODS: usize = 3;
/// Rounds of renewals.
const RENEWED: usize = 2;

/// The sides, and the processes that work beside them.
struct Scene {
    setup: Setup,
    contenders: Vec<Contender>,
    /// Two that hand off to each other.
    pair: Vec<Worker>,
    holder: Worker,
    /// The floor of its renewals.
    driver: Worker,
    locks: Collection<Document>,
    rounds: usize,
}

pub(super) async fn measure(extent: Extent, report: &mut Report) -> Outcome<()> {
    report.section("Growth: other documents in the collection");
    let mut scene = Scene::new(extent.of(6, 3)).await?;
    let sizes: &[(usize, &str)] = if extent.is_short() {
        &[(1_000, "1,000"), (100_000, "100,000")]
    } else {
        &[(1_000, "1,000"), (100_000, "100,000"), (1_000_000, "1,000,000")]
    };
    let mut documents = 0;
    for &(size, label) in sizes {
        insert_others(&scene.locks, size - documents).await?;
        // A checkpoint now: else the server writes these documents while it is measured.
        scene.setup.server.admin(doc! { "fsync": 1 }).await;
        documents = size;
        for figure in scene.figures().await? {
            report.add(figure.at(&format!("{label} documents"), Some(number(size))));
        }
    }
    for contender in scene.contenders {
        contender.close().await;
    }
    scene.setup.leases.shutdown().await;
    Ok(())
}

impl Scene {
    async fn new(rounds: usize) -> Outcome<Scene> {
        let setup = Setup::new().await?;
        let mut contenders = Vec::new();
        for side in Side::USUAL {
            contenders.push(Contender::open(&setup.databases, COLLECTION, side).await?);
        }
        let pair = Worker::start_all(&setup, 2).await?;
        let holder = Worker::start(&setup).await?;
        let driver = Worker::start_bare(&setup).await?;
        let locks = journalled_collection(setup.databases.plain().await?, COLLECTION);
        Ok(Scene { setup, contenders, pair, holder, driver, locks, rounds })
    }

    async fn figures(&mut self) -> Outcome<Vec<Figure>> {
        let mut figures = self.pairs().await?;
        figures.push(self.losing().await?);
        figures.extend(self.hand_offs().await?);
        figures.extend(self.renewals().await?);
        figures.push(self.list().await?);
        Ok(figures)
    }

    fn contender(&self, side: Side) -> Outcome<&Contender> {
        let contender = self.contenders.iter().find(|contender| contender.side == side);
        Ok(contender.ok_or("no such side")?)
    }

    async fn pairs(&self) -> Outcome<Vec<Figure>> {
        let rounds = PerSide::measured(self.rounds, &Side::USUAL, async |side: Side| {
            Pairs::taken(self.contender(side)?, TIMES, || self.setup.server_time()).await
        });
        let rounds = rounds.await?;
        let ratio = |what, beside, floor, figure: fn(&Pairs) -> f64| {
            Figure::ratio(what, beside, &rounds.beside(floor, figure), Unit::Millis)
        };
        Ok(vec![
            ratio("a pair", BARE_PAIR, Side::Bare, Pairs::pair),
            ratio("a pair", RECIPE_PAIR, Side::Recipe, Pairs::pair),
            ratio("a pair's processor time, server", "the bare pair", Side::Bare, Pairs::server),
        ])
    }

    /// All sides lose against the same lease.
    async fn losing(&self) -> Outcome<Figure> {
        let held = self.setup.leases.acquire("held").await?;
        let rounds = PerSide::measured(self.rounds, &Side::USUAL, async |side: Side| {
            lose_all(self.contender(side)?, vec!["held".to_owned(); TIMES]).await
        });
        let rounds = rounds.await?.beside(Side::Bare, |millis| *millis);
        held.release().await?;
        Ok(Figure::ratio("an attempt that loses again", DUPLICATE, &rounds, Unit::Millis))
    }

    async fn hand_offs(&mut self) -> Outcome<Vec<Figure>> {
        let Scene { setup, contenders, pair, rounds, .. } = self;
        let times = PerSide::measured(*rounds, &Side::USUAL, async |side: Side| {
            if side == Side::Ours {
                return hand_off::ours(setup, pair).await;
            }
            let contender = contenders.iter().find(|contender| contender.side == side);
            hand_off::floor(contender.ok_or("no such side")?).await
        });
        Ok(hand_off::figures("hand-off, 1 waiting", &times.await?))
    }

    /// A thousand leases of one process are renewed, and as many documents are prolonged by the driver.
    async fn renewals(&mut self) -> Outcome<Vec<Figure>> {
        let Scene { setup, holder, driver, .. } = self;
        let sides = [Side::Ours, Side::Bare];
        let database = setup.databases.by_default().await?;
        let costs = PerSide::without_warm_up(RENEWED, &sides, async |side: Side| {
            // As after a restart of the server: which plan it chose at a smaller size does not count.
            database.run_command(doc! { "planCacheClear": COLLECTION }).await?;
            if side == Side::Ours {
                holder.obey(&format!("hold random {HELD} {}", TTL.as_millis())).await?;
                let cost = holding::renewals(setup, holder, PERIOD, PERIODS).await?;
                holder.obey("free").await?;
                return Ok(cost);
            }
            driver.obey(&format!("insert {COLLECTION} {HELD}")).await?;
            let cost = holding::prolonging(setup, driver, PERIOD, PERIODS).await?;
            driver.obey("remove").await?;
            Ok(cost)
        });
        let costs = costs.await?;
        let prolonged = "`update_many` of as many";
        let renewal = |part, figure: fn(&Renewal) -> f64| {
            let what = format!("renewal of 1,000 leases, {part}'s processor time");
            Figure::ratio(&what, prolonged, &costs.beside(Side::Bare, figure), Unit::Millis)
        };
        Ok(vec![renewal("client", |it| it.client), renewal("server", |it| it.server)])
    }

    /// A thousand leases of one process are listed, and found by the driver.
    async fn list(&mut self) -> Outcome<Figure> {
        let Scene { setup, holder, locks, rounds, .. } = self;
        holder.obey(&format!("hold in-order {HELD} {}", TTL.as_millis())).await?;
        let sides = [Side::Ours, Side::Bare];
        let listed = PerSide::measured(*rounds, &sides, async |side: Side| {
            let started = Instant::now();
            let found = if side == Side::Ours {
                let leases = setup.leases.list().prefix("lease:").stream()?;
                leases.try_collect::<Vec<_>>().await?.len()
            } else {
                let with_prefix = doc! { "name": { "$regex": "^lease:" } };
                let found = locks.find(with_prefix).sort(doc! { "name": 1 }).await?;
                found.try_collect::<Vec<_>>().await?.len()
            };
            if found != HELD {
                return Err(format!("{found} leases of {HELD} were listed").into());
            }
            Ok(started.elapsed().as_secs_f64() * 1e3)
        });
        let listed = listed.await?.beside(Side::Bare, |millis| *millis);
        holder.obey("free").await?;
        let what = "`list` of 1,000 leases by prefix";
        Ok(Figure::ratio(what, "`find`", &listed, Unit::Millis))
    }
}
