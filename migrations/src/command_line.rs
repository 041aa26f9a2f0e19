//! Command line: the options that both programs read in the same way.

use std::ffi::OsString;
use std::time::Duration;

use clap::error::ErrorKind;
use clap::{Args, Parser};

use crate::connect::{Target, uri_of_environment};
use crate::secret::{self, Uri};

/// The options of a connection.
#[derive(Args)]
pub struct Connection {
    /// The connection string; use the environment to hide it from other users of the machine [env: MONGODB_URI]
    // The parser does not know the variable: otherwise its usage lines would show `--uri` as required.
    #[arg(long, global = true)]
    pub uri: Option<Uri>,

    /// The database; defaults to that of the connection string
    #[arg(long, global = true, value_name = "NAME")]
    pub db: Option<String>,

    /// The collection
    #[arg(long, global = true, value_name = "NAME", default_value = "locks")]
    pub collection: String,

    /// How long to wait for the database to answer, such as 500ms, 10s or 2m
    #[arg(long, global = true, value_name = "DURATION", default_value = "10s")]
    #[arg(value_parser = humantime::parse_duration)]
    pub timeout: Duration,
}

/// The parser's answer where it has no arguments for the program. The texts have no secrets.
#[derive(Debug)]
pub enum Answer {
    /// The help or the version, which was asked for.
    Help(String),
    /// The problem with the command line.
    Mistake(String),
}

impl Connection {
    /// Reads from the environment what the command line leaves open.
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

    /// A text without the secrets of the connection string.
    #[must_use]
    pub fn veil(&self, text: &str) -> String {
        self.uri.as_ref().map_or_else(|| text.to_owned(), |uri| uri.veil(text))
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
        // A text that was meant as a connection string may stand anywhere in the message.
        let veiled = arguments
            .iter()
            .fold(rendered, |text, argument| secret::veil(&text, &argument.to_string_lossy()));
        Answer::Mistake(veiled.trim_end().to_owned())
    })
}
