//! Faults that the servers make themselves, on command.

use std::time::Duration;

use mongo_lease::mongodb::bson::{Bson, Document, doc};
use mongo_lease_checker::Cursor;
use rand::RngExt;
use rand::rngs::StdRng;

use super::{Nemesis, Target, some};
use crate::cluster::{COLLECTION, Cluster, Failed, PATIENCE};

/// The primary steps down, by force.
pub(super) async fn step_down(target: &Target) -> Result<(), Failed> {
    let primary = target.cluster.wait_for_primary().await?;
    let fault = target.began(Nemesis::StepDown, format!("member {primary}"));
    let command = doc! { "replSetStepDown": 3, "secondaryCatchUpPeriodSecs": 1, "force": true };
    // During another fault this may fail, or its answer may be lost.
    let _unheard = target.cluster.admin(primary, command, Duration::from_secs(4)).await;
    target.cluster.wait_for_primary().await?;
    target.ended(fault);
    Ok(())
}

/// A majority confirms each write some seconds late, and goes on doing so: all members but the primary are delayed.
pub(super) async fn lag(target: &Target, random: &mut StdRng) -> Result<(), Failed> {
    let seconds = random.random_range(1..=6);
    let pause = some(random, 8_000..16_000);
    let fault = target.began(Nemesis::Lag, format!("{seconds} s for {pause:?}"));
    target.cluster.delay_secondaries(seconds).await?;
    tokio::time::sleep(pause).await;
    target.cluster.delay_secondaries(0).await?;
    target.ended(fault);
    Ok(())
}

/// The cursors on the leases' collection, with or without a waiting command.
pub(crate) async fn cursors(cluster: &Cluster, member: usize) -> Result<Vec<Cursor>, Failed> {
    let namespace = format!("{}.{COLLECTION}", Cluster::database_name());
    let command = doc! {
        "aggregate": 1,
        "pipeline": [
            { "$currentOp": { "allUsers": true, "idleCursors": true, "localOps": true } },
            { "$match": { "ns": namespace, "cursor": { "$exists": true } } },
        ],
        "cursor": { "batchSize": 1_000 },
    };
    let reply = cluster.admin(member, command, PATIENCE).await?;
    let batch = reply.get_document("cursor").and_then(|cursor| cursor.get_array("firstBatch"));
    let operations = batch.into_iter().flatten().filter_map(Bson::as_document);
    let cursor = |operation: &Document| {
        let cursor = operation.get_document("cursor").ok()?;
        let used = cursor.get_datetime("lastAccessDate").map_or(0, |date| date.timestamp_millis());
        let id = cursor.get_i64("cursorId").ok()?;
        Some(Cursor { id, used, is_at_primary: false, shown: operation.to_string() })
    };
    Ok(operations.filter_map(cursor).collect())
}
