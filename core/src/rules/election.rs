//! When a leader is told to stop.

use std::time::Duration;

/// The default of a leader's notice is the ttl divided by this.
const NOTICE_SHARE: u32 = 6;
/// The upper bound of a leader's notice is the ttl divided by this. A renewal is sent after a third of the ttl and may
/// take a while: a leader that stops earlier would stop while all is well.
const NOTICE_SHARE_MAX: u32 = 2;

/// The remaining time of a leader's lease at which the leader has to stop. `whole` is the longest remaining time of
/// that lease so far: a lease that a predecessor handed off is short until its first renewal.
pub fn leader_notice(asked: Option<Duration>, whole: Duration) -> Duration {
    asked.unwrap_or(whole / NOTICE_SHARE).min(whole / NOTICE_SHARE_MAX)
}
