//! The cost of renewals beside change streams: each stream on the deployment reads every entry of the oplog.

use std::time::Duration;

use futures_util::StreamExt;
use mongo_lease::mongodb::Client;
use mongo_lease::mongodb::bson::Document;
use mongo_lease_measure::{Extent, Outcome};
use tokio::task::JoinSet;

use super::holding::renewals;
use crate::figure::Figure;
use crate::report::Report;
use crate::setup::Setup;
use crate::unit::Unit;
use crate::workers::Worker;

/// A third of the ttl.
const PERIOD: Duration = Duration::from_secs(10);
const HELD: usize = 10_000;

pub(crate) async fn measure(extent: Extent, report: &mut Report) -> Outcome<()> {
    let mut figures = Vec::new();
    for streams in [0, 10, 50] {
        let mut rounds = Vec::new();
        for _ in 0..extent.of(3, 1) {
            rounds.push(round(streams).await?);
        }
        rounds.sort_by(f64::total_cmp);
        let what = format!(
            "renewing 10,000 leases beside {streams} change streams on another collection: \
             server's processor time"
        );
        figures.push(Figure::counted(&what, rounds[rounds.len() / 2], Unit::Millis));
    }
    report.section("Leases that are held");
    figures.into_iter().for_each(|figure| report.add(figure));
    Ok(())
}

/// Milliseconds of the server's processor for a renewal of all leases, beside so many streams.
async fn round(streams: usize) -> Outcome<f64> {
    let setup = Setup::new().await?;
    let mut worker = Worker::start(&setup).await?;
    worker.number(&format!("hold random {HELD} {}", (PERIOD * 3).as_millis())).await?;
    let client = Client::with_uri_str(setup.server.uri()).await?;
    let events = client.database("elsewhere").collection::<Document>("events");
    let mut watching = JoinSet::new();
    for _ in 0..streams {
        let mut stream = events.watch().await?;
        watching.spawn(async move { while stream.next().await.is_some() {} });
    }
    let renewal = renewals(&setup, &mut worker, PERIOD, 1).await?;
    drop(worker);
    setup.leases.shutdown().await;
    Ok(renewal.server)
}
