//! Faults of processes: they are killed, or stopped for longer than a ttl.

use std::sync::Arc;
use std::time::Duration;

use rand::RngExt;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;

use super::{Nemesis, Target, some};
use crate::cluster::Failed;

/// From longer than the shortest of the workers' ttls to longer than the longest, in milliseconds.
const LONG_MS: std::ops::Range<u64> = 2_300..5_000;

/// The primary is killed, and started again.
pub(super) async fn kill(target: &Target, random: &mut StdRng) -> Result<(), Failed> {
    let primary = target.cluster.wait_for_primary().await?;
    let fault = target.began(Nemesis::Kill, format!("member {primary}"));
    let set = Arc::clone(&target.cluster.set);
    let killed = tokio::task::spawn_blocking(move || set.node(primary).kill()).await;
    killed.map_err(|error| Failed::at("killing a member", error))?;
    tokio::time::sleep(some(random, 1_000..4_000)).await;
    let set = Arc::clone(&target.cluster.set);
    let started = tokio::task::spawn_blocking(move || set.node(primary).restart()).await;
    let started = started.map_err(|error| Failed::at("starting a member again", error))?;
    started.map_err(|error| Failed::at("starting a member again", error))?;
    target.cluster.wait_until_followed().await?;
    target.ended(fault);
    Ok(())
}

/// The primary is stopped: its connections stay open, and nothing is answered.
pub(super) async fn stop(target: &Target, random: &mut StdRng) -> Result<(), Failed> {
    let primary = target.cluster.wait_for_primary().await?;
    let pause = some(random, LONG_MS);
    let fault = target.began(Nemesis::Stop, format!("member {primary} for {pause:?}"));
    target.cluster.set.node(primary).pause();
    tokio::time::sleep(pause).await;
    target.cluster.set.node(primary).resume();
    target.ended(fault);
    Ok(())
}

/// Some workers are stopped, while others go on.
pub(super) async fn stop_worker(target: &Target, random: &mut StdRng) -> Result<(), Failed> {
    let count = random.random_range(1..=target.fleet.len().div_ceil(2));
    let mut slots: Vec<usize> = (0..target.fleet.len()).collect();
    slots.shuffle(random);
    slots.truncate(count);
    let pause = some(random, LONG_MS);
    let fault = target.began(Nemesis::StopWorker, format!("slots {slots:?} for {pause:?}"));
    for slot in &slots {
        target.fleet.stop(*slot, &target.history);
    }
    tokio::time::sleep(pause).await;
    for slot in &slots {
        target.fleet.resume(*slot, &target.history);
    }
    target.ended(fault);
    Ok(())
}

/// The event loops of some workers in Node are blocked, while those of others go on.
pub(super) async fn block(target: &Target, random: &mut StdRng) -> Result<(), Failed> {
    let mut slots: Vec<usize> = target.fleet.in_node().collect();
    slots.shuffle(random);
    slots.truncate(slots.len().div_ceil(2));
    let pause = some(random, LONG_MS);
    let fault = target.began(Nemesis::Block, format!("slots {slots:?} for {pause:?}"));
    let order = format!("block {}", pause.as_millis());
    for slot in &slots {
        // The workers note it themselves.
        target.fleet.order(*slot, &order).await;
    }
    tokio::time::sleep(pause).await;
    target.ended(fault);
    Ok(())
}

/// Some workers are killed, one after the other, at any moment.
pub(super) async fn kill_worker(target: &Target, random: &mut StdRng) -> Result<(), Failed> {
    let count = random.random_range(1..=3);
    let fault = target.began(Nemesis::KillWorker, format!("{count} of them"));
    for _ in 0..count {
        let slot = random.random_range(0..target.fleet.len());
        target.fleet.kill(slot, &target.history);
        tokio::time::sleep(Duration::from_millis(random.random_range(0..900))).await;
    }
    target.ended(fault);
    Ok(())
}
