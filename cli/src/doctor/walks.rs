//! Checks how many deleted index entries the server walks over. Tombstones may avoid that.

use std::time::{Duration, Instant};

use mongodb::bson::{Bson, Document, doc};
use serde_json::json;

use super::Patient;
use super::finding::Finding;

const CHECK: &str = "index walks";

/// The minimum time of the measurement.
const WATCHED: Duration = Duration::from_secs(1);

/// From this many entries per deleted document on, tombstones pay off. Walking over them takes some tenths of a
/// millisecond of the server and of the caller.
const MANY: u64 = 1_000;

/// From this many deletions per second on, the ratio is meaningful.
const RATE_MIN: f64 = 1.0;

/// The server's counters since its start.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Counts {
    /// Entries that cursors walked over.
    entries: u64,
    /// Documents that clients deleted. Those that the TTL monitor removes do not count.
    deletes: u64,
}

/// A measurement in progress.
pub(super) struct Walks {
    started: Instant,
    before: Result<Counts, String>,
}

impl Walks {
    /// Starts the measurement.
    pub(super) async fn start(patient: &Patient<'_>) -> Walks {
        let before = counts(patient).await;
        Walks { started: Instant::now(), before }
    }

    /// Ends the measurement after at least `WATCHED`, and returns its finding.
    pub(super) async fn finish(self, patient: &Patient<'_>) -> Finding {
        let before = match self.before {
            Ok(before) => before,
            Err(why) => return Finding::unseen(CHECK, &why),
        };
        tokio::time::sleep(WATCHED.saturating_sub(self.started.elapsed())).await;
        match counts(patient).await {
            Ok(after) => verdict(before, after, self.started.elapsed()),
            Err(why) => Finding::unseen(CHECK, &why),
        }
    }
}

async fn counts(patient: &Patient<'_>) -> Result<Counts, String> {
    if patient.is_router() {
        return Err("a router does not count index walks; check the shards".to_owned());
    }
    let status = patient.admin(doc! { "serverStatus": 1 }).await?;
    read(&status).ok_or_else(|| "the server does not report the counters".to_owned())
}

fn read(status: &Document) -> Option<Counts> {
    let cursor = status.get_document("wiredTiger").ok()?.get_document("cursor").ok()?;
    let walked = |direction: &str| {
        whole(cursor.get(format!("Total number of entries skipped by cursor {direction} calls"))?)
    };
    let deletes = whole(status.get_document("opcounters").ok()?.get("delete")?)?;
    Some(Counts { entries: walked("next")? + walked("prev")?, deletes })
}

fn whole(value: &Bson) -> Option<u64> {
    let number = value.as_i64().or_else(|| value.as_i32().map(i64::from))?;
    u64::try_from(number).ok()
}

fn verdict(before: Counts, after: Counts, time: Duration) -> Finding {
    let entries = after.entries.saturating_sub(before.entries);
    let deletes = after.deletes.saturating_sub(before.deletes);
    let seconds = time.as_secs_f64();
    let details = json!({ "entries": entries, "deletes": deletes, "seconds": seconds });
    let message = format!(
        "the server skipped {entries} index entries in {seconds:.1} s, with {deletes} \
         deletes"
    );
    let is_rare = f64::from(u32::try_from(deletes).unwrap_or(u32::MAX)) < RATE_MIN * seconds;
    if is_rare || entries / deletes.max(1) < MANY {
        return Finding::ok(CHECK, message).with(details);
    }
    let advice = "if these are releases of leases under ever new names, build their managers with \
                  `tombstones(true)`: the operators' page shows what that saves";
    Finding::note(CHECK, message, advice.to_owned()).with(details)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use mongodb::bson::doc;

    use super::super::finding::Status;
    use super::{Counts, read, verdict};

    fn status(entries: u64, deletes: u64) -> Status {
        let before = Counts { entries: 70, deletes: 7 };
        let after = Counts { entries: 70 + entries, deletes: 7 + deletes };
        verdict(before, after, Duration::from_secs(2)).status
    }

    #[test]
    fn many_entries_for_each_delete_are_noted() {
        assert_eq!(status(0, 0), Status::Ok);
        assert_eq!(status(1_000_000_000, 1), Status::Ok, "too few to say");
        assert_eq!(status(99_999, 100), Status::Ok);
        assert_eq!(status(100_000, 100), Status::Note);
    }

    #[test]
    fn a_server_that_restarted_meanwhile_is_no_panic() {
        let before = Counts { entries: 1_000, deletes: 100 };
        let after = Counts { entries: 0, deletes: 0 };
        assert_eq!(verdict(before, after, Duration::from_secs(1)).status, Status::Ok);
    }

    #[test]
    fn both_directions_count_and_what_is_missing_is_not_zero() {
        let cursor = doc! {
            "Total number of entries skipped by cursor next calls": 3_i64,
            "Total number of entries skipped by cursor prev calls": 4,
        };
        let mut found =
            doc! { "wiredTiger": { "cursor": cursor }, "opcounters": { "delete": 5_i64 } };
        assert_eq!(read(&found), Some(Counts { entries: 7, deletes: 5 }));
        found.remove("wiredTiger");
        assert_eq!(read(&found), None);
    }
}
