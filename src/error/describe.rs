//! Parts of the errors' texts.

use std::time::Duration;

use mongo_lease_core::info::{LeaseInfo, human, text::printable};
use mongodb::error::Error as DriverError;

use super::driver::condense;

/// Warns when the own process is the holder: a task that waits for such a lease may wait for itself.
pub(super) fn describe_own(info: &LeaseInfo) -> &'static str {
    match (info.held_here, info.shared) {
        (false, _) => "",
        (true, false) => "; the holder is this process, and leases are not re-entrant",
        (true, true) => "; this process is one of the holders, and leases are not re-entrant",
    }
}

pub(super) fn describe_privilege(privilege: &str, namespace: &str) -> String {
    let advice = match privilege {
        "listIndexes" => ": grant it, or build with `assume_indexes(true)` if both indexes exist",
        _ => "",
    };
    format!("the user lacks the privilege `{privilege}` on {namespace}{advice}")
}

pub(super) fn describe_cause(source: &Option<DriverError>) -> String {
    source.as_ref().map(|source| format!(": {}", condense(source))).unwrap_or_default()
}

pub(super) fn describe_pause(stood_still: Option<Duration>) -> String {
    stood_still
        .map(|time| format!(": this process stood still for {}", human(time)))
        .unwrap_or_default()
}

pub(super) fn describe_last(error: &Option<String>) -> String {
    error.as_ref().map(|error| format!("; the last error: {error}")).unwrap_or_default()
}

pub(super) fn describe_taker(by: &Option<String>) -> String {
    match by {
        Some(owner) => format!("{} has taken it over", printable(owner)),
        None => "another program has taken it over".to_owned(),
    }
}
