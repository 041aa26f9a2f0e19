//! Faults of the network.

use std::time::Duration;

use rand::RngExt;
use rand::rngs::StdRng;

use super::{Nemesis, Target, some};
use crate::cluster::{Failed, MEMBERS};

/// The primary is cut off from the other members, while the workers still reach all members.
pub(super) async fn partition(target: &Target, random: &mut StdRng) -> Result<(), Failed> {
    let primary = target.cluster.wait_for_primary().await?;
    let one_way = random.random_bool(0.4);
    let pause = some(random, 2_500..5_500);
    let how = if one_way { "sends nothing" } else { "is cut off" };
    let fault = target.began(Nemesis::Partition, format!("member {primary} {how} for {pause:?}"));
    target.cluster.links.isolate(primary, one_way);
    tokio::time::sleep(pause).await;
    target.cluster.links.heal();
    target.ended(fault);
    Ok(())
}

/// Faults between the workers and the database: cut, black hole or slow, at the primary alone or at all members.
pub(super) async fn bad_weather(target: &Target, random: &mut StdRng) -> Result<(), Failed> {
    let primary = target.cluster.wait_for_primary().await?;
    let everybody = random.random_bool(0.5);
    let hit: Vec<usize> = (0..MEMBERS).filter(|member| everybody || *member == primary).collect();
    let pause = some(random, 1_500..4_500);
    let late = some(random, 300..1_700);
    let (words, kind) = match random.random_range(0..6) {
        0 => ("requests vanish".to_owned(), 0),
        1 => ("replies vanish".to_owned(), 1),
        2 => ("connections are cut again and again".to_owned(), 2),
        3 => ("no connection gets through".to_owned(), 3),
        _ => (format!("replies come {late:?} late"), 4),
    };
    let fault = target.began(Nemesis::Network, format!("members {hit:?}: {words}, {pause:?}"));
    for proxy in hit.iter().map(|member| &target.cluster.proxies[*member]) {
        proxy.change(|weather| match kind {
            0 => weather.holds_requests = true,
            1 => weather.holds_replies = true,
            2 => {}
            3 => weather.refuses = true,
            _ => weather.replies_late = late,
        });
        if kind == 3 {
            proxy.cut();
        }
    }
    let cuts = if kind == 2 { 6 } else { 0 };
    for _ in 0..cuts {
        hit.iter().for_each(|member| target.cluster.proxies[*member].cut());
        tokio::time::sleep(pause / cuts).await;
    }
    if cuts == 0 {
        tokio::time::sleep(pause).await;
    }
    for member in hit {
        // Requests that were kept back arrive now, or their connection is gone: both happen in the world.
        if random.random_bool(0.5) {
            target.cluster.proxies[member].cut();
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        target.cluster.proxies[member].clear();
    }
    target.ended(fault);
    Ok(())
}
