//! One holder of a lease that several hold at once.

use std::time::Duration;

use crate::bson::Document;
use crate::rules::ids::ManagerId;
use chrono::{DateTime, Utc};
use serde::Serialize;

use super::{as_millis, as_rfc_3339};

/// One holder of a lease in [shared use](super::LeaseInfo::shared), with its permits.
///
/// # Serialization
///
/// As JSON it has one key for each field, each always present, in the forms of [`LeaseInfo`](super::LeaseInfo), with
/// `remaining_ms` for the remaining time. `value` is among them: take it out before you show the JSON to others.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct LeaseHolder {
    /// The holder, as `label@host:pid`. `None` if its record has none.
    pub owner: Option<String>,
    /// The holder's value. Its permits can be released with it.
    pub value: String,
    /// How many permits it has: 1 for a shared lease.
    pub permits: u32,
    /// The most permits that may be in use while it holds: 1,000 for a shared lease.
    pub limit: u32,
    /// When it was admitted, by the server's clock.
    #[serde(serialize_with = "as_rfc_3339")]
    pub acquired_at: Option<DateTime<Utc>>,
    /// When its permits become free unless it renews them, by the server's clock.
    #[serde(serialize_with = "as_rfc_3339")]
    pub expires_at: Option<DateTime<Utc>>,
    /// The time from the server's reply to that expiry.
    #[serde(rename = "remaining_ms", serialize_with = "as_millis")]
    pub remaining: Duration,
    /// The metadata that the holder attached.
    pub metadata: Document,
    /// Whether this very process is the holder, judged by its value or its owner's `host:pid`.
    pub held_here: bool,
}

impl LeaseHolder {
    /// Sets `held_here`, as [`LeaseInfo::recognize`](super::LeaseInfo::recognize) does.
    pub(super) fn recognize(&mut self, manager: &ManagerId, process: &str) {
        let is_of_process = self.owner.as_ref().is_some_and(|owner| owner.ends_with(process));
        self.held_here = manager.has_made(&self.value) || is_of_process;
    }
}
