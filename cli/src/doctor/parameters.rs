//! Parameters: the TTL monitor, and the window of history that the server keeps.

use mongodb::bson::{Bson, DateTime, doc};
use serde_json::json;

use super::Patient;
use super::finding::Finding;
use crate::clock::Difference;

/// For how long a lease may be over before its document shows that nobody tidies up. The monitor's rounds are a minute
/// apart by default.
const LEFT_BEHIND_MS: i64 = 10 * 60 * 1_000;

/// Whether what crashes leave behind goes away.
pub(super) async fn ttl_monitor(patient: &Patient<'_>) -> Finding {
    const CHECK: &str = "TTL monitor";
    let left_behind = left_behind(patient).await;
    let enabled = patient.parameter("ttlMonitorEnabled").await;
    let sleep = patient.parameter("ttlMonitorSleepSecs").await.ok();
    let sleep_secs = sleep.as_ref().and_then(whole);
    let is_enabled = enabled.as_ref().ok().and_then(Bson::as_bool);
    let details = json!({ "enabled": is_enabled, "sleep_secs": sleep_secs,
        "left_behind": left_behind.as_ref().ok() });
    let round = sleep_secs.map_or(String::new(), |secs| format!(", a round every {secs} s"));
    let advice = "expired leases are free all the same, but their documents stay".to_owned();
    let finding = match (is_enabled, &left_behind) {
        (Some(false), _) => Finding::problem(CHECK, "it is switched off", advice),
        (_, Ok(1..)) => {
            let count = left_behind.unwrap_or_default();
            let message = format!("{count} documents of leases that were over ten minutes ago");
            Finding::problem(CHECK, format!("{message}{round}"), advice)
        }
        (Some(true), _) => Finding::ok(CHECK, format!("it runs{round}")),
        (None, Ok(_)) => {
            let why = enabled.err().unwrap_or_default();
            let message = format!("nothing is left behind; its settings are not to be seen: {why}");
            Finding::note(CHECK, message, String::new())
        }
        (None, Err(why)) => Finding::unseen(CHECK, why),
    };
    finding.with(details)
}

/// How many documents of leases that have long been over are there.
async fn left_behind(patient: &Patient<'_>) -> Result<u64, String> {
    let database = &patient.connected.database;
    let words = |error: mongodb::error::Error| patient.words(&error);
    let now = Difference::to(database).await.map_err(words)?.there();
    let long_ago = DateTime::from_millis(now - LEFT_BEHIND_MS);
    // What is damaged is left alone by the monitor, and by us.
    let filter = doc! { "expiresAt": { "$type": "date", "$lt": long_ago } };
    let leases =
        database.collection::<mongodb::bson::Document>(&patient.options.connection.collection);
    leases.count_documents(filter).await.map_err(words)
}

/// For how long the server keeps what was deleted.
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
    let advice = "deleted index entries stay for as long, and acquires have to step over them: \
                  where short leases of ever new names make them slow, lower it";
    Finding::note(CHECK, message, advice.to_owned()).with(details)
}

/// From here on it is worth a word. The server's default is 300.
const LONG_WINDOW_SECS: i64 = 60;

/// A whole number of any of the types that servers use.
fn whole(value: &Bson) -> Option<i64> {
    value.as_i64().or_else(|| value.as_i32().map(i64::from))
}
