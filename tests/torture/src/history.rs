//! The histories that the processes write, each to a file of its own.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::sync::Mutex;

use mongo_lease_checker::Nanos;
use mongo_lease_checker::history::{self, Record, What};

use crate::clock;

/// Writes one process's history. A line is in the file when the event is over, also if the process is killed then.
pub(crate) struct Writer {
    by: String,
    file: Mutex<File>,
}

impl Writer {
    pub(crate) fn create(path: &Path, by: &str) -> io::Result<Writer> {
        let file = File::options().create(true).append(true).open(path)?;
        Ok(Writer { by: by.to_owned(), file: Mutex::new(file) })
    }

    /// Notes an event of this process, now.
    pub(crate) fn note(&self, what: What) {
        self.note_at(clock::now(), what);
    }

    pub(crate) fn note_at(&self, at: Nanos, what: What) {
        self.note_of(&self.by, at, what);
    }

    /// Notes an event of another process.
    pub(crate) fn note_of(&self, by: &str, at: Nanos, what: What) {
        let record = Record { at, by: by.to_owned(), what };
        let line = record.line() + "\n";
        let mut file = self.file.lock().expect("nobody panics with it");
        // Without its history a run is void: better no worker than one without a history.
        file.write_all(line.as_bytes()).expect("the history is written");
    }
}

/// Reads the history of a process.
pub(crate) fn read(path: &Path) -> io::Result<Vec<Record>> {
    let text = std::fs::read_to_string(path)?;
    history::read(&text).map_err(|unreadable| {
        let history::Unreadable { line, error } = unreadable;
        io::Error::other(format!("{}:{line}: {error}", path.display()))
    })
}
