use std::fs;
use std::path::{Path, PathBuf};

/// Where the server in this data folder writes its log.
pub(super) fn file(folder: &Path) -> PathBuf {
    folder.join("mongod.log")
}

/// The file for the other output: messages before the log is open, and after a crash.
pub(super) fn errors(folder: &Path) -> PathBuf {
    folder.join("mongod.err")
}

/// The progress of a server's start, by its log.
pub(super) enum Progress {
    Starting,
    Listening,
    PortInUse,
}

/// The part of the log that one process writes. Earlier ones wrote the part before.
///
/// The log shows the start, and not the port: at the port another server might answer.
pub(super) struct Log {
    folder: PathBuf,
    start: usize,
    text: String,
}

impl Log {
    pub(super) fn at_its_end(folder: &Path) -> Self {
        let start = fs::read(file(folder)).map_or(0, |bytes| bytes.len());
        Self { folder: folder.to_owned(), start, text: String::new() }
    }

    pub(super) fn read(&mut self) -> Progress {
        let bytes = fs::read(file(&self.folder)).unwrap_or_default();
        self.text = String::from_utf8_lossy(bytes.get(self.start..).unwrap_or_default()).into();
        if self.text.contains("\"Waiting for connections\"") {
            Progress::Listening
        } else if self.text.contains("Address already in use") {
            Progress::PortInUse
        } else {
            Progress::Starting
        }
    }

    /// The end of the log and of the error output, for a message.
    pub(super) fn tail(&self) -> String {
        let errors = fs::read(errors(&self.folder)).unwrap_or_default();
        let errors = String::from_utf8_lossy(&errors);
        let tail = |text: &str| {
            let lines: Vec<&str> = text.lines().collect();
            lines[lines.len().saturating_sub(20)..].join("\n")
        };
        format!("error output:\n{}\nlog:\n{}", tail(&errors), tail(&self.text))
    }
}
