//! The meaning of each error code, as an independent table, by the names in the server's `error_codes.yml`.

use std::collections::BTreeMap;

use crate::rules::outcome::{
    Advice, MAYBE_APPLIED, NOT_APPLIED, Outcome, REFUSED, is_unknown, of_command_error,
    of_write_error,
};

const INDEX_GONE: Outcome = Outcome { maybe_applied: false, advice: Advice::CheckIndexes };

/// The codes that the crate knows.
const CODES: [(Outcome, &str); 4] = [
    (INDEX_GONE, "2 BadValue, 26 NamespaceNotFound, 27 IndexNotFound"),
    (
        NOT_APPLIED,
        "11000 DuplicateKey, 24 LockTimeout, 112 WriteConflict, 365 TemporarilyUnavailable, \
         10107 NotWritablePrimary, 13435 NotPrimaryNoSecondaryOk, 13436 NotPrimaryOrSecondary, \
         10058 LegacyNotPrimary, \
         13388 StaleConfig, 249 StaleDbVersion, 70 ShardNotFound, 63 StaleEpoch",
    ),
    (
        MAYBE_APPLIED,
        "6 HostUnreachable, 7 HostNotFound, 89 NetworkTimeout, 9001 SocketException, \
         50 MaxTimeMSExpired, 262 ExceededTimeLimit, 64 WriteConcernFailed, 11601 Interrupted, \
         91 ShutdownInProgress, 189 PrimarySteppedDown, 11600 InterruptedAtShutdown, \
         11602 InterruptedDueToReplStateChange",
    ),
    (
        REFUSED,
        "11 UserNotFound, 13 Unauthorized, 18 AuthenticationFailed, 31 RoleNotFound, \
         33 PrivilegeNotFound, 214 AuthenticationRestrictionUnmet, 8000 AtlasError, \
         9 FailedToParse, 12 UnsupportedFormat, 14 TypeMismatch, 15 Overflow, 16 InvalidLength, \
         22 InvalidBSON, 72 InvalidOptions, 73 InvalidNamespace, 159 DurationOverflow, \
         241 ConversionFailure, 13297 DatabaseDifferCase, 40413 IDLDuplicateField, \
         40414 IDLFailedToParse, 40415 IDLUnknownField, \
         10 CannotMutateObject, 28 PathNotViable, 30 InvalidPath, 40 ConflictingUpdateOperators, \
         52 DollarPrefixedFieldName, 53 InvalidIdField, 56 EmptyFieldName, 57 DottedFieldName, \
         66 ImmutableField, \
         20 IllegalOperation, 59 CommandNotFound, 61 ShardKeyNotFound, 76 NoReplicationEnabled, \
         115 CommandNotSupported, 123 NotAReplicaSet, 148 ReadConcernMajorityNotEnabled, \
         166 CommandNotSupportedOnView, 167 OptionNotSupportedOnView, \
         168 InvalidPipelineOperator, 224 QueryFeatureNotAllowed, 238 NotImplemented, \
         263 OperationNotSupportedInTransaction, 291 NoQueryExecutionPlans, \
         322 APIVersionError, 323 APIStrictError, 324 APIDeprecationError, \
         352 UnsupportedOpQueryCommand, 40324 UnknownStage, \
         67 CannotCreateIndex, 85 IndexOptionsConflict, 86 IndexKeySpecsConflict, \
         171 CannotIndexParallelArrays, 197 InvalidIndexSpecificationOption, \
         116 DocTooLargeForCapped, 232 MaxSubPipelineDepthExceeded, \
         10003 CannotGrowDocumentInCappedNamespace, 10334 BSONObjectTooLarge, 17280 KeyTooLong, \
         17419 ResultTooLarge, 17420 ResultTooLarge, 121 DocumentValidationFailure",
    ),
];

/// Codes that nobody has named, and that a service has met or may meet. They pass by themselves.
const PASSING: &str = "134 ReadConcernMajorityNotAvailableYet, 211 KeyNotFound, \
    202 NetworkInterfaceExceededTimeLimit, 133 FailedToSatisfyReadPreference, \
    261 TooManyLogicalSessions, 146 ExceededMemoryLimit, 14031 OutOfDiskSpace, \
    175 QueryPlanKilled, 1 InternalError, 8 UnknownError, 46 LockBusy, 125 CommandFailed, \
    237 CursorKilled, 279 ClientDisconnect, 290 TransactionExceededLifetimeLimitSeconds, \
    355 InterruptedDueToStorageChange, 391 ReauthenticationRequired, \
    462 IngressRequestRateLimitExceeded";

/// The codes that MongoDB's specifications for drivers call retryable: of writes, of reads, of change streams, of a
/// commit, and those after which a driver looks for another primary.
const RETRYABLE: [(&str, &[i32]); 5] = [
    ("writes", &[11_600, 11_602, 10_107, 13_435, 13_436, 189, 91, 7, 6, 89, 9_001, 262]),
    ("reads", &[11_600, 11_602, 10_107, 13_435, 13_436, 189, 91, 7, 6, 89, 9_001, 134, 262]),
    (
        "change streams",
        &[
            6, 7, 89, 91, 189, 262, 9_001, 10_107, 11_600, 11_602, 13_435, 13_436, 63, 150, 13_388,
            234, 133,
        ],
    ),
    ("a commit", &[50, 64, 91]),
    ("no primary", &[10_107, 13_435, 10_058, 11_600, 11_602, 13_436, 189, 91]),
];

fn codes(text: &'static str) -> impl Iterator<Item = i32> {
    text.split(", ").map(|text| text.split(' ').next().unwrap().parse().unwrap())
}

#[test]
fn every_error_code_says_whether_the_write_may_have_happened() {
    let of_outcome = |(outcome, text): (Outcome, &'static str)| {
        codes(text).map(move |code| (code, outcome)).collect::<Vec<_>>()
    };
    let named: BTreeMap<_, _> = CODES.into_iter().flat_map(of_outcome).collect();
    for code in (-1..50_000).chain([i32::MAX]) {
        let outcome = of_command_error(code);
        assert_eq!(outcome, named.get(&code).copied().unwrap_or(MAYBE_APPLIED), "{code}");
        assert_eq!(is_unknown(code), !named.contains_key(&code), "{code}");
        // A write that is sent again although it may have been applied has to be safe to apply twice; one that is given
        // up was not applied.
        assert!(!outcome.maybe_applied || outcome.advice == Advice::Retry, "{code}");
    }
    for code in codes(PASSING) {
        assert!(is_unknown(code) && of_write_error(code) == MAYBE_APPLIED, "{code}");
    }
}

#[test]
fn what_the_drivers_repeat_is_repeated() {
    for (what, codes) in RETRYABLE {
        for code in codes {
            assert_eq!(of_command_error(*code).advice, Advice::Retry, "{what}: {code}");
        }
    }
}
