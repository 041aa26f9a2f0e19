//! Checks the TTL monitor, the server's history window, and how long transactions last.

use std::time::Duration;

use mongodb::bson::{Bson, DateTime, doc};
use serde_json::json;

use super::Patient;
use super::finding::Finding;
use crate::clock::Difference;
use crate::text;

/// How long an expired document may stay before the TTL monitor counts as stopped. By default, the monitor runs once a
/// minute.
const LEFT_BEHIND_MS: i64 = 10 * 60 * 1_000;
const YEAR_MS: i64 = 365 * 24 * 3_600 * 1_000;

/// Checks that the documents of crashed holders are removed.
pub(super) async fn ttl_monitor(patient: &Patient<'_>) -> Finding {
    const CHECK: &str = "TTL monitor";
    let left_behind = left_behind(patient).await;
    let enabled = patient.parameter("ttlMonitorEnabled").await;
    let sleep = patient.parameter("ttlMonitorSleepSecs").await.ok();
    let sleep_secs = sleep.as_ref().and_then(whole);
    let is_enabled = enabled.as_ref().ok().and_then(Bson::as_bool);
    let details = json!({ "enabled": is_enabled, "sleep_secs": sleep_secs,
        "left_behind": left_behind.as_ref().ok() });
    let round = sleep_secs.map_or(String::new(), |secs| format!(", one pass every {secs} s"));
    let advice = "expired leases can be acquired, but their documents are not removed".to_owned();
    let finding = match (is_enabled, &left_behind) {
        (Some(false), _) => Finding::problem(CHECK, "it is switched off", advice),
        (_, Ok(1..)) => {
            let count = left_behind.unwrap_or_default();
            let message = format!("{count} documents of leases that expired over 10 minutes ago");
            Finding::problem(CHECK, format!("{message}{round}"), advice)
        }
        (Some(true), _) => Finding::ok(CHECK, format!("it runs{round}")),
        (None, Ok(_)) => {
            let why = enabled.err().unwrap_or_default();
            let message = format!("no document is overdue; its settings cannot be read: {why}");
            Finding::note(CHECK, message, String::new())
        }
        (None, Err(why)) => Finding::unseen(CHECK, why),
    };
    finding.with(details)
}

/// Counts the documents of leases that expired long ago.
async fn left_behind(patient: &Patient<'_>) -> Result<u64, String> {
    let database = &patient.connected.database;
    let words = |error: mongodb::error::Error| patient.words(&error);
    let now = Difference::to(database).await.map_err(words)?.there();
    let long_ago = DateTime::from_millis(now - LEFT_BEHIND_MS);
    // The monitor leaves corrupt documents alone, and so do we. A document that outlives its holder has expired in
    // 1970, which says nothing of how long it has been there: the monitor may have had no pass since.
    let after_1970 = DateTime::from_millis(YEAR_MS);
    let filter = doc! { "expiresAt": { "$type": "date", "$lt": long_ago, "$gt": after_1970 } };
    let leases =
        database.collection::<mongodb::bson::Document>(&patient.options.connection.collection);
    leases.count_documents(filter).await.map_err(words)
}

/// Checks how long the server keeps deleted entries.
pub(super) async fn history_window(patient: &Patient<'_>) -> Finding {
    const CHECK: &str = "history window";
    const NAME: &str = "minSnapshotHistoryWindowInSeconds";
    let value = match patient.parameter(NAME).await {
        Ok(value) => value,
        Err(why) => return Finding::unseen(CHECK, &why),
    };
    let Some(seconds) = whole(&value) else {
        return Finding::unseen(CHECK, &format!("{NAME} is {value}"));
    };
    let details = json!({ "seconds": seconds });
    let message = format!("{NAME} is {seconds}");
    if seconds <= LONG_WINDOW_SECS {
        return Finding::ok(CHECK, message).with(details);
    }
    let advice = "deleted index entries stay for this long, and acquires step over them: lower it \
                  if short leases under ever new names make acquires slow";
    Finding::note(CHECK, message, advice.to_owned()).with(details)
}

/// Checks how long a transaction of a stopped process lasts. Under a lease, one that guards first keeps the name so
/// long.
pub(super) async fn transactions(patient: &Patient<'_>) -> Finding {
    const CHECK: &str = "transactions";
    const NAME: &str = "transactionLifetimeLimitSeconds";
    if patient.is_standalone() {
        return Finding::ok(CHECK, "a standalone server has none");
    }
    let value = match patient.parameter(NAME).await {
        Ok(value) => value,
        Err(why) => return Finding::unseen(CHECK, &why),
    };
    let Some(seconds) = whole(&value) else {
        return Finding::unseen(CHECK, &format!("{NAME} is {value}"));
    };
    let ttl = patient.ttl;
    let details = json!({ "seconds": seconds, "ttl_ms": u64::try_from(ttl.as_millis()).ok() });
    if u64::try_from(seconds).is_ok_and(|seconds| Duration::from_secs(seconds) <= ttl) {
        let message = format!("{NAME} is {seconds}, no more than a ttl of {}", text::span(ttl));
        return Finding::ok(CHECK, message).with(details);
    }
    let message = format!("{NAME} is {seconds}, and a ttl {}", text::span(ttl));
    let advice = "a process that is stopped in a transaction under its lease, after a conflict, \
                  keeps the lease from others for the longer of both, and half of that more; what \
                  it wrote is kept in any case";
    Finding::note(CHECK, message, advice.to_owned()).with(details)
}

/// From here on the window is reported. The server's default is 300 s.
const LONG_WINDOW_SECS: i64 = 60;

/// A whole number of any BSON type that servers use.
fn whole(value: &Bson) -> Option<i64> {
    value.as_i64().or_else(|| value.as_i32().map(i64::from))
}
