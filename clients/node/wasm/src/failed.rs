//! Why an attempt failed, and what users are told.

use mongo_lease_core::bson::Document;
use mongo_lease_core::commands::write_concern_error;
use mongo_lease_core::info::LeaseInfo;
use mongo_lease_core::rules::{Advice, REFUSED};
use mongodb::error::{CommandError, Error as DriverError, ErrorKind};
use wasm_bindgen::prelude::wasm_bindgen;

use crate::convert::{bytes, duration, millis};
use crate::error::{Error, LostReason};
use crate::failure::{Cause, Failure as Failed, NOT_SENT, UNANSWERED, driver_failure};
use crate::reply::info_document;

/// The library's error, as a user is told it.
#[wasm_bindgen]
pub struct Fault(pub(crate) Error);

impl From<Error> for Fault {
    fn from(error: Error) -> Fault {
        Fault(error)
    }
}

#[wasm_bindgen]
impl Fault {
    /// The kind of the error, as one word that does not change.
    pub fn code(&self) -> String {
        let code = match &self.0 {
            Error::Busy(_) => "BUSY",
            Error::WaitTimeout { .. } => "WAIT_TIMEOUT",
            Error::QueueFull { .. } => "QUEUE_FULL",
            Error::Lost { .. } => "LOST",
            Error::NotMigrated { .. } => "NOT_MIGRATED",
            Error::MissingPrivilege { .. } => "MISSING_PRIVILEGE",
            Error::Damaged { .. } => "DAMAGED",
            Error::InvalidOption { .. } => "INVALID_OPTION",
            Error::InvalidName { .. } => "INVALID_NAME",
            Error::Unsupported { .. } => "UNSUPPORTED",
            Error::ShutDown => "SHUT_DOWN",
            Error::Stopped => "STOPPED",
            Error::Unknown { .. } => "UNKNOWN",
            Error::CommitUnknown { .. } => "COMMIT_UNKNOWN",
            Error::TransactionTooLong { .. } => "TRANSACTION_TOO_LONG",
            Error::MongoDb(_) => "MONGODB",
        };
        code.to_owned()
    }

    /// The text: the library's, with the names of options as TypeScript has them.
    pub fn message(&self) -> String {
        match &self.0 {
            Error::InvalidOption { option, reason } => {
                format!("{}: {}", name_in_typescript(option), names_in_typescript(reason))
            }
            Error::Lost { name, reason: LostReason::EndedAsAsked } => {
                let reason = LostReason::EndedAsAsked
                    .to_string()
                    .replace("its max_hold", "its maxHold (a job's atMost)");
                format!("lease {name:?} is lost: {reason}")
            }
            Error::MissingPrivilege { .. } => {
                let [in_rust, in_node] = ["assume_indexes(true)", "assumeIndexes: true"];
                self.0.to_string().replace(in_rust, in_node)
            }
            // Only the manager knows what would mend it.
            Error::NotMigrated { problem, .. } => problem.clone(),
            other => other.to_string(),
        }
    }

    /// The option that is refused.
    pub fn option(&self) -> Option<String> {
        let Error::InvalidOption { option, .. } = &self.0 else { return None };
        Some(name_in_typescript(option))
    }

    /// Why a lease was lost, as one word.
    pub fn reason(&self) -> Option<String> {
        let Error::Lost { reason, .. } = &self.0 else { return None };
        Some(reason_word(reason).to_owned())
    }

    /// Whether the same call may succeed later.
    #[wasm_bindgen(js_name = isTransient)]
    pub fn is_transient(&self) -> bool {
        self.0.is_transient()
    }

    /// How long the holder has the lease at the most, in milliseconds.
    #[wasm_bindgen(js_name = retryAfter)]
    pub fn retry_after(&self) -> Option<f64> {
        self.0.retry_after().map(millis)
    }

    /// The lease as the server last described it.
    pub fn info(&self) -> Option<Vec<u8>> {
        let (Error::Busy(info) | Error::WaitTimeout { held: Some(info), .. }) = &self.0 else {
            return None;
        };
        Some(bytes(&info_document(info)))
    }

    /// The manager has been shut down.
    #[wasm_bindgen(js_name = shutDown)]
    pub fn shut_down() -> Fault {
        Fault(Error::ShutDown)
    }

    /// A name is refused for a reason that only JavaScript knows.
    #[wasm_bindgen(js_name = invalidName)]
    pub fn invalid_name(reason: String) -> Fault {
        Fault(Error::InvalidName { reason })
    }

    /// A feature is missing.
    pub fn unsupported(missing: &str) -> Fault {
        Fault(Error::unsupported(missing))
    }

    /// Whether an operation took effect is unknown.
    pub fn unknown(reason: String) -> Fault {
        Fault(Error::Unknown { reason, source: None })
    }

    /// A call was not granted its lease in time. `held` is the lease as the server last described it.
    #[wasm_bindgen(js_name = waitTimeout)]
    pub fn wait_timeout(
        name: String,
        waited: f64,
        waited_for_turn: bool,
        held: Option<Info>,
        source: Option<Fault>,
    ) -> Fault {
        let (waited, held) = (duration(waited), held.map(|held| Box::new(held.0)));
        let source = source.map(|source| Box::new(source.0));
        Fault(Error::WaitTimeout { name, waited, waited_for_turn, held, source })
    }

    /// The lease has another holder, and the call was not to wait.
    pub fn busy(held: Info) -> Fault {
        Fault(Error::Busy(Box::new(held.0)))
    }

    /// The queue of the lease is full.
    #[wasm_bindgen(js_name = queueFull)]
    pub fn queue_full(name: String, waiting: u32) -> Fault {
        Fault(Error::QueueFull { name, waiting })
    }

    /// The indexes are missing, or the documents are of another format.
    #[wasm_bindgen(js_name = notMigrated)]
    pub fn not_migrated(problem: String, database: String, collection: String) -> Fault {
        Fault(Error::NotMigrated { problem, database, collection })
    }
}

/// An option's name in TypeScript: `maxClockSkew` for `max_clock_skew`.
fn name_in_typescript(option: &str) -> String {
    let mut parts = option.split('_');
    let mut name = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (first, rest) = part.split_at(part.len().min(1));
        name.extend([&first.to_ascii_uppercase(), rest]);
    }
    name
}

/// A text whose names of options, which stand between backticks, are those of TypeScript.
fn names_in_typescript(text: &str) -> String {
    let parts = text.split('`').enumerate();
    let converted = parts.map(|(place, part)| match place % 2 {
        0 => part.to_owned(),
        _ => name_in_typescript(part),
    });
    converted.collect::<Vec<_>>().join("`")
}

/// The word of a reason.
pub(crate) fn reason_word(reason: &LostReason) -> &'static str {
    match reason {
        LostReason::NotRenewed { .. } => "notRenewed",
        LostReason::OutOfReach { .. } => "outOfReach",
        LostReason::TakenOver { .. } => "takenOver",
        LostReason::Removed => "removed",
        LostReason::Resumed => "resumed",
        LostReason::EndedAsAsked => "endedAsAsked",
        LostReason::Released => "released",
    }
}

/// A lease, as a reply described it.
#[wasm_bindgen]
#[derive(Clone)]
pub struct Info(pub(crate) LeaseInfo);

#[wasm_bindgen]
impl Info {
    /// Another one of the same.
    #[wasm_bindgen(js_name = copy)]
    pub fn copy(&self) -> Info {
        self.clone()
    }
}

/// Why an attempt failed.
#[wasm_bindgen]
#[derive(Clone)]
pub struct Failure(pub(crate) Failed);

/// How to go on after a failure.
#[wasm_bindgen]
#[derive(Clone, Copy)]
pub enum Next {
    /// Send it again, with the same value.
    Retry,
    /// Check that the indexes still exist.
    CheckIndexes,
    /// Give up.
    Stop,
}

#[wasm_bindgen]
impl Failure {
    /// The failure for an error of the Node driver: its kind by the name of its class, and what the server said.
    pub fn driver(
        class: &str,
        code: Option<i32>,
        code_name: String,
        message: String,
        labels: Vec<String>,
    ) -> Failure {
        if class == "BSONVersionError" {
            let missing = "the `Db` is of another version of the package `mongodb` than the one \
                           that `mongo-lease` finds";
            let cause = Cause::Unsupported(missing.to_owned());
            return Failure(Failed { outcome: REFUSED, cause });
        }
        let kind = match (class, code) {
            (_, Some(code)) => ErrorKind::Command(CommandError { code, code_name, message }),
            ("MongoServerSelectionError", _) => ErrorKind::ServerSelection { message },
            ("MongoPoolClearedError" | "MongoPoolClearedOnNetworkError", _) => {
                ErrorKind::ConnectionPoolCleared { message }
            }
            (
                "MongoTopologyClosedError" | "MongoClientClosedError" | "MongoNotConnectedError",
                _,
            ) => ErrorKind::Shutdown,
            ("MongoInvalidArgumentError" | "MongoExpiredSessionError", _) => {
                ErrorKind::InvalidArgument { message }
            }
            ("MongoMissingCredentialsError", _) => ErrorKind::Authentication { message },
            ("MongoCompatibilityError", _) => ErrorKind::IncompatibleServer { message },
            ("BSONError", _) => ErrorKind::BsonSerialization(message),
            (_, None) => ErrorKind::Other(message),
        };
        Failure(driver_failure(DriverError::new(kind, labels)))
    }

    /// No answer came in time.
    pub fn unanswered() -> Failure {
        Failure(UNANSWERED)
    }

    /// The manager has been closed.
    #[wasm_bindgen(js_name = shutDown)]
    pub fn shut_down() -> Failure {
        Failure(Failed { outcome: REFUSED, cause: Cause::ShutDown })
    }

    /// The time was over before the command was sent.
    #[wasm_bindgen(js_name = notSent)]
    pub fn not_sent() -> Failure {
        Failure(NOT_SENT)
    }

    /// Whether the write may have happened.
    #[wasm_bindgen(js_name = maybeApplied)]
    pub fn maybe_applied(&self) -> bool {
        self.0.outcome.maybe_applied
    }

    /// How to go on.
    pub fn next(&self) -> Next {
        match self.0.outcome.advice {
            Advice::Retry => Next::Retry,
            Advice::CheckIndexes => Next::CheckIndexes,
            Advice::Stop => Next::Stop,
        }
    }

    /// Whether the server said that something held the command up.
    #[wasm_bindgen(js_name = isBlocked)]
    pub fn is_blocked(&self) -> bool {
        self.0.is_blocked()
    }

    /// Whether the server answered, but the write may have been applied.
    #[wasm_bindgen(js_name = isCutOff)]
    pub fn is_cut_off(&self) -> bool {
        self.0.is_cut_off()
    }

    /// Whether the driver found no server in all the time that its client allows for that.
    #[wasm_bindgen(js_name = isOutOfReach)]
    pub fn is_out_of_reach(&self) -> bool {
        self.0.is_out_of_reach()
    }

    /// The code of the server's error.
    #[wasm_bindgen(js_name = serverCode)]
    pub fn server_code(&self) -> Option<i32> {
        self.0.server_code()
    }

    /// The same failure, maybe applied if an earlier or another attempt may have been.
    #[wasm_bindgen(js_name = orMaybe)]
    pub fn or_maybe(&self, maybe_applied: bool) -> Failure {
        Failure(self.0.clone().or_maybe(maybe_applied))
    }

    /// The error that a user is told.
    pub fn fault(&self) -> Fault {
        Fault(self.0.clone().into())
    }
}

/// The failure of a reply whose write lacks the confirmation of a majority.
pub(crate) fn unconfirmed(reply: &Document) -> Option<Failed> {
    let (message, outcome) = write_concern_error(reply)?;
    Some(Failed { outcome, cause: Cause::WriteConcern(message) })
}
