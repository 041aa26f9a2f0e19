//! Compares the rate of renewals with the size of the oplog.

use futures_util::TryStreamExt;
use mongodb::bson::{Bson, Document, doc};
use mongodb::options::Hint;
use serde_json::json;

use super::Patient;
use super::finding::Finding;

const CHECK: &str = "oplog";

/// The size of the entry that a renewal of a lease adds to the oplog, in bytes, without the collection's full name.
const RENEWAL_BYTES: f64 = 218.0;

/// A lease is renewed so often within its ttl.
const RENEWALS_PER_TTL: f64 = 3.0;

/// A shorter window is noted. MongoDB's production notes ask for an oplog of at least 24 hours: a member that is away
/// for longer than the window needs a full copy of the data.
const WINDOW_MIN_SECS: f64 = 24.0 * 3_600.0;

/// The held leases with a ttl.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Rate {
    held: i64,
    /// The sum of the leases' `1 / ttl`.
    per_sec: f64,
}

/// Estimates the window that the renewals alone leave.
pub(super) async fn oplog(patient: &Patient<'_>) -> Finding {
    if patient.is_router() {
        return Finding::unseen(CHECK, "a router has none; check the shards");
    }
    if patient.is_standalone() {
        return Finding::ok(CHECK, "a standalone server has none");
    }
    let rate = match rate(patient).await {
        Ok(rate) => rate,
        Err(why) => return Finding::unseen(CHECK, &why),
    };
    match max_bytes(patient).await {
        Ok(max_bytes) => verdict(rate, RENEWAL_BYTES + name_bytes(patient), max_bytes),
        Err(why) => Finding::unseen(CHECK, &why),
    }
}

/// Reads the held leases. Those of other programs have no ttl, and those of several holders have one each: they do not
/// count.
async fn rate(patient: &Patient<'_>) -> Result<Rate, String> {
    let words = |error: mongodb::error::Error| patient.words(&error);
    let name = &patient.options.connection.collection;
    let leases = patient.connected.database.collection::<Document>(name);
    let held = doc! { "expiresAt": { "$type": "date" }, "grant.ttlMs": { "$gt": 0 },
    "$expr": { "$gt": ["$expiresAt", "$$NOW"] } };
    let per_sec = doc! { "$sum": { "$divide": [1_000.0, "$grant.ttlMs"] } };
    let sums = doc! { "_id": null, "held": { "$sum": 1 }, "perSec": per_sec };
    // A walk along the index on `expiresAt` would meet a lease twice that is renewed meanwhile.
    let in_place = Hint::Keys(doc! { "$natural": 1 });
    let found = leases.aggregate([doc! { "$match": held }, doc! { "$group": sums }]).hint(in_place);
    let mut found = found.await.map_err(words)?;
    let Some(sums) = found.try_next().await.map_err(words)? else { return Ok(Rate::default()) };
    let held = sums.get_i32("held").map(i64::from).or_else(|_| sums.get_i64("held"));
    Ok(Rate { held: held.unwrap_or(0), per_sec: sums.get_f64("perSec").unwrap_or(0.0) })
}

/// Reads the oplog's maximum size.
async fn max_bytes(patient: &Patient<'_>) -> Result<f64, String> {
    let local = patient.connected.database.client().database("local");
    let reply = local.run_command(doc! { "collStats": "oplog.rs" }).await;
    let reply = reply.map_err(|error| patient.words(&error))?;
    reply.get("maxSize").and_then(number).ok_or_else(|| "the server does not report it".to_owned())
}

/// The length of the collection's full name, which each entry of the oplog contains.
fn name_bytes(patient: &Patient<'_>) -> f64 {
    let name = [patient.connected.database.name(), &patient.options.connection.collection];
    name.iter().map(|part| f64::from(u32::try_from(part.len()).unwrap_or(0))).sum::<f64>() + 1.0
}

/// A number of any of the types in which servers report sizes. No size is so large that a float's precision matters.
fn number(value: &Bson) -> Option<f64> {
    let long = value.as_i64().and_then(|number| number.to_string().parse().ok());
    long.or_else(|| value.as_i32().map(f64::from)).or_else(|| value.as_f64())
}

fn verdict(rate: Rate, entry_bytes: f64, max_bytes: f64) -> Finding {
    let Rate { held, per_sec } = rate;
    let bytes_per_sec = per_sec * RENEWALS_PER_TTL * entry_bytes;
    let window_secs = (bytes_per_sec > 0.0).then(|| max_bytes / bytes_per_sec);
    let details = json!({ "held": held, "max_bytes": max_bytes, "bytes_per_sec": bytes_per_sec,
        "window_secs": window_secs });
    let Some(window_secs) = window_secs else {
        return Finding::ok(CHECK, "no lease that is held is renewed").with(details);
    };
    let message = format!(
        "the renewals of {held} leases write {:.3} MB an hour; alone they fill its {:.0} MB in \
         {:.1} h",
        bytes_per_sec * 3_600.0 / 1e6,
        max_bytes / 1e6,
        window_secs / 3_600.0
    );
    if window_secs >= WINDOW_MIN_SECS {
        return Finding::ok(CHECK, message).with(details);
    }
    let advice = "a member that is away for longer needs a full copy: give the leases a longer \
                  ttl, hold fewer, or enlarge the oplog";
    Finding::note(CHECK, message, advice.to_owned()).with(details)
}

#[cfg(test)]
mod tests {
    use super::super::finding::Status;
    use super::{Rate, verdict};

    #[test]
    fn a_window_under_a_day_is_noted() {
        let of = |held: i32, ttl_secs: f64| {
            let rate = Rate { held: held.into(), per_sec: f64::from(held) / ttl_secs };
            verdict(rate, 200.0, 990.0 * 1_048_576.0)
        };
        assert_eq!(of(0, 30.0).status, Status::Ok);
        assert_eq!(of(500, 30.0).status, Status::Ok);
        assert_eq!(of(10_000, 600.0).status, Status::Ok);
        let many = of(10_000, 30.0);
        assert_eq!(many.status, Status::Note);
        assert!(many.message.contains("720.000 MB an hour"), "{}", many.message);
        assert!(many.message.contains("1038 MB in 1.4 h"), "{}", many.message);
    }
}
