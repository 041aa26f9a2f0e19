//! The meaning of each error code, as an independent table, by the names in the server's `error_codes.yml`.

use crate::rules::outcome::{
    Advice, MAYBE_APPLIED, NOT_APPLIED, Outcome, REFUSED, of_command_error,
};

const INDEX_GONE: Outcome = Outcome { maybe_applied: false, advice: Advice::CheckIndexes };

#[test]
fn every_error_code_says_whether_the_write_may_have_happened() {
    let table = [
        (2, "BadValue", INDEX_GONE),
        (26, "NamespaceNotFound", INDEX_GONE),
        (27, "IndexNotFound", INDEX_GONE),
        (11_000, "DuplicateKey", NOT_APPLIED),
        (24, "LockTimeout", NOT_APPLIED),
        (112, "WriteConflict", NOT_APPLIED),
        (365, "TemporarilyUnavailable", NOT_APPLIED),
        (10_107, "NotWritablePrimary", NOT_APPLIED),
        (13_435, "NotPrimaryNoSecondaryOk", NOT_APPLIED),
        (13_436, "NotPrimaryOrSecondary", NOT_APPLIED),
        (6, "HostUnreachable", MAYBE_APPLIED),
        (7, "HostNotFound", MAYBE_APPLIED),
        (89, "NetworkTimeout", MAYBE_APPLIED),
        (9_001, "SocketException", MAYBE_APPLIED),
        (50, "MaxTimeMSExpired", MAYBE_APPLIED),
        (262, "ExceededTimeLimit", MAYBE_APPLIED),
        (64, "WriteConcernFailed", MAYBE_APPLIED),
        (11_601, "Interrupted", MAYBE_APPLIED),
        (91, "ShutdownInProgress", MAYBE_APPLIED),
        (189, "PrimarySteppedDown", MAYBE_APPLIED),
        (11_600, "InterruptedAtShutdown", MAYBE_APPLIED),
        (11_602, "InterruptedDueToReplStateChange", MAYBE_APPLIED),
        (13_388, "StaleConfig", NOT_APPLIED),
        (249, "StaleDbVersion", NOT_APPLIED),
        (70, "ShardNotFound", NOT_APPLIED),
        (63, "StaleEpoch", NOT_APPLIED),
        (8, "UnknownError", REFUSED),
        (9, "FailedToParse", REFUSED),
        (13, "Unauthorized", REFUSED),
        (18, "AuthenticationFailed", REFUSED),
        (59, "CommandNotFound", REFUSED),
        (72, "InvalidOptions", REFUSED),
        (121, "DocumentValidationFailure", REFUSED),
        (224, "QueryFeatureNotAllowed", REFUSED),
        (323, "APIStrictError", REFUSED),
        (0, "no code", REFUSED),
        (-1, "no code of the server's", REFUSED),
        (i32::MAX, "no code of the server's", REFUSED),
    ];
    for (code, name, wanted) in table {
        assert_eq!(of_command_error(code), wanted, "{code} {name}");
    }
    // A write that is sent again although it may have been applied has to be safe to apply twice; one that is given up
    // was not applied.
    let of_all = (0..20_000).map(of_command_error);
    assert!(
        of_all.clone().all(|outcome| !outcome.maybe_applied || outcome.advice == Advice::Retry)
    );
    assert_eq!(of_all.filter(|outcome| *outcome != REFUSED).count(), 26);
}
