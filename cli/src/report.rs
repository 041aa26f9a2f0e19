//! Results as JSON. The keys are stable.

#[cfg(unix)]
use mongo_lease::LeaseKey;
use mongo_lease::{LeaseInfo, Released};
use serde_json::{Value, json};

use crate::failure::Failure;

/// The keys of a lease, in their order. The library may add others.
const KEYS: [&str; 10] = [
    "name",
    "state",
    "owner",
    "value",
    "acquired_at",
    "expires_at",
    "remaining_ms",
    "metadata",
    "in_use",
    "limit",
];

/// A lease, as the library serializes it. Every key is always present, and null if its value is unknown.
pub(crate) fn lease(info: &LeaseInfo) -> Value {
    let all = serde_json::to_value(info).unwrap_or_default();
    KEYS.iter().map(|key| ((*key).to_owned(), all[*key].clone())).collect()
}

/// The same, with its holders where it is held by several.
pub(crate) fn lease_with_holders(info: &LeaseInfo) -> Value {
    let mut report = lease(info);
    report["holders"] = serde_json::to_value(&info.holders).unwrap_or_default();
    report
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
        "in_use": 0,
        "limit": null,
        "holders": [],
    })
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
