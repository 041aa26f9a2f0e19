//! Logs the server's errors whose codes this crate does not know.

#[cfg(test)]
mod tests;

use std::time::Duration;

use mongo_lease_core::rules::Instant;

use crate::failure::Failure;
use crate::lock::Lock;

/// How long a code is not logged again.
const AGAIN_AFTER: Duration = Duration::from_secs(60);

/// The unknown code that one manager has logged last, and when.
#[derive(Default)]
pub(super) struct UnknownCodes(Lock<Option<(i32, Instant)>>);

impl UnknownCodes {
    /// Logs an error with an unknown code, at once: calls repeat their commands for as long as they wait. Not each of
    /// these is logged, and not each call.
    pub(super) fn note(&self, now: Instant, failure: &Failure) {
        let Some(code) = failure.unknown_code() else { return };
        let mut logged = self.0.lock();
        if logged.is_some_and(|(last, at)| last == code && now < at.after(AGAIN_AFTER)) {
            return;
        }
        *logged = Some((code, now));
        drop(logged);
        #[cfg(feature = "tracing")]
        tracing::warn!(
            db.response.status_code = code,
            reason = %crate::error::Error::from(failure.clone()),
            "the server answers with an error that this crate does not know: its calls try again \
             until their time is over"
        );
    }
}
