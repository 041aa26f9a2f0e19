//! What an error of the server's says about the write that it answers.

/// Whether the write of a command that failed has happened, and whether to send it again.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Outcome {
    /// Whether the write may have happened.
    pub(crate) maybe_applied: bool,
    /// What to do next.
    pub(crate) then: Then,
}

/// What to do after a command has failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Then {
    /// Send it again, with the same value.
    Retry,
    /// See whether the indexes are still there: the command's hint may have named one that is not.
    CheckIndexes,
    /// Give up: it would fail again.
    Stop,
}

/// Nothing was written, and another try may do better.
pub(crate) const NOT_APPLIED: Outcome = Outcome { maybe_applied: false, then: Then::Retry };
/// It may have been written; only asking again with the same value can tell.
pub(crate) const MAYBE_APPLIED: Outcome = Outcome { maybe_applied: true, then: Then::Retry };
/// Nothing was written, and nothing will be.
pub(crate) const REFUSED: Outcome = Outcome { maybe_applied: false, then: Then::Stop };

/// What a command error with this code says.
///
/// The codes are those of the server's `error_codes.yml`. A command that was interrupted may have written before, and
/// have been interrupted while it waited for the majority: that counts as "maybe". So does everything unknown that
/// asks for patience.
pub(crate) fn of_command_error(code: i32) -> Outcome {
    match code {
        // BadValue: above all a hint that names no index.
        2 => Outcome { maybe_applied: false, then: Then::CheckIndexes },
        // NamespaceNotFound: the collection has gone, and its indexes with it.
        26 => Outcome { maybe_applied: false, then: Then::CheckIndexes },
        // IndexNotFound: two indexes have the key of the hint, and the server cannot tell which is meant.
        27 => Outcome { maybe_applied: false, then: Then::CheckIndexes },
        // DuplicateKey: another upsert was quicker. LockTimeout, WriteConflict, TemporarilyUnavailable.
        11_000 | 24 | 112 | 365 => NOT_APPLIED,
        // NotWritablePrimary, NotPrimaryNoSecondaryOk, NotPrimaryOrSecondary: refused at the door.
        10_107 | 13_435 | 13_436 => NOT_APPLIED,
        // Host unreachable or not found, network time-out, socket exception: said by a router of its shard.
        6 | 7 | 89 | 9_001 => MAYBE_APPLIED,
        // MaxTimeMSExpired, ExceededTimeLimit, WriteConcernFailed, interrupted by a killed operation.
        50 | 262 | 64 | 11_601 => MAYBE_APPLIED,
        // Shutdown and step-down: ShutdownInProgress, PrimarySteppedDown, InterruptedAtShutdown,
        // InterruptedDueToReplStateChange.
        91 | 189 | 11_600 | 11_602 => MAYBE_APPLIED,
        // A router with an old map of the shards: StaleConfig, StaleDbVersion, ShardNotFound, StaleEpoch.
        13_388 | 249 | 70 | 63 => NOT_APPLIED,
        _ => REFUSED,
    }
}

/// What the error of a single statement says, of those that end or renew a lease.
///
/// None of them inserts, so a duplicate key is one in somebody else's index, and stays one.
pub(crate) fn of_write_error(code: i32) -> Outcome {
    match code {
        // DuplicateKey, DocumentValidationFailure.
        11_000 | 121 => REFUSED,
        other => of_command_error(other),
    }
}

/// What an error that the driver raised by itself says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum DriverTrouble {
    /// No server could be selected, or the pool was cleared before a connection was checked out.
    NotSent,
    /// The connection broke, or the reply could not be read.
    Broken,
    /// The command or the client's configuration cannot work.
    Misuse,
}

/// What an error of the driver's own says.
pub(crate) fn of_driver_trouble(trouble: DriverTrouble) -> Outcome {
    match trouble {
        DriverTrouble::NotSent => NOT_APPLIED,
        DriverTrouble::Broken => MAYBE_APPLIED,
        DriverTrouble::Misuse => REFUSED,
    }
}
