//! Classifies the errors of commands: whether the write happened, and whether to retry.

/// Whether the write of a failed command may have happened, and how to go on.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Outcome {
    /// Whether the write may have happened.
    pub maybe_applied: bool,
    /// How to go on.
    pub advice: Advice,
}

/// How to go on after a command has failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Advice {
    /// Send it again, with the same value.
    Retry,
    /// Check that the indexes still exist: the command's hint may have named a missing one.
    CheckIndexes,
    /// Give up: it would fail again.
    Stop,
}

/// Nothing was written, and another try may succeed.
pub const NOT_APPLIED: Outcome = Outcome { maybe_applied: false, advice: Advice::Retry };
/// It may have been written. Only another attempt with the same value can tell.
pub const MAYBE_APPLIED: Outcome = Outcome { maybe_applied: true, advice: Advice::Retry };
/// Nothing was written, and nothing will be.
pub const REFUSED: Outcome = Outcome { maybe_applied: false, advice: Advice::Stop };

/// Classifies a command error by its code.
///
/// The codes are those of the server's `error_codes.yml`. A command that was interrupted may have written before, while
/// it waited for the majority: that counts as "maybe applied".
pub fn of_command_error(code: i32) -> Outcome {
    match code {
        // BadValue: most likely a hint that names no index. NamespaceNotFound: no collection, and so no indexes.
        // IndexNotFound: two indexes have the key of the hint, so it is ambiguous.
        2 | 26 | 27 => Outcome { maybe_applied: false, advice: Advice::CheckIndexes },
        // DuplicateKey: another upsert was faster. LockTimeout, WriteConflict, TemporarilyUnavailable.
        11_000 | 24 | 112 | 365 => NOT_APPLIED,
        // NotWritablePrimary, NotPrimaryNoSecondaryOk, NotPrimaryOrSecondary: refused before execution.
        10_107 | 13_435 | 13_436 => NOT_APPLIED,
        // Host unreachable or not found, network time-out, socket exception: a router reports this of its shard.
        6 | 7 | 89 | 9_001 => MAYBE_APPLIED,
        // MaxTimeMSExpired, ExceededTimeLimit, WriteConcernFailed, interrupted by a killed operation.
        50 | 262 | 64 | 11_601 => MAYBE_APPLIED,
        // Shutdown and step-down: ShutdownInProgress, PrimarySteppedDown, InterruptedAtShutdown,
        // InterruptedDueToReplStateChange.
        91 | 189 | 11_600 | 11_602 => MAYBE_APPLIED,
        // A router with an outdated map of the shards: StaleConfig, StaleDbVersion, ShardNotFound, StaleEpoch.
        13_388 | 249 | 70 | 63 => NOT_APPLIED,
        _ => REFUSED,
    }
}

/// Classifies the error of one statement of a release or a renewal. These never insert, so a duplicate key belongs to
/// another program's index, and is permanent.
pub fn of_write_error(code: i32) -> Outcome {
    match code {
        // DuplicateKey, DocumentValidationFailure.
        11_000 | 121 => REFUSED,
        other => of_command_error(other),
    }
}
