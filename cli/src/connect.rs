//! Connect: from a connection string to a database that answers.

use std::time::Duration;

use mongo_lease::{LeaseManager, LeaseManagerBuilder};
use mongodb::bson::{Document, doc};
use mongodb::error::{Error as DriverError, ErrorKind};
use mongodb::options::{ClientOptions, ConnectionString};
use mongodb::{Client, Database};

use crate::arguments::Options;
use crate::failure::Failure;
use crate::secret::Uri;

/// How often the driver looks at the servers, unless the connection string says otherwise: a server that has gone is
/// noticed soon, and so is one that comes back.
const LOOK_EVERY: Duration = Duration::from_secs(2);
/// How long leaving may take once the result is there.
const SHUTDOWN_DEADLINE: Duration = Duration::from_secs(2);

/// A database that has answered, and how to reach its members one by one. Not to be printed: it has the password.
pub(crate) struct Connected {
    pub(crate) database: Database,
    pub(crate) client_options: ClientOptions,
    /// Its answer to `hello`.
    pub(crate) hello: Document,
}

/// A manager of the leases in the database.
pub(crate) async fn manager(options: &Options) -> Result<LeaseManager, Failure> {
    let database = connect(options).await?.database;
    let built = builder(&database, options).build().await;
    built.map_err(|error| Failure::of(&error, options))
}

/// The same for those who only look: it wants no privilege but `find`.
pub(crate) async fn looker(options: &Options) -> Result<LeaseManager, Failure> {
    let database = connect(options).await?.database;
    let built = builder(&database, options).read_only(true).build().await;
    built.map_err(|error| Failure::of(&error, options))
}

/// What a manager is made with.
pub(crate) fn builder(database: &Database, options: &Options) -> LeaseManagerBuilder {
    LeaseManager::builder(database)
        .collection(&options.collection)
        .assume_indexes(options.assume_indexes)
        .release_deadline(options.timeout)
        .shutdown_deadline(SHUTDOWN_DEADLINE)
}

/// A database that has answered.
pub(crate) async fn connect(options: &Options) -> Result<Connected, Failure> {
    let Some(uri) = &options.uri else {
        return Err(Failure::usage("give --uri, or set MONGODB_URI"));
    };
    if options.timeout.is_zero() {
        return Err(Failure::usage("--timeout must be longer than nothing"));
    }
    let name = database_name(options, uri)?;
    if !is_name_of_collection(&options.collection) {
        let message = format!("{:?} is no name for a collection", options.collection);
        return Err(Failure::usage(message));
    }
    // A name server that does not answer, and a server that does not, end within the same bound.
    match tokio::time::timeout(options.timeout, open(uri, &name, options.timeout)).await {
        Ok(opened) => opened.map_err(|error| failure(&error, uri)),
        Err(_elapsed) => {
            let timeout = humantime::format_duration(options.timeout);
            let message = format!("the database did not answer within {timeout}");
            Err(Failure::out_of_reach(message))
        }
    }
}

async fn open(uri: &Uri, name: &str, timeout: Duration) -> Result<Connected, DriverError> {
    let mut client_options = ClientOptions::parse(uri.expose()).await?;
    // A little less than the bound, for the driver knows why it found no server.
    client_options.server_selection_timeout = Some(timeout.mul_f64(0.9));
    client_options.connect_timeout.get_or_insert(timeout.min(LOOK_EVERY));
    client_options.heartbeat_freq.get_or_insert(LOOK_EVERY);
    client_options.app_name.get_or_insert_with(|| "mongo-lease".to_owned());
    let database = Client::with_options(client_options.clone())?.database(name);
    let hello = database.run_command(doc! { "hello": 1 }).await?;
    Ok(Connected { database, client_options, hello })
}

/// What the driver has to say, without what is secret.
fn failure(error: &DriverError, uri: &Uri) -> Failure {
    // The kind alone: the driver's own text is a dump of its fields.
    let message = uri.veil(&error.kind.to_string());
    if matches!(error.kind.as_ref(), ErrorKind::InvalidArgument { .. }) {
        Failure::usage(format!("the connection string is not understood: {message}"))
    } else {
        Failure::out_of_reach(format!("the database is out of reach: {message}"))
    }
}

fn database_name(options: &Options, uri: &Uri) -> Result<String, Failure> {
    if let Some(name) = &options.db {
        return check_name(name);
    }
    let parsed = ConnectionString::parse(uri.expose()).map_err(|error| failure(&error, uri))?;
    let no_database = || Failure::usage("give --db, or a connection string that names a database");
    check_name(parsed.default_database.as_deref().ok_or_else(no_database)?)
}

fn check_name(name: &str) -> Result<String, Failure> {
    let is_bad = |character: char| "/\\. \"$".contains(character) || character.is_control();
    if name.is_empty() || name.len() > 63 || name.contains(is_bad) {
        return Err(Failure::usage(format!("{name:?} is no name for a database")));
    }
    Ok(name.to_owned())
}

fn is_name_of_collection(name: &str) -> bool {
    let is_bad = |character: char| character == '$' || character.is_control();
    !name.is_empty() && !name.starts_with("system.") && !name.contains(is_bad)
}
