//! The words of the Rust driver that files of `mongo-lease` use, here with the errors of the Node driver.
//!
//! The Node client compiles the library's own files with its texts, its checks of options, its reading of errors and
//! its fences, so that no rule is written twice. These files name the Rust driver, which is no part of WebAssembly.

pub use mongo_lease_core::bson;

/// Errors.
pub mod error {
    use std::any::Any;
    use std::collections::BTreeSet;
    use std::fmt;
    use std::sync::Arc;

    use serde::Deserialize;

    /// The driver's label of an error after which a transaction may be repeated.
    pub const TRANSIENT_TRANSACTION_ERROR: &str = "TransientTransactionError";

    /// The result of a call of the driver.
    pub type Result<T, E = Error> = std::result::Result<T, E>;

    /// An error of the driver.
    #[derive(Clone, Debug)]
    pub struct Error {
        /// The kind of failure.
        pub kind: Arc<ErrorKind>,
        labels: BTreeSet<String>,
    }

    /// The kinds of failures that lease operations tell apart.
    #[derive(Debug)]
    #[non_exhaustive]
    pub enum ErrorKind {
        /// The server refused the command.
        Command(CommandError),
        /// A statement of a write failed.
        Write(WriteFailure),
        /// The driver found no server.
        ServerSelection {
            /// The driver's words.
            message: String,
        },
        /// The name of a server could not be resolved.
        DnsResolve {
            /// The driver's words.
            message: String,
        },
        /// The connection pool was cleared before the command was sent.
        ConnectionPoolCleared {
            /// The driver's words.
            message: String,
        },
        /// The driver refused an argument.
        InvalidArgument {
            /// The driver's words.
            message: String,
        },
        /// The login failed.
        Authentication {
            /// The driver's words.
            message: String,
        },
        /// A document could not be written as BSON.
        BsonSerialization(String),
        /// The server has no sessions.
        SessionsNotSupported,
        /// The options for TLS are wrong.
        InvalidTlsConfig {
            /// The driver's words.
            message: String,
        },
        /// The driver does not support the server.
        IncompatibleServer {
            /// The driver's words.
            message: String,
        },
        /// The client has been closed.
        Shutdown,
        /// Anything else: the connection broke, or the reply could not be read.
        Other(String),
        /// An error of another library.
        Custom(Arc<dyn Any + Send + Sync>),
    }

    /// An error of the server.
    #[derive(Clone, Debug, Deserialize)]
    pub struct CommandError {
        /// The server's number for it.
        pub code: i32,
        /// The server's name for it.
        #[serde(rename = "codeName", default)]
        pub code_name: String,
        /// The server's words.
        #[serde(rename = "errmsg", default)]
        pub message: String,
    }

    /// A failure of a write.
    #[derive(Clone, Debug)]
    #[non_exhaustive]
    pub enum WriteFailure {
        /// A statement failed.
        WriteError(WriteError),
        /// The write is not confirmed as it should be.
        WriteConcernError(WriteError),
    }

    /// The error of one statement.
    #[derive(Clone, Debug, Deserialize)]
    pub struct WriteError {
        /// The server's number for it.
        pub code: i32,
        /// The server's words.
        #[serde(rename = "errmsg", default)]
        pub message: String,
    }

    impl Error {
        /// An error of this kind, with the driver's labels.
        pub fn new(kind: ErrorKind, labels: impl IntoIterator<Item = String>) -> Error {
            Error { kind: Arc::new(kind), labels: labels.into_iter().collect() }
        }

        /// An error of another library.
        pub fn custom(of: impl Any + Send + Sync) -> Error {
            ErrorKind::Custom(Arc::new(of)).into()
        }

        /// The error of another library that this one carries.
        pub fn get_custom<E: Any>(&self) -> Option<&E> {
            if let ErrorKind::Custom(carried) = self.kind.as_ref() {
                carried.downcast_ref()
            } else {
                None
            }
        }

        /// Whether the driver has put this label on the error.
        pub fn contains_label(&self, label: impl AsRef<str>) -> bool {
            self.labels.contains(label.as_ref())
        }
    }

    impl From<ErrorKind> for Error {
        fn from(kind: ErrorKind) -> Error {
            Error::new(kind, [])
        }
    }

    impl From<std::io::Error> for Error {
        fn from(error: std::io::Error) -> Error {
            ErrorKind::Other(error.to_string()).into()
        }
    }

    impl fmt::Display for Error {
        fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
            self.kind.fmt(formatter)
        }
    }

    impl std::error::Error for Error {}

    impl fmt::Display for ErrorKind {
        fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
            match self {
                ErrorKind::Command(CommandError { code, code_name, message }) => {
                    write!(formatter, "Command failed: Error code {code} ({code_name}): {message}")
                }
                ErrorKind::Write(
                    WriteFailure::WriteError(error) | WriteFailure::WriteConcernError(error),
                ) => formatter.write_str(&error.message),
                ErrorKind::ServerSelection { message }
                | ErrorKind::DnsResolve { message }
                | ErrorKind::ConnectionPoolCleared { message }
                | ErrorKind::InvalidArgument { message }
                | ErrorKind::Authentication { message }
                | ErrorKind::InvalidTlsConfig { message }
                | ErrorKind::IncompatibleServer { message }
                | ErrorKind::BsonSerialization(message)
                | ErrorKind::Other(message) => formatter.write_str(message),
                ErrorKind::SessionsNotSupported => formatter.write_str("no sessions"),
                ErrorKind::Shutdown => formatter.write_str("the client has been closed"),
                ErrorKind::Custom(_) => formatter.write_str("an error of another library"),
            }
        }
    }
}

/// Options.
pub mod options {
    use crate::bson::Document;

    /// An update.
    #[derive(Clone, Debug)]
    #[non_exhaustive]
    pub enum UpdateModifications {
        /// By operators.
        Document(Document),
        /// By stages.
        Pipeline(Vec<Document>),
    }

    impl From<Document> for UpdateModifications {
        fn from(update: Document) -> UpdateModifications {
            UpdateModifications::Document(update)
        }
    }

    impl From<Vec<Document>> for UpdateModifications {
        fn from(stages: Vec<Document>) -> UpdateModifications {
            UpdateModifications::Pipeline(stages)
        }
    }
}
