//! Command line: what both programs read there in the same way.

use std::ffi::OsString;
use std::time::Duration;

use clap::error::ErrorKind;
use clap::{Args, Parser};
use mongo_lease::Error;

use crate::connect::{Target, uri_of_environment};
use crate::secret::{self, Uri};

/// The options that say where the leases are.
#[derive(Args)]
pub struct Connection {
    /// The connection string; better in the environment, where other users of the machine do not see it [env:
    /// MONGODB_URI]
    // The parser is not told of the variable: its usage lines would show `--uri` as though it had to be given.
    #[arg(long, global = true)]
    pub uri: Option<Uri>,

    /// The database; defaults to that of the connection string
    #[arg(long, global = true, value_name = "NAME")]
    pub db: Option<String>,

    /// The collection
    #[arg(long, global = true, value_name = "NAME", default_value = "locks")]
    pub collection: String,

    /// How long to wait for the database to be there, such as 500ms, 10s or 2m
    #[arg(long, global = true, value_name = "DURATION", default_value = "10s")]
    #[arg(value_parser = humantime::parse_duration)]
    pub timeout: Duration,
}

/// What the parser has to say in place of the arguments. The texts have no secrets.
#[derive(Debug)]
pub enum Answer {
    /// The help or the version, which was asked for.
    Help(String),
    /// What is wrong with the command line.
    Mistake(String),
}

impl Connection {
    /// Takes from the environment what the command line does not say.
    pub fn fill_from_environment(&mut self) {
        self.uri = self.uri.take().or_else(uri_of_environment);
    }

    /// Where the leases are, for the program of this name.
    #[must_use]
    pub fn target(&self, program: &'static str) -> Target<'_> {
        Target {
            uri: self.uri.as_ref(),
            database: self.db.as_deref(),
            collection: &self.collection,
            timeout: self.timeout,
            program,
        }
    }

    /// An error of the library's, in the words of a command line's user, and without secrets.
    #[must_use]
    pub fn describe(&self, error: &Error) -> String {
        let message = if let Error::MissingPrivilege { privilege, namespace, .. } = error {
            format!("the user lacks the privilege `{privilege}` on {namespace}")
        } else {
            error.to_string()
        };
        self.uri.as_ref().map_or_else(|| message.clone(), |uri| uri.veil(&message))
    }
}

/// Reads the command line. The first argument is the program's name.
///
/// # Errors
///
/// The text to print: help that was asked for, or what is wrong.
pub fn parse<A: Parser>(arguments: &[OsString]) -> Result<A, Answer> {
    A::try_parse_from(arguments).map_err(|error| {
        let rendered = error.render().to_string();
        if matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) {
            return Answer::Help(rendered.trim_end().to_owned());
        }
        // What was meant as a connection string may stand anywhere in the message.
        let veiled = arguments
            .iter()
            .fold(rendered, |text, argument| secret::veil(&text, &argument.to_string_lossy()));
        Answer::Mistake(veiled.trim_end().to_owned())
    })
}
