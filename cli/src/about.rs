//! Prints shell completions, and writes the manual pages.

use std::fs;
use std::io;
use std::path::Path;

use clap::CommandFactory;
use clap_complete::Shell;
use mongo_lease_migrations::connect::{COLLECTION_VARIABLE, DATABASE_VARIABLE, URI_VARIABLE};
use mongo_lease_migrations::manual::{self, Supplement};

use crate::arguments::{Arguments, OWNER_VARIABLE, TTL_VARIABLE};
use crate::console::Console;
use crate::exit::{CODES, Exit};
use crate::failure::Failure;

/// The parts of the manual pages that are not options.
const SUPPLEMENT: Supplement = Supplement {
    exit_codes: &CODES,
    environment: &[
        (URI_VARIABLE, "The connection string, if --uri is not given."),
        (DATABASE_VARIABLE, "The database, if --db is not given."),
        (COLLECTION_VARIABLE, "The collection, if --collection is not given."),
        (TTL_VARIABLE, "The ttl, if --ttl is not given: for run and acquire."),
        (OWNER_VARIABLE, "The holder's label, if --owner is not given: for run and acquire."),
        ("NO_COLOR", "If it is set and not empty, the output has no colours."),
    ],
    see_also: &["mongo-lease-migrate"],
};

/// Prints the completion script for the shell.
pub(crate) fn completions(shell: Shell, console: &mut Console) -> Exit {
    console.put_raw(&manual::completions(Arguments::command(), shell));
    Exit::Done
}

/// Writes the manual pages into a folder.
pub(crate) fn pages(folder: &Path, console: &mut Console) -> Result<Exit, Failure> {
    let write = || -> io::Result<usize> {
        let pages = manual::pages(Arguments::command(), &SUPPLEMENT)?;
        fs::create_dir_all(folder)?;
        for (name, page) in &pages {
            fs::write(folder.join(name), page)?;
        }
        Ok(pages.len())
    };
    let folder = folder.display();
    let count = write().map_err(|error| Failure::of_system(&format!("{folder}"), &error))?;
    console.say(&format!("{count} pages are in {folder}"));
    Ok(Exit::Done)
}
