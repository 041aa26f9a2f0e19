//! Connect: from a connection string to a database that answers.

use std::time::Duration;

use mongodb::bson::doc;
use mongodb::error::{Error as DriverError, ErrorKind};
use mongodb::options::{ClientOptions, ConnectionString};
use mongodb::{Client, Database};

use crate::arguments::Options;
use crate::secret::Uri;

/// Why there is no database to work with. The messages have no secrets.
pub(crate) enum Fault {
    Usage(String),
    OutOfReach(String),
}

/// The name of the database, without asking anybody.
pub(crate) fn database_name(options: &Options) -> Result<String, Fault> {
    if let Some(name) = &options.db {
        return check_name(name);
    }
    let Some(uri) = &options.uri else { return Err(no_database()) };
    let parsed = ConnectionString::parse(uri.expose()).map_err(|error| fault(&error, uri))?;
    check_name(parsed.default_database.as_deref().ok_or_else(no_database)?)
}

/// A database that has answered.
pub(crate) async fn connect(options: &Options) -> Result<Database, Fault> {
    let Some(uri) = &options.uri else {
        return Err(Fault::Usage("give --uri, or set MONGODB_URI".to_owned()));
    };
    let name = database_name(options)?;
    // A name server that does not answer, and a server that does not, end within the same bound.
    let connecting = tokio::time::timeout(options.timeout, open(uri, &name, options.timeout));
    match connecting.await {
        Ok(opened) => opened.map_err(|error| fault(&error, uri)),
        Err(_elapsed) => {
            let timeout = humantime::format_duration(options.timeout);
            Err(Fault::OutOfReach(format!("the database did not answer within {timeout}")))
        }
    }
}

async fn open(uri: &Uri, name: &str, timeout: Duration) -> Result<Database, DriverError> {
    let mut client_options = ClientOptions::parse(uri.expose()).await?;
    // A little less than the bound, for the driver knows why it found no server.
    client_options.server_selection_timeout = Some(timeout.mul_f64(0.9));
    client_options.connect_timeout = Some(timeout);
    client_options.app_name.get_or_insert_with(|| "mongo-lease-migrate".to_owned());
    let database = Client::with_options(client_options)?.database(name);
    database.run_command(doc! { "hello": 1 }).await?;
    Ok(database)
}

/// What the driver has to say, without what is secret.
fn fault(error: &DriverError, uri: &Uri) -> Fault {
    // The kind alone: the driver's own text is a dump of its fields.
    let message = uri.veil(&error.kind.to_string());
    if matches!(error.kind.as_ref(), ErrorKind::InvalidArgument { .. }) {
        Fault::Usage(format!("the connection string is not understood: {message}"))
    } else {
        Fault::OutOfReach(format!("the database is out of reach: {message}"))
    }
}

fn no_database() -> Fault {
    Fault::Usage("give --db, or a connection string that names a database".to_owned())
}

fn check_name(name: &str) -> Result<String, Fault> {
    let is_bad = |character: char| "/\\. \"$".contains(character) || character.is_control();
    if name.is_empty() || name.len() > 63 || name.contains(is_bad) {
        return Err(Fault::Usage(format!("{name:?} is no name for a database")));
    }
    Ok(name.to_owned())
}
