//! Connects to the database of a connection string.

use std::time::Duration;

use mongo_lease::Error;
use mongodb::Database;
use mongodb::bson::{Document, doc};
use mongodb::error::{Error as DriverError, ErrorKind};
use mongodb::options::{ClientOptions, ConnectionString};

use crate::process::open_client;
use crate::secret::{self, Uri};
use crate::text;

/// The environment variable for the connection string, if the command line has none.
pub const URI_VARIABLE: &str = "MONGODB_URI";

/// The environment variable for the database, if the command line has none.
pub const DATABASE_VARIABLE: &str = "MONGO_LEASE_DB";

/// The environment variable for the collection, if the command line has none.
pub const COLLECTION_VARIABLE: &str = "MONGO_LEASE_COLLECTION";

/// The collection of the leases, and how to reach it.
#[derive(Clone, Copy)]
pub struct Target<'a> {
    /// The connection string. `None` is a usage fault.
    pub uri: Option<&'a Uri>,
    /// The database. Defaults to that of the connection string.
    pub database: Option<&'a str>,
    /// The collection.
    pub collection: &'a str,
    /// How long to wait for an answer. Zero is a usage fault.
    pub timeout: Duration,
    /// Where the names come from, for messages.
    pub origins: Origins,
    /// The program's name, for the server's log.
    pub program: &'static str,
}

/// Where the value of an option comes from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Origin {
    /// Neither the command line nor the environment has it.
    #[default]
    Default,
    /// An environment variable.
    Environment,
    /// The command line.
    CommandLine,
}

/// Where the names of the database and the collection come from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Origins {
    /// Of `--db`.
    pub db: Origin,
    /// Of `--collection`.
    pub collection: Origin,
}

/// Why there is no usable database. The messages contain no secrets.
#[derive(Debug)]
pub enum Fault {
    /// The command line or the connection string is not valid.
    Usage(String),
    /// The database cannot be reached, or refuses.
    OutOfReach(String),
}

/// A database that has answered. Do not print it: its options contain the password.
pub struct Connected {
    /// The database.
    pub database: Database,
    /// The options with which its members can be reached one by one.
    pub client_options: ClientOptions,
    /// Its answer to `hello`.
    pub hello: Document,
}

impl Origin {
    /// The end of a message about a value: the environment variable that it comes from.
    #[must_use]
    pub fn told(self, variable: &str) -> String {
        match self {
            Origin::Environment => format!("; it comes from {variable}"),
            Origin::Default | Origin::CommandLine => String::new(),
        }
    }
}

/// The connection string in the environment, if there is one.
#[must_use]
pub fn uri_of_environment() -> Option<Uri> {
    let value = std::env::var_os(URI_VARIABLE)?;
    if value.is_empty() { None } else { Some(Uri::new(&value.to_string_lossy())) }
}

/// Checks the names of the database and the collection. Sends nothing. Returns the database's name.
///
/// # Errors
///
/// [`Fault::Usage`].
pub fn check_names(target: &Target<'_>) -> Result<String, Fault> {
    if !is_name_of_collection(target.collection) {
        let origin = target.origins.collection.told(COLLECTION_VARIABLE);
        return Err(not_a_name(target.collection, "collection", &origin));
    }
    if let Some(name) = target.database {
        return check_name(name, &target.origins.db.told(DATABASE_VARIABLE));
    }
    let Some(uri) = target.uri else { return Err(no_database()) };
    let parsed = ConnectionString::parse(uri.expose()).map_err(|error| fault(&error, uri))?;
    check_name(parsed.default_database.as_deref().ok_or_else(no_database)?, "")
}

/// Connects to a database, and waits for its answer.
///
/// # Errors
///
/// [`Fault::Usage`] before anything is sent; [`Fault::OutOfReach`] if the database does not answer in time, or refuses.
pub async fn connect(target: &Target<'_>) -> Result<Connected, Fault> {
    let Some(uri) = target.uri else {
        return Err(Fault::Usage(format!("give --uri, or set {URI_VARIABLE}")));
    };
    if target.timeout.is_zero() {
        return Err(Fault::Usage("--timeout must be greater than zero".to_owned()));
    }
    let name = check_names(target)?;
    // The limit covers the name server and the database server.
    match tokio::time::timeout(target.timeout, open(uri, &name, target)).await {
        Ok(opened) => opened.map_err(|error| fault(&error, uri)),
        Err(_elapsed) => {
            let timeout = text::duration(target.timeout);
            Err(Fault::OutOfReach(format!("the database did not answer within {timeout}")))
        }
    }
}

/// How often the driver checks the servers, unless the connection string sets that. So it notices soon that a server
/// has gone or come back.
const LOOK_EVERY: Duration = Duration::from_secs(2);

async fn open(uri: &Uri, name: &str, target: &Target<'_>) -> Result<Connected, DriverError> {
    let mut client_options = ClientOptions::parse(uri.expose()).await?;
    // A little less than the limit, so that the driver can report why it found no server.
    client_options.server_selection_timeout = Some(target.timeout.mul_f64(0.9));
    client_options.connect_timeout.get_or_insert(target.timeout.min(LOOK_EVERY));
    client_options.heartbeat_freq.get_or_insert(LOOK_EVERY);
    client_options.app_name.get_or_insert_with(|| target.program.to_owned());
    // The programs act on what they read: never from a member that lags, whatever the connection string says.
    client_options.selection_criteria = None;
    client_options.read_concern = None;
    let database = open_client(client_options.clone())?.database(name);
    let hello = database.run_command(doc! { "hello": 1 }).await?;
    Ok(Connected { database, client_options, hello })
}

/// Describes the driver's error in the library's words, without secrets.
fn fault(error: &DriverError, uri: &Uri) -> Fault {
    if matches!(error.kind.as_ref(), ErrorKind::InvalidArgument { .. }) {
        let message = uri.veil(&error.kind.to_string());
        return Fault::Usage(format!("the connection string is not valid: {message}"));
    }
    Fault::OutOfReach(uri.veil(&Error::from(error.clone()).to_string()))
}

fn no_database() -> Fault {
    Fault::Usage("give --db, or a connection string that names a database".to_owned())
}

fn check_name(name: &str, origin: &str) -> Result<String, Fault> {
    let is_bad = |character: char| "/\\. \"$".contains(character) || character.is_control();
    if name.is_empty() || name.len() > 63 || name.contains(is_bad) {
        return Err(not_a_name(name, "database", origin));
    }
    Ok(name.to_owned())
}

fn not_a_name(name: &str, what: &str, origin: &str) -> Fault {
    let message = format!("{name:?} is not a valid {what} name{origin}");
    // It may have been meant as a connection string.
    let is_uri = name.contains("://") || name.contains('@');
    Fault::Usage(if is_uri { secret::veil(&message, name) } else { message })
}

/// Whether this is a valid collection name. A line break would end the comment that `print` puts it in.
fn is_name_of_collection(name: &str) -> bool {
    let is_bad = |character: char| character == '$' || character.is_control();
    !name.is_empty() && !name.starts_with("system.") && !name.contains(is_bad)
}
