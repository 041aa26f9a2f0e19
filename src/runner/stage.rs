//! Whether an attempt waits in this process, was sent, is applied, or was withdrawn.
//!
//! Two tasks decide by it, without a lock: the caller withdraws what was not sent, and the task that sends it sends
//! nothing that was withdrawn. `tests/core` tries all orders of their steps.

use std::sync::Arc;

use mongo_lease_core::rules::Instant;

use super::atomic::{AtomicU64, Ordering};

/// Whether an attempt waits in this process, was sent, or was withdrawn. Its two owners are the caller and the task
/// that sends it. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stage(Arc<AtomicU64>);

/// The values of a stage that are no times.
const WAITS: u64 = 0;
const WITHDRAWN: u64 = u64::MAX;
/// Marks a time: the primary has carried the attempt out.
const APPLIED: u64 = 1 << 63;

impl Stage {
    /// Notes that the attempt is sent now, for the first time or again. Returns false if its caller has withdrawn it:
    /// then it must not be sent.
    #[must_use]
    pub(crate) fn send(&self, now: Instant) -> bool {
        // With the mark, no time is the value of one that was withdrawn.
        let now = now.as_nanos().clamp(WAITS + 1, APPLIED - 2);
        let before = self.0.compare_exchange(WAITS, now, Ordering::AcqRel, Ordering::Acquire);
        before != Err(WITHDRAWN)
    }

    /// When it was sent first; `None` if it was not sent.
    pub(crate) fn sent_at(&self) -> Option<Instant> {
        match self.0.load(Ordering::Acquire) {
            WAITS | WITHDRAWN => None,
            sent => Some(Instant::from_nanos(sent & !APPLIED)),
        }
    }

    /// Notes that the attempt is applied, and returns when it was sent first. It waits for a majority now, and is not
    /// repeated meanwhile.
    pub(crate) fn note_applied(&self) -> Instant {
        let sent = self.sent_at().unwrap_or_default();
        self.0.store(sent.as_nanos() | APPLIED, Ordering::Release);
        sent
    }

    /// Whether it is applied, and waits for a majority.
    pub(super) fn is_applied(&self) -> bool {
        let state = self.0.load(Ordering::Acquire);
        state != WITHDRAWN && state & APPLIED != 0
    }

    pub(crate) fn is_withdrawn(&self) -> bool {
        self.0.load(Ordering::Acquire) == WITHDRAWN
    }

    /// Whether it was sent. If not, it is withdrawn.
    pub(super) fn was_sent_or_withdraw(&self) -> bool {
        self.withdraw();
        self.sent_at().is_some()
    }

    /// Withdraws the attempt unless it was sent.
    pub(super) fn withdraw(&self) {
        let _ = self.0.compare_exchange(WAITS, WITHDRAWN, Ordering::AcqRel, Ordering::Acquire);
    }
}
