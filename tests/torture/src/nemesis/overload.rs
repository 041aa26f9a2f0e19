//! A process that starts far more calls at once than go out within the deadline of an attempt.

use std::time::Duration;

use rand::RngExt;
use rand::rngs::StdRng;

use super::{Nemesis, Target};
use crate::cluster::Failed;
use crate::load::Load;

/// How many calls a load has.
const CALLS: std::ops::Range<u64> = 1_000..2_500;
/// A process in Node sends so many times fewer calls in a second, all of them by one thread.
const NODE_SLOWER: u64 = 3;
/// How long the nemesis waits for the end of a load: the calls' own deadlines, and a busy machine. A worker that is
/// killed or stopped meanwhile does not report it.
const LASTS: Duration = Duration::from_secs(10);

/// One worker makes so many calls at once, and one more after their end.
pub(super) async fn overload(target: &Target, random: &mut StdRng) -> Result<(), Failed> {
    let slot = random.random_range(0..target.fleet.len());
    let slower = if target.fleet.in_node().contains(&slot) { NODE_SLOWER } else { 1 };
    let calls = random.random_range(CALLS) / slower;
    let fault = target.began(Nemesis::Overload, format!("{calls} calls at once in slot {slot}"));
    let load = Load { number: fault, calls };
    if let Some(output) = target.fleet.order(slot, &load.order()).await {
        // Without a report the worker is stopped, or the checker finds the late calls.
        let _reported = tokio::time::timeout(LASTS, load.reported(&output)).await;
    }
    target.ended(fault);
    Ok(())
}
