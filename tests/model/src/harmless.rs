//! Protections behind which another one stands.

use crate::bounds::{Bounds, Variant};
use crate::worlds::Named;
use crate::worlds_of_lines as lines;

/// Protections that can be switched off without a break: another protection stands behind each.
#[must_use]
pub fn harmless() -> Vec<Named> {
    // A reply counts from its own command's sending, which is never later than that command's `$$NOW`. Only a promotion
    // counts from a heartbeat, and the caller's own grant after one is only ever prolonged.
    vec![("a take-over from the line that counts from $$NOW alone", {
        Bounds { variant: Variant::TakeOverFromNow, ..lines::taken_over() }
    })]
}
