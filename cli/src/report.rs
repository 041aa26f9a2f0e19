//! Results as JSON. The keys are stable.

#[cfg(unix)]
use mongo_lease::LeaseKey;
use mongo_lease::{LeaseInfo, LeaseState, Released};
use mongo_lease_migrations::text::moment;
use serde_json::{Value, json};

use crate::failure::Failure;

/// A lease. Every key is always present, and null if its value is unknown.
pub(crate) fn lease(info: &LeaseInfo) -> Value {
    let millis = |duration: std::time::Duration| u64::try_from(duration.as_millis()).ok();
    json!({
        "name": info.name,
        "state": state(&info.state),
        "owner": info.owner,
        "value": info.value,
        "acquired_at": info.acquired_at.map(|date| moment(date.timestamp_millis())),
        "expires_at": info.expires_at.map(|date| moment(date.timestamp_millis())),
        "remaining_ms": info.remaining.and_then(millis),
        "metadata": info.metadata,
    })
}

/// A lease that is not held.
pub(crate) fn free(name: &str) -> Value {
    json!({
        "name": name,
        "state": "free",
        "owner": null,
        "value": null,
        "acquired_at": null,
        "expires_at": null,
        "remaining_ms": null,
        "metadata": {},
    })
}

// The library may add variants.
#[allow(clippy::wildcard_enum_match_arm)]
fn state(state: &LeaseState) -> &'static str {
    match state {
        LeaseState::Held => "held",
        LeaseState::Free => "free",
        LeaseState::Damaged { .. } => "damaged",
        _ => "unknown",
    }
}

/// The result of a release.
pub(crate) fn release(
    name: Option<&str>,
    value: Option<&str>,
    owner: Option<&str>,
    status: &str,
) -> Value {
    json!({ "name": name, "status": status, "owner": owner, "value": value })
}

/// The result of a release, in one word.
// The library may add variants.
#[allow(clippy::wildcard_enum_match_arm)]
pub(crate) fn released(released: Released) -> &'static str {
    match released {
        Released::Released => "released",
        Released::NotHeld => "not_held",
        _ => "unknown",
    }
}

/// A lease that was acquired for a script. The key is null if it is in a file.
#[cfg(unix)]
pub(crate) fn acquired(
    key: &LeaseKey,
    expires_at: &str,
    file: Option<&str>,
    text: &Value,
) -> Value {
    json!({
        "name": key.name(),
        "status": "acquired",
        "value": key.value(),
        "token": key.token().to_string(),
        "expires_at": expires_at,
        "key_file": file,
        "key": text,
    })
}

/// A lease that was renewed by its key.
#[cfg(unix)]
pub(crate) fn renewed(key: &LeaseKey, expires_at: &str) -> Value {
    json!({
        "name": key.name(),
        "status": "renewed",
        "value": key.value(),
        "token": key.token().to_string(),
        "expires_at": expires_at,
    })
}

/// A failure, with its reason.
pub(crate) fn failure(failure: &Failure) -> Value {
    json!({
        "status": "failed",
        "exit_code": failure.exit.code(),
        "message": failure.message,
    })
}
