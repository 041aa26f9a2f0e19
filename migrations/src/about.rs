//! Prints the manual page and the completions, without a database.

use clap::CommandFactory;
use mongo_lease_migrations::connect::{COLLECTION_VARIABLE, DATABASE_VARIABLE, URI_VARIABLE};
use mongo_lease_migrations::manual::{self, Supplement};

use crate::arguments::{Arguments, EXIT_CODES};
use crate::console::Console;
use crate::exit::Exit;

/// The parts of the manual page that are not options.
const SUPPLEMENT: Supplement = Supplement {
    exit_codes: &EXIT_CODES,
    environment: &[
        (URI_VARIABLE, "The connection string, if --uri is not given."),
        (DATABASE_VARIABLE, "The database, if --db is not given."),
        (COLLECTION_VARIABLE, "The collection, if --collection is not given."),
    ],
    see_also: &["mongo-lease"],
};

/// Prints what the command line asks about the program itself; `None` if it asks nothing of that.
pub(crate) fn print(arguments: &Arguments, console: &mut Console) -> Option<Exit> {
    let text = if arguments.man {
        match manual::page(Arguments::command(), &SUPPLEMENT) {
            Ok(page) => String::from_utf8_lossy(&page).into_owned(),
            Err(error) => {
                console.say(&format!("error: the manual page cannot be written: {error}"));
                return Some(Exit::OutOfReach);
            }
        }
    } else {
        manual::completions(Arguments::command(), arguments.completions?)
    };
    console.put(text.trim_end());
    Some(Exit::Done)
}
