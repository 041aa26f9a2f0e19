//! Faults that the servers make themselves, on command.

use std::time::{Duration, Instant};

use mongo_lease::mongodb::bson::{Bson, Document, doc};
use mongo_lease_checker::Cursor;
use rand::RngExt;
use rand::rngs::StdRng;

use super::{Nemesis, Target, some};
use crate::cluster::{COLLECTION, Cluster, Failed, MEMBERS, PATIENCE};
use crate::worker::APP_NAME;

/// How long the suite tries to unlock a member. A member that has died has no lock.
const UNLOCKING: Duration = Duration::from_secs(20);

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

/// The secondaries copy nothing: no majority confirms a write.
pub(super) async fn replication(target: &Target, random: &mut StdRng) -> Result<(), Failed> {
    let primary = target.cluster.wait_for_primary().await?;
    let pause = some(random, 1_000..3_500);
    let fault = target.began(Nemesis::Replication, format!("all but {primary} for {pause:?}"));
    let on = doc! { "configureFailPoint": "stopReplProducer", "mode": "alwaysOn" };
    for member in (0..MEMBERS).filter(|member| *member != primary) {
        let _gone = target.cluster.admin(member, on.clone(), PATIENCE).await;
    }
    tokio::time::sleep(pause).await;
    off(&target.cluster, "stopReplProducer").await;
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

/// Commands of the workers fail, lose their connection, or take long.
pub(super) async fn fail_point(target: &Target, random: &mut StdRng) -> Result<(), Failed> {
    const COMMANDS: [&str; 5] = ["findAndModify", "update", "delete", "aggregate", "getMore"];
    // Codes of the network, a change of state, a conflict, a time limit, and one plain failure.
    const CODES: [i32; 6] = [6, 91, 112, 10107, 262, 2];
    const CONCERNS: [i32; 3] = [64, 91, 100];
    let commands: Vec<&str> = match random.random_range(0..3) {
        0 => COMMANDS.to_vec(),
        _ => vec![COMMANDS[random.random_range(0..COMMANDS.len())]],
    };
    let mut data = doc! { "failCommands": &commands, "appName": APP_NAME };
    let words = match random.random_range(0..4) {
        0 => {
            let code = CODES[random.random_range(0..CODES.len())];
            data.insert("errorCode", code);
            format!("error {code}")
        }
        1 => {
            data.insert("closeConnection", true);
            "a closed connection".to_owned()
        }
        2 => {
            let code = CONCERNS[random.random_range(0..CONCERNS.len())];
            let concern = doc! { "code": code, "errmsg": "fail point" };
            data.insert("writeConcernError", concern);
            format!("write concern error {code}")
        }
        _ => {
            let millis = random.random_range(200..2_500);
            data.insert("blockConnection", true);
            data.insert("blockTimeMS", millis);
            format!("{millis} ms each")
        }
    };
    let probability = [0.3, 0.7, 1.0][random.random_range(0..3)];
    let pause = some(random, 1_000..4_000);
    let primary = target.cluster.wait_for_primary().await?;
    let detail = format!("{commands:?}: {words}, {probability} of them, {pause:?}");
    let fault = target.began(Nemesis::FailPoint, detail);
    let mode = doc! { "activationProbability": probability };
    let on = doc! { "configureFailPoint": "failCommand", "mode": mode, "data": data };
    let _gone = target.cluster.admin(primary, on, PATIENCE).await;
    tokio::time::sleep(pause).await;
    off(&target.cluster, "failCommand").await;
    target.ended(fault);
    Ok(())
}

/// The primary blocks writes for a while, several times: they wait, with their clock stamped already.
pub(super) async fn lock(target: &Target, random: &mut StdRng) -> Result<(), Failed> {
    let primary = target.cluster.wait_for_primary().await?;
    let times = random.random_range(5..12);
    let longest = random.random_range(300..1_200);
    let detail = format!("member {primary}, {times} times up to {longest} ms");
    let fault = target.began(Nemesis::Lock, detail);
    for _ in 0..times {
        let on = doc! { "fsync": 1, "lock": true };
        let _busy = target.cluster.admin(primary, on, PATIENCE).await;
        tokio::time::sleep(some(random, 120..longest)).await;
        unlock(&target.cluster, primary).await?;
        tokio::time::sleep(some(random, 30..200)).await;
    }
    target.ended(fault);
    Ok(())
}

/// Unlocks until no lock is left, however many there were: a command without an answer may have locked it.
async fn unlock(cluster: &Cluster, member: usize) -> Result<(), Failed> {
    /// "fsyncUnlock called when not locked"
    const NOT_LOCKED: &str = "not locked";
    let deadline = Instant::now() + UNLOCKING;
    loop {
        match cluster.admin(member, doc! { "fsyncUnlock": 1 }, PATIENCE).await {
            Ok(reply) if count(&reply, "lockCount") == 0 => return Ok(()),
            Ok(_) => {}
            Err(error) if error.to_string().contains(NOT_LOCKED) => return Ok(()),
            Err(error) if Instant::now() > deadline => return Err(error),
            Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
        }
    }
}

/// The server kills the cursors of the workers' change streams.
pub(super) async fn kill_cursors(target: &Target) -> Result<(), Failed> {
    let primary = target.cluster.wait_for_primary().await?;
    let cursors = cursors(&target.cluster, primary).await.unwrap_or_default();
    let fault = target.began(Nemesis::Cursor, format!("{} of them", cursors.len()));
    let ids: Vec<i64> = cursors.iter().map(|cursor| cursor.id).collect();
    let command = doc! { "killCursors": COLLECTION, "cursors": ids };
    let database = target.cluster.database(primary);
    let killed = database.run_command(command);
    let _gone = tokio::time::timeout(PATIENCE, async { killed.await }).await;
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

/// Switches a fail point off at every member that answers; a killed member has none.
async fn off(cluster: &Cluster, fail_point: &str) {
    let off = doc! { "configureFailPoint": fail_point, "mode": "off" };
    for member in 0..MEMBERS {
        for _ in 0..5 {
            if cluster.admin(member, off.clone(), PATIENCE).await.is_ok() {
                break;
            }
        }
    }
}

fn count(reply: &Document, field: &str) -> i64 {
    let count = reply.get(field);
    let whole = count.and_then(Bson::as_i64);
    whole.or_else(|| count.and_then(Bson::as_i32).map(i64::from)).unwrap_or(0)
}
