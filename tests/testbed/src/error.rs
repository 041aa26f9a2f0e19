use std::fmt;

/// Why a server could not be found, started or controlled, as a message for people.
#[derive(Clone, Debug)]
pub struct Error {
    message: String,
}

impl Error {
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self { message: message.into() }
    }

    /// Prefixes an error with the action that failed.
    pub(crate) fn from_source(doing: &str, source: impl fmt::Display) -> Self {
        Self { message: format!("{doing}: {source}") }
    }

    /// Ends the test with the whole message, where a test has no use for a `Result`.
    #[track_caller]
    pub(crate) fn raise(&self) -> ! {
        panic!("{}", self.message)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.message)
    }
}

impl std::error::Error for Error {}
