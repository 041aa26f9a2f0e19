//! The meaning of each error code, as an independent table, by the names in the server's `error_codes.yml`.

use std::collections::BTreeMap;

use crate::rules::outcome::{
    Advice, MAYBE_APPLIED, NOT_APPLIED, Outcome, REFUSED, of_command_error,
};

const INDEX_GONE: Outcome = Outcome { maybe_applied: false, advice: Advice::CheckIndexes };

/// The codes that do not refuse a command for good.
const CODES: [(Outcome, &str); 3] = [
    (INDEX_GONE, "2 BadValue, 26 NamespaceNotFound, 27 IndexNotFound"),
    (
        NOT_APPLIED,
        "11000 DuplicateKey, 24 LockTimeout, 112 WriteConflict, 365 TemporarilyUnavailable, \
         10107 NotWritablePrimary, 13435 NotPrimaryNoSecondaryOk, 13436 NotPrimaryOrSecondary, \
         13388 StaleConfig, 249 StaleDbVersion, 70 ShardNotFound, 63 StaleEpoch",
    ),
    (
        MAYBE_APPLIED,
        "6 HostUnreachable, 7 HostNotFound, 89 NetworkTimeout, 9001 SocketException, \
         50 MaxTimeMSExpired, 262 ExceededTimeLimit, 64 WriteConcernFailed, 11601 Interrupted, \
         91 ShutdownInProgress, 189 PrimarySteppedDown, 11600 InterruptedAtShutdown, \
         11602 InterruptedDueToReplStateChange",
    ),
];

#[test]
fn every_error_code_says_whether_the_write_may_have_happened() {
    let code = |text: &str| text.split(' ').next().unwrap().parse::<i32>().unwrap();
    let of_outcome = |(outcome, codes): (Outcome, &'static str)| {
        codes.split(", ").map(move |text| (code(text), outcome))
    };
    let named: BTreeMap<_, _> = CODES.into_iter().flat_map(of_outcome).collect();
    for code in (-1..20_000).chain([i32::MAX]) {
        let outcome = of_command_error(code);
        assert_eq!(outcome, named.get(&code).copied().unwrap_or(REFUSED), "{code}");
        // A write that is sent again although it may have been applied has to be safe to apply twice; one that is given
        // up was not applied.
        assert!(!outcome.maybe_applied || outcome.advice == Advice::Retry, "{code}");
    }
}
