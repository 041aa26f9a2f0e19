//! Durations as people read them.

use std::time::Duration;

use crate::rules::time::{from_millis, millis_up};

const DAY: Duration = Duration::from_secs(24 * 3600);

/// The duration in whole milliseconds, rounded up: `366days`, `1s 667ms`. Months and years have no fixed length, so a
/// long duration is told in days.
pub(crate) fn human(duration: Duration) -> String {
    let whole = from_millis(millis_up(duration));
    let days = whole.as_secs() / DAY.as_secs();
    let rest = whole - DAY * u32::try_from(days).unwrap_or(u32::MAX);
    let rest_of_day = || humantime::format_duration(rest);
    match (days, rest.is_zero()) {
        (0, _) => rest_of_day().to_string(),
        (1, true) => "1day".to_owned(),
        (1, false) => format!("1day {}", rest_of_day()),
        (days, true) => format!("{days}days"),
        (days, false) => format!("{days}days {}", rest_of_day()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_told_in_days_and_whole_milliseconds() {
        for (duration, text) in [
            (Duration::ZERO, "0s"),
            (Duration::from_nanos(1), "1ms"),
            (Duration::from_nanos(1_666_666_666), "1s 667ms"),
            (Duration::from_secs(90), "1m 30s"),
            (DAY, "1day"),
            (DAY * 366, "366days"),
            (DAY * 31 + Duration::from_secs(3600), "31days 1h"),
        ] {
            assert_eq!(human(duration), text);
        }
        assert!(human(Duration::MAX).ends_with("807ms"), "{}", human(Duration::MAX));
    }
}
