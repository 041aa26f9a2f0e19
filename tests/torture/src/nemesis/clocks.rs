//! Moves the members' clocks. They stay as set until the next change or the end of the run. A server reads its setting
//! once a second.

use mongo_lease_checker::MILLI;
use rand::RngExt;
use rand::rngs::StdRng;

use super::{Nemesis, Target, some};
use crate::cluster::{Failed, MEMBERS};

/// Moves clocks forward and back, several times, each within the bound of the run.
pub(super) async fn move_clocks(
    target: &Target,
    nemesis: Nemesis,
    random: &mut StdRng,
) -> Result<(), Failed> {
    let reach = i64::try_from(target.terms.clock_error / MILLI).unwrap_or(0);
    let times = random.random_range(2..6);
    let mut moves = Vec::new();
    let primary = target.cluster.wait_for_primary().await?;
    for _ in 0..times {
        let member =
            if random.random_bool(0.6) { primary } else { random.random_range(0..MEMBERS) };
        // Mostly as far as allowed.
        let ahead = match random.random_range(0..5) {
            0 | 1 => reach,
            2 | 3 => -reach,
            _ => random.random_range(-reach..=reach),
        };
        moves.push((member, ahead, some(random, 1_100..2_500)));
    }
    let shown: Vec<_> =
        moves.iter().map(|(member, ahead, _)| format!("{member}: {ahead}")).collect();
    let fault = target.began(nemesis, format!("members' clocks ahead by ms: {}", shown.join(", ")));
    for (member, ahead, pause) in moves {
        target.cluster.set_clock(member, ahead)?;
        tokio::time::sleep(pause).await;
    }
    target.ended(fault);
    Ok(())
}
