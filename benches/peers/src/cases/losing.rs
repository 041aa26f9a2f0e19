//! An attempt at a lock that somebody else holds.

use std::time::{Duration, Instant};

use mongo_lease_measure::{Extent, Outcome, millis_each};

use crate::peers::{Attempt, Peer};
use crate::report::Report;
use crate::setup::Setup;

use super::Comparison;

const NAME: &str = "held";
const ATTEMPTS_MAX: usize = 100;
/// A library that tries several times, with pauses, gets fewer attempts.
const TIME_MAX: Duration = Duration::from_millis(500);

pub(crate) async fn measure(only: &[String], extent: Extent, report: &mut Report) -> Outcome<()> {
    let setup = Setup::new(only).await?;
    let mut comparison = Comparison::default();
    for round in 0..=extent.of(11, 3) {
        for host in &setup.hosts {
            let kind = host.kind();
            host.floor.take(NAME).await?;
            let floor = millis_an_attempt(async || host.floor.lose(NAME).await).await?;
            host.floor.give(NAME).await?;
            if round > 0 {
                comparison.floor(kind.losing_label(), kind, floor);
            }
            for (contender, peer) in &host.peers {
                // Only where an attempt consists of several tries is there a difference.
                if contender.is_variant && contender.library != "rslock" {
                    continue;
                }
                let millis = losing(&**peer).await?;
                let has_variant = contender.library == "rslock";
                let who = if has_variant { contender.label() } else { contender.name() };
                if round > 0 {
                    comparison.add(&who, kind, millis);
                }
            }
        }
    }
    report.table(comparison.table("An attempt that loses", "ms"));
    setup.close().await;
    Ok(())
}

/// `None` where the library has no attempt without waiting.
async fn losing(peer: &dyn Peer) -> Outcome<Option<f64>> {
    match peer.attempt(NAME).await? {
        Attempt::Unsupported => Ok(None),
        Attempt::Lost => Err("lost what was free".into()),
        Attempt::Granted(held) => {
            let millis = millis_an_attempt(async || match peer.attempt(NAME).await? {
                Attempt::Lost => Ok(()),
                Attempt::Granted(_) | Attempt::Unsupported => Err("granted twice".into()),
            });
            let millis = millis.await?;
            held.release().await?;
            Ok(Some(millis))
        }
    }
}

async fn millis_an_attempt(attempt: impl AsyncFn() -> Outcome<()>) -> Outcome<f64> {
    let started = Instant::now();
    let mut attempts = 0;
    while attempts < ATTEMPTS_MAX && (attempts == 0 || started.elapsed() < TIME_MAX) {
        attempt().await?;
        attempts += 1;
    }
    Ok(millis_each(started.elapsed(), attempts))
}
