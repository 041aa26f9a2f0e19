//! Prints durations and dates in the form that both programs use.

use std::time::Duration;

use mongodb::bson::DateTime;

/// A moment in RFC 3339 form, in UTC with a `Z`. `millis` counts from 1970.
#[must_use]
pub fn moment(millis: i64) -> String {
    // Another program may have written a date that this form cannot express.
    let date = DateTime::from_millis(millis);
    date.try_to_rfc3339_string().unwrap_or_else(|_| format!("{millis} ms since 1970"))
}

/// A duration for people, such as `1m 30s` or `1s 667ms`, rounded to milliseconds.
#[must_use]
pub fn duration(duration: Duration) -> String {
    let half = Duration::from_micros(500);
    let millis = u64::try_from(duration.saturating_add(half).as_millis()).unwrap_or(u64::MAX);
    humantime::format_duration(Duration::from_millis(millis)).to_string()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{duration, moment};

    #[test]
    fn a_moment_is_rfc_3339() {
        assert_eq!(moment(0), "1970-01-01T00:00:00Z");
        assert_eq!(moment(1_500), "1970-01-01T00:00:01.5Z");
        assert_eq!(moment(i64::MAX), format!("{} ms since 1970", i64::MAX));
    }

    #[test]
    fn a_duration_is_rounded_to_milliseconds() {
        assert_eq!(duration(Duration::from_secs(5) / 3), "1s 667ms");
        assert_eq!(duration(Duration::from_secs(90)), "1m 30s");
        assert_eq!(duration(Duration::from_secs(366 * 86_400)), "1year 18h");
        assert_eq!(duration(Duration::from_nanos(400)), "0s");
        assert_eq!(duration(Duration::MAX), duration(Duration::from_millis(u64::MAX)));
    }
}
