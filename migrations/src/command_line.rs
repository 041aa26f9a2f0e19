//! Command line: the options that both programs read in the same way.

use std::ffi::OsString;
use std::time::Duration;

use clap::builder::Resettable;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::parser::ValueSource;
use clap::{ArgMatches, Args, Command, Error, Parser};

use crate::connect::{
    COLLECTION_VARIABLE, DATABASE_VARIABLE, Origin, Origins, Target, uri_of_environment,
};
use crate::secret::{self, Uri};

/// The options of a connection.
#[derive(Args, Clone)]
pub struct Connection {
    /// The connection string; use the environment to hide it from other users of the machine [env: MONGODB_URI]
    // The parser does not know the variable: otherwise its usage lines would show `--uri` as required.
    #[arg(long, global = true)]
    pub uri: Option<Uri>,

    /// The database; defaults to that of the connection string
    #[arg(long, global = true, value_name = "NAME")]
    #[arg(env = DATABASE_VARIABLE, hide_env_values = true)]
    pub db: Option<String>,

    /// The collection
    #[arg(long, global = true, value_name = "NAME", default_value = "locks")]
    #[arg(env = COLLECTION_VARIABLE, hide_env_values = true)]
    pub collection: String,

    /// How long to wait for the database to answer, such as 500ms, 10s or 2m
    #[arg(long, global = true, value_name = "DURATION", default_value = "10s")]
    #[arg(value_parser = humantime::parse_duration)]
    pub timeout: Duration,

    /// Where the names of the database and the collection come from.
    #[arg(skip)]
    pub origins: Origins,
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
    /// Reads the connection string from the environment if the command line has none, and keeps the origins.
    pub fn complete(&mut self, origins: Origins) {
        self.uri = self.uri.take().or_else(uri_of_environment);
        self.origins = origins;
    }

    /// Where the leases are, for the program of this name.
    #[must_use]
    pub fn target(&self, program: &'static str) -> Target<'_> {
        Target {
            uri: self.uri.as_ref(),
            database: self.db.as_deref(),
            collection: &self.collection,
            timeout: self.timeout,
            origins: self.origins,
            program,
        }
    }

    /// A text without the secrets of the connection string.
    #[must_use]
    pub fn veil(&self, text: &str) -> String {
        self.uri.as_ref().map_or_else(|| text.to_owned(), |uri| uri.veil(text))
    }
}

/// Where the parser has found the names of the database and the collection.
fn origins_in(matches: &ArgMatches) -> Origins {
    let origin = |option: &str| match matches.value_source(option) {
        Some(ValueSource::CommandLine) => Origin::CommandLine,
        Some(ValueSource::EnvVariable) => Origin::Environment,
        _ => Origin::Default,
    };
    Origins { db: origin("db"), collection: origin("collection") }
}

/// Reads the command line, and the environment variables of its options. The first argument is the program's name.
///
/// # Errors
///
/// The text to print: help that was asked for, or what is wrong.
pub fn parse<A: Parser>(arguments: &[OsString]) -> Result<(A, Origins), Answer> {
    let mut command = A::command();
    let parsed = command.try_get_matches_from_mut(arguments).and_then(|matches| {
        let origins = origins_in(&matches);
        A::from_arg_matches(&matches).map(|parsed| (parsed, origins))
    });
    parsed.map_err(|error| {
        if matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) {
            return Answer::Help(error.render().to_string().trim_end().to_owned());
        }
        // Without the environment the usage line has no options that nobody has typed in. If nothing is wrong then, a
        // variable has the value that is refused.
        let alone = without_environment(A::command()).try_get_matches_from_mut(arguments);
        let (rendered, variable) = match alone {
            Err(error) => (error.render().to_string(), None),
            Ok(_) => (error.render().to_string(), variable_of(&error, &command)),
        };
        let told = match &variable {
            Some(variable) => {
                let origin = format!("\n  the value comes from the environment: {variable}\n");
                rendered.replacen('\n', &origin, 1)
            }
            None => rendered,
        };
        // A text that was meant as a connection string may stand anywhere in the message.
        let value = variable.and_then(std::env::var_os);
        let veiled = arguments
            .iter()
            .chain(&value)
            .fold(told, |text, argument| secret::veil(&text, &argument.to_string_lossy()));
        Answer::Mistake(veiled.trim_end().to_owned())
    })
}

fn without_environment(command: Command) -> Command {
    let command = command.mut_args(|arg| arg.env(Resettable::Reset));
    command.mut_subcommands(without_environment)
}

/// The environment variable of the option whose value the parser refuses.
fn variable_of(error: &Error, command: &Command) -> Option<String> {
    let Some(ContextValue::String(option)) = error.get(ContextKind::InvalidArg) else {
        return None;
    };
    let long = option.strip_prefix("--")?.split([' ', '=']).next()?;
    let commands = std::iter::once(command).chain(command.get_subcommands());
    let mut options = commands.flat_map(Command::get_arguments);
    let variable = options.find(|option| option.get_long() == Some(long))?.get_env()?;
    Some(variable.to_string_lossy().into_owned())
}
