//! Connect: from a connection string to a database that answers.

use std::time::Duration;

use mongo_lease::Error;
use mongodb::Database;
use mongodb::bson::{Document, doc};
use mongodb::error::{Error as DriverError, ErrorKind};
use mongodb::options::{ClientOptions, ConnectionString};

use crate::process::open_client;
use crate::secret::Uri;
use crate::text;

/// The environment variable that has the connection string where the command line has none.
pub const URI_VARIABLE: &str = "MONGODB_URI";

/// Where the leases are, and how long the database has to answer.
#[derive(Clone, Copy)]
pub struct Target<'a> {
    /// The connection string. None is a usage fault.
    pub uri: Option<&'a Uri>,
    /// The database; the connection string's where there is none.
    pub database: Option<&'a str>,
    /// The collection.
    pub collection: &'a str,
    /// How long to wait for an answer. Zero is a usage fault.
    pub timeout: Duration,
    /// The program's name, for the server's log.
    pub program: &'static str,
}

/// Why there is no database to work with. The messages have no secrets.
#[derive(Debug)]
pub enum Fault {
    /// The command line or the connection string makes no sense.
    Usage(String),
    /// The database cannot be reached, or refuses.
    OutOfReach(String),
}

/// A database that has answered. Not to be printed: its options have the password.
pub struct Connected {
    /// The database.
    pub database: Database,
    /// How to reach its members one by one.
    pub client_options: ClientOptions,
    /// Its answer to `hello`.
    pub hello: Document,
}

/// The connection string of the environment, if it has one.
#[must_use]
pub fn uri_of_environment() -> Option<Uri> {
    let value = std::env::var_os(URI_VARIABLE)?;
    if value.is_empty() { None } else { Some(Uri::new(&value.to_string_lossy())) }
}

/// The names of the database and of the collection, checked without asking anybody. Gives the database's.
///
/// # Errors
///
/// [`Fault::Usage`].
pub fn check_names(target: &Target<'_>) -> Result<String, Fault> {
    if !is_name_of_collection(target.collection) {
        let message = format!("{:?} is not a valid collection name", target.collection);
        return Err(Fault::Usage(message));
    }
    if let Some(name) = target.database {
        return check_name(name);
    }
    let Some(uri) = target.uri else { return Err(no_database()) };
    let parsed = ConnectionString::parse(uri.expose()).map_err(|error| fault(&error, uri))?;
    check_name(parsed.default_database.as_deref().ok_or_else(no_database)?)
}

/// Connects to a database, and waits for its answer.
///
/// # Errors
///
/// [`Fault::Usage`] before anything is sent; [`Fault::OutOfReach`] when the database does not answer in time, or
/// refuses.
pub async fn connect(target: &Target<'_>) -> Result<Connected, Fault> {
    let Some(uri) = target.uri else {
        return Err(Fault::Usage(format!("give --uri, or set {URI_VARIABLE}")));
    };
    if target.timeout.is_zero() {
        return Err(Fault::Usage("--timeout must be greater than zero".to_owned()));
    }
    let name = check_names(target)?;
    // A name server that does not answer, and a server that does not, end within the same bound.
    match tokio::time::timeout(target.timeout, open(uri, &name, target)).await {
        Ok(opened) => opened.map_err(|error| fault(&error, uri)),
        Err(_elapsed) => {
            let timeout = text::duration(target.timeout);
            Err(Fault::OutOfReach(format!("the database did not answer within {timeout}")))
        }
    }
}

/// How often the driver looks at the servers, unless the connection string says otherwise: a server that has gone is
/// noticed soon, and so is one that comes back.
const LOOK_EVERY: Duration = Duration::from_secs(2);

async fn open(uri: &Uri, name: &str, target: &Target<'_>) -> Result<Connected, DriverError> {
    let mut client_options = ClientOptions::parse(uri.expose()).await?;
    // A little less than the bound, for the driver knows why it found no server.
    client_options.server_selection_timeout = Some(target.timeout.mul_f64(0.9));
    client_options.connect_timeout.get_or_insert(target.timeout.min(LOOK_EVERY));
    client_options.heartbeat_freq.get_or_insert(LOOK_EVERY);
    client_options.app_name.get_or_insert_with(|| target.program.to_owned());
    let database = open_client(client_options.clone())?.database(name);
    let hello = database.run_command(doc! { "hello": 1 }).await?;
    Ok(Connected { database, client_options, hello })
}

/// What the driver has to say, in the library's words and without what is secret.
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

fn check_name(name: &str) -> Result<String, Fault> {
    let is_bad = |character: char| "/\\. \"$".contains(character) || character.is_control();
    if name.is_empty() || name.len() > 63 || name.contains(is_bad) {
        return Err(Fault::Usage(format!("{name:?} is not a valid database name")));
    }
    Ok(name.to_owned())
}

/// A line break would end the comment that `print` puts it in.
fn is_name_of_collection(name: &str) -> bool {
    let is_bad = |character: char| character == '$' || character.is_control();
    !name.is_empty() && !name.starts_with("system.") && !name.contains(is_bad)
}
