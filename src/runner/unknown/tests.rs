//! When an unknown code is logged.

use std::time::Duration;

use mongo_lease_core::rules::Instant;

use super::UnknownCodes;
use crate::failure::{command_error, driver_failure};

#[test]
fn an_unknown_code_is_logged_once_a_minute() {
    const KNOWN: i32 = 13;
    let codes = UnknownCodes::default();
    // The second, the code, and what is logged last.
    for (second, code, logged) in [
        (1, 98_765, (98_765, 1)),
        (60, 98_765, (98_765, 1)),
        (61, 98_765, (98_765, 61)),
        (62, 98_764, (98_764, 62)),
        (63, 98_765, (98_765, 63)),
        (200, KNOWN, (98_765, 63)),
    ] {
        let at = |second| Instant::START.after(Duration::from_secs(second));
        codes.note(at(second), &driver_failure(command_error(code, "")));
        assert_eq!(*codes.0.lock(), Some((logged.0, at(logged.1))), "{code} at {second} s");
    }
}
