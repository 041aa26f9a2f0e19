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

/// The result of a command that the primary has carried out.
///
/// It is known to be applied on that primary. So it is not sent again, and does not count as a command that nobody
/// knows the effect of.
#[must_use]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Applied<T, U> {
    /// It lasts: a majority has it, or nothing of it could be undone.
    Confirmed(T),
    /// Applied, unconfirmed: no majority has had it in time, and a failover may undo it. Nobody believes in a grant of
    /// it before a majority read shows it.
    Unconfirmed(T, U),
}

impl<T, U> Applied<T, U> {
    /// The result at the primary, whether or not it lasts.
    pub fn at_the_primary(self) -> T {
        let (Applied::Confirmed(reply) | Applied::Unconfirmed(reply, _)) = self;
        reply
    }
}

/// Classifies a command error by its code.
///
/// The codes are those of the server's `error_codes.yml`. A command that was interrupted may have written before, while
/// it waited for the majority: that counts as "maybe applied". So does a code that this crate does not know: a newer
/// server, a router or a proxy may mean anything by it, and most of what a server reports passes by itself.
pub fn of_command_error(code: i32) -> Outcome {
    known(code).unwrap_or(MAYBE_APPLIED)
}

/// Whether this crate does not know the code.
pub fn is_unknown(code: i32) -> bool {
    known(code).is_none()
}

fn known(code: i32) -> Option<Outcome> {
    Some(match code {
        // BadValue: most likely a hint that names no index. NamespaceNotFound: no collection, and so no indexes.
        // IndexNotFound: two indexes have the key of the hint, so it is ambiguous.
        2 | 26 | 27 => Outcome { maybe_applied: false, advice: Advice::CheckIndexes },
        // DuplicateKey: another upsert was faster. LockTimeout, WriteConflict, TemporarilyUnavailable.
        11_000 | 24 | 112 | 365 => NOT_APPLIED,
        // NotWritablePrimary, NotPrimaryNoSecondaryOk, NotPrimaryOrSecondary, LegacyNotPrimary: refused before
        // execution.
        10_107 | 13_435 | 13_436 | 10_058 => NOT_APPLIED,
        // Host unreachable or not found, network time-out, socket exception: a router reports this of its shard.
        6 | 7 | 89 | 9_001 => MAYBE_APPLIED,
        // MaxTimeMSExpired, ExceededTimeLimit, WriteConcernFailed, interrupted by a killed operation.
        50 | 262 | 64 | 11_601 => MAYBE_APPLIED,
        // Shutdown and step-down: ShutdownInProgress, PrimarySteppedDown, InterruptedAtShutdown,
        // InterruptedDueToReplStateChange.
        91 | 189 | 11_600 | 11_602 => MAYBE_APPLIED,
        // A router with an outdated map of the shards: StaleConfig, StaleDbVersion, ShardNotFound, StaleEpoch.
        13_388 | 249 | 70 | 63 => NOT_APPLIED,
        code if is_refused(code) => REFUSED,
        _ => return None,
    })
}

/// Whether the server refuses the command for good: before a person acts, it would refuse it again.
fn is_refused(code: i32) -> bool {
    match code {
        // The user: UserNotFound, Unauthorized, AuthenticationFailed, RoleNotFound, PrivilegeNotFound,
        // AuthenticationRestrictionUnmet, AtlasError (a login, a privilege or a quota of the hosted service).
        11 | 13 | 18 | 31 | 33 | 214 | 8_000 => true,
        // The form of the command: FailedToParse, UnsupportedFormat, TypeMismatch, Overflow, InvalidLength,
        // InvalidBSON, InvalidOptions, InvalidNamespace, DurationOverflow, ConversionFailure, DatabaseDifferCase; a
        // required, a repeated or an unknown field (IDLFailedToParse, IDLDuplicateField, IDLUnknownField).
        9 | 12 | 14 | 15 | 16 | 22 | 72 | 73 | 159 | 241 | 13_297 => true,
        40_413..=40_415 => true,
        // The form of a user's own write: CannotMutateObject, PathNotViable, InvalidPath, ConflictingUpdateOperators,
        // DollarPrefixedFieldName, InvalidIdField, EmptyFieldName, DottedFieldName, ImmutableField.
        10 | 28 | 30 | 40 | 52 | 53 | 56 | 57 | 66 => true,
        // Beyond this server: IllegalOperation, CommandNotFound, ShardKeyNotFound, NoReplicationEnabled,
        // CommandNotSupported, NotAReplicaSet, ReadConcernMajorityNotEnabled, CommandNotSupportedOnView,
        // OptionNotSupportedOnView, InvalidPipelineOperator, QueryFeatureNotAllowed, NotImplemented,
        // OperationNotSupportedInTransaction, NoQueryExecutionPlans, APIVersionError, APIStrictError,
        // APIDeprecationError, UnsupportedOpQueryCommand; an unknown stage of a pipeline.
        20 | 59 | 61 | 76 | 115 | 123 | 148 | 166 | 167 | 168 | 224 | 238 | 263 | 291 => true,
        322..=324 | 352 | 40_324 => true,
        // The indexes: CannotCreateIndex, IndexOptionsConflict, IndexKeySpecsConflict, CannotIndexParallelArrays,
        // InvalidIndexSpecificationOption.
        67 | 85 | 86 | 171 | 197 => true,
        // Too large: DocTooLargeForCapped, MaxSubPipelineDepthExceeded, CannotGrowDocumentInCappedNamespace,
        // BSONObjectTooLarge, KeyTooLong, and the two assertions of an update whose result is too large.
        116 | 232 | 10_003 | 10_334 | 17_280 | 17_419 | 17_420 => true,
        // DocumentValidationFailure: a validator.
        121 => true,
        _ => false,
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
