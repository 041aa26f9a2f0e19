//! Measures how late a majority has the newest write.

use std::time::{Duration, Instant};

use mongodb::bson::{Timestamp, doc};
use mongodb::error::ErrorKind;
use mongodb::options::{ReadPreference, SelectionCriteria};
use serde_json::json;

use super::Patient;
use super::finding::Finding;

const CHECK: &str = "replication";

/// How long the majority is waited for.
const PATIENCE: Duration = Duration::from_secs(15);

/// A majority that takes longer is noted. A healthy one takes milliseconds.
const NOTED: Duration = Duration::from_secs(1);

/// Measures the lag, as a read of ours would feel it.
pub(super) async fn replication(patient: &Patient<'_>) -> Finding {
    if patient.is_standalone() {
        return Finding::ok(CHECK, "a standalone server has none").with(json!({ "lag_ms": null }));
    }
    match lag(patient).await {
        Ok(lag) => verdict(lag, patient.ttl),
        Err(why) => Finding::unseen(CHECK, &why).with(json!({ "lag_ms": null })),
    }
}

/// How long a majority takes to have the newest write of the primary; `None` if longer than we wait.
async fn lag(patient: &Patient<'_>) -> Result<Option<Duration>, String> {
    const OUT_OF_TIME: i32 = 50;
    let database = &patient.connected.database;
    let primary = || SelectionCriteria::ReadPreference(ReadPreference::Primary);
    let newest = database.run_command(doc! { "ping": 1 }).selection_criteria(primary());
    let newest = newest.await.map_err(|error| patient.words(&error))?;
    let newest: Timestamp =
        newest.get_timestamp("operationTime").map_err(|_| "the server tells no time".to_owned())?;
    let look = doc! {
        "find": &patient.options.connection.collection,
        "filter": { "name": "" },
        "projection": { "_id": 1 },
        "limit": 1,
        "readConcern": { "level": "majority", "afterClusterTime": newest },
        "maxTimeMS": i64::try_from(PATIENCE.as_millis()).unwrap_or(i64::MAX),
    };
    let asked = Instant::now();
    match database.run_command(look).selection_criteria(primary()).await {
        Ok(_) => Ok(Some(asked.elapsed())),
        Err(error) => {
            let is_over = matches!(error.kind.as_ref(),
                ErrorKind::Command(refused) if refused.code == OUT_OF_TIME);
            if is_over { Ok(None) } else { Err(patient.words(&error)) }
        }
    }
}

fn verdict(lag: Option<Duration>, ttl: Duration) -> Finding {
    let lag_ms = lag.map(|lag| u64::try_from(lag.as_millis()).unwrap_or(u64::MAX));
    let details = json!({ "lag_ms": lag_ms });
    let Some(lag_ms) = lag_ms else {
        let message = format!("no majority has the newest write after {PATIENCE:?}");
        let ttl = humantime::format_duration(ttl);
        let advice = format!(
            "grants wait for it, and a lease with a ttl of {ttl} is lost unless it comes: see \
             `members`"
        );
        return Finding::problem(CHECK, message, advice).with(details);
    };
    let message = format!("a majority has the newest write after {lag_ms} ms");
    let finding = if Duration::from_millis(lag_ms) <= NOTED {
        Finding::ok(CHECK, message)
    } else if Duration::from_millis(lag_ms) <= ttl / 2 {
        let advice = "grants and releases take that much longer: find out why the secondaries lag";
        Finding::note(CHECK, message, advice.to_owned())
    } else {
        let ttl = humantime::format_duration(ttl);
        let advice = format!(
            "a lease with a ttl of {ttl} is lost before a renewal is confirmed: find out why the \
             secondaries lag"
        );
        Finding::problem(CHECK, message, advice)
    };
    finding.with(details)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::finding::Status;
    use super::verdict;

    #[test]
    fn a_lag_counts_beside_the_ttl() {
        let of = |lag: Option<u64>, ttl| {
            verdict(lag.map(Duration::from_millis), Duration::from_secs(ttl)).status
        };
        assert_eq!(of(Some(3), 30), Status::Ok);
        assert_eq!(of(Some(1_000), 30), Status::Ok);
        assert_eq!(of(Some(1_001), 30), Status::Note);
        assert_eq!(of(Some(15_000), 30), Status::Note);
        assert_eq!(of(Some(3_000), 5), Status::Problem);
        assert_eq!(of(None, 600), Status::Problem);
    }
}
