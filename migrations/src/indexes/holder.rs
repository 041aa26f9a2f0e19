//! The holder of a document that shares its name with others.

use std::fmt;
use std::time::Duration;

use mongo_lease::LeaseInfo;
use mongodb::bson::{Bson, DateTime, Document, doc};

use super::commands::first_batch;

/// The holder of a lease, as one document shows it. A [`LeaseManager`](mongo_lease::LeaseManager) shows only one
/// document of a name, and only if the name is a string.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Holder {
    /// The holder's value. `None` if the document has none, or one that is not a string.
    pub value: Option<String>,
    /// The holder, as `label@host:pid`. `None` if another program holds the lease.
    pub owner: Option<String>,
    /// When the lease expires, by the server's clock. `None` if the document has no date there.
    pub expires_at: Option<DateTime>,
    /// The time from the server's reply to the expiry; zero if that has passed. `None` without a date.
    pub remaining: Option<Duration>,
    /// The number of waiting processes.
    pub waiting: u32,
    /// The BSON type of its `expiresAt`, as the server names it.
    expires_type: String,
}

impl Holder {
    /// Whether the document counts as held. An expiry of another type than a date counts as held.
    #[must_use]
    pub fn is_held(&self) -> bool {
        match self.expires_type.as_str() {
            "missing" | "null" => false,
            "date" => self.remaining.is_none_or(|left| !left.is_zero()),
            _ => true,
        }
    }

    fn read(document: &Document) -> Holder {
        let value = text(document, "value");
        // Another program changes `value` and leaves the rest: then the grant describes a former holder.
        let grant = document.get_document("grant").ok();
        let grant = grant.filter(|grant| value.is_some() && text(grant, "value") == value);
        let left = document.get_i64("remainingMs").ok();
        Holder {
            owner: grant.and_then(|grant| text(grant, "owner")),
            expires_at: document.get_datetime("expiresAt").ok().copied(),
            remaining: left.map(|ms| Duration::from_millis(u64::try_from(ms).unwrap_or(0))),
            waiting: document.get_i32("waiting").ok().and_then(|n| n.try_into().ok()).unwrap_or(0),
            expires_type: text(document, "expiresType")
                .unwrap_or_else(|| "field without a type".to_owned()),
            value,
        }
    }
}

/// Uses the library's description of a lease, without its name.
impl fmt::Display for Holder {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.is_held() {
            return match self.waiting {
                0 => formatter.write_str("is free"),
                waiting => write!(formatter, "is free, with {waiting} in the queue"),
            };
        }
        if self.expires_type != "date" {
            return write!(formatter, "is damaged: its expiresAt is of type {}", self.expires_type);
        }
        match (&self.value, &self.owner) {
            (Some(value), _) if LeaseInfo::is_tombstone_value(value) => {
                formatter.write_str("is released, but its name stays reserved")?;
            }
            (_, Some(owner)) => write!(formatter, "is held by {owner}")?,
            (_, None) => formatter.write_str("is held by another program")?,
        }
        match self.remaining {
            Some(remaining) => write!(formatter, " for {} more", in_days(remaining)),
            None => Ok(()),
        }
    }
}

/// Finds the documents of one name, also if that is not a string.
pub(super) fn find(collection: &str, name: &Bson, limit: i64) -> Document {
    let is_date = doc! { "$eq": [{ "$type": "$expiresAt" }, "date"] };
    let date = |value: Bson| doc! { "$cond": [&is_date, value, Bson::Null] };
    // The comparison comes first, because the difference to a very old date overflows.
    let left = doc! { "$subtract": ["$expiresAt", "$$NOW"] };
    let left = doc! { "$cond": [{ "$lte": ["$expiresAt", "$$NOW"] }, Bson::Int64(0), left] };
    let queue = doc! { "$cond": [{ "$isArray": ["$queue"] }, "$queue", []] };
    doc! {
        "find": collection,
        // `$eq`, because a name that is a document must not be read as operators.
        "filter": { "name": { "$eq": name } },
        "projection": {
            "_id": 0,
            "value": 1,
            "grant.value": 1,
            "grant.owner": 1,
            "expiresType": { "$type": "$expiresAt" },
            "expiresAt": date("$expiresAt".into()),
            "remainingMs": date(left.into()),
            "waiting": { "$size": queue },
        },
        "limit": limit,
        "batchSize": limit,
        "singleBatch": true,
        "collation": { "locale": "simple" },
        "readConcern": { "level": "majority" },
    }
}

/// The holders in a reply to [`find`]; `None` if it is not a listing.
pub(super) fn read(reply: &Document) -> Option<Vec<Holder>> {
    Some(first_batch(reply)?.into_iter().map(Holder::read).collect())
}

fn text(document: &Document, field: &str) -> Option<String> {
    document.get_str(field).ok().map(str::to_owned)
}

/// The largest unit is a day, because months and years have no fixed length.
fn in_days(duration: Duration) -> String {
    const DAY: u64 = 24 * 3600;
    let days = duration.as_secs() / DAY;
    let rest = duration - Duration::from_secs(days * DAY);
    let rest = (!rest.is_zero()).then(|| humantime::format_duration(rest).to_string());
    let days = match days {
        0 => None,
        1 => Some("1day".to_owned()),
        days => Some(format!("{days}days")),
    };
    match (days, rest) {
        (None, None) => "0s".to_owned(),
        (Some(days), Some(rest)) => format!("{days} {rest}"),
        (Some(only), None) | (None, Some(only)) => only,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_told_in_days_and_less() {
        const DAY: Duration = Duration::from_secs(24 * 3600);
        for (duration, text) in [
            (Duration::ZERO, "0s"),
            (Duration::from_millis(1_667), "1s 667ms"),
            (Duration::from_secs(90), "1m 30s"),
            (DAY, "1day"),
            (DAY + Duration::from_secs(1), "1day 1s"),
            (DAY * 366, "366days"),
            (DAY * 31 + Duration::from_secs(3600), "31days 1h"),
        ] {
            assert_eq!(in_days(duration), text);
        }
    }
}
