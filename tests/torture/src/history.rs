//! The histories that the processes write: a line of JSON for each event.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::sync::Mutex;

use serde::{Deserialize, Serialize};

use crate::clock::{self, Nanos};
use crate::permits::Permits;

/// One event.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Record {
    /// The time, on the clock that all processes share.
    pub(crate) at: Nanos,
    /// The name of the process.
    pub(crate) by: String,
    #[serde(flatten)]
    pub(crate) what: What,
}

/// An event's kind. A `call` is one acquire call and the lease that came of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub(crate) enum What {
    Started {
        pid: u32,
    },
    /// An acquire call begins. `wait_ms` is `None` for a call that does not wait.
    Invoked {
        call: String,
        name: String,
        ttl_ms: u64,
        wait_ms: Option<u64>,
        permits: Permits,
    },
    /// It was granted, and the holder believes until then.
    Granted {
        call: String,
        name: String,
        token: u64,
        value: String,
        valid_until: Nanos,
    },
    /// The call ended without a lease.
    Ended {
        call: String,
        how: Ending,
        text: String,
    },
    /// The holder believes for longer than before.
    Renewed {
        call: String,
        valid_until: Nanos,
    },
    /// The holder has learned that it has lost the lease.
    Lost {
        call: String,
        reason: String,
    },
    /// From here on the holder does not believe.
    Releasing {
        call: String,
        how: Letting,
    },
    Released {
        call: String,
        outcome: Outcome,
        text: String,
    },
    /// The resource's answer; `None` when it could not be reached. `is_stale`: the holder knew that it had lost.
    Wrote {
        call: String,
        token: u64,
        accepted: Option<bool>,
        is_stale: bool,
    },
    /// The process kills itself without any cleanup.
    Crashing,
    ShutDown {
        released: usize,
        left_to_expire: usize,
        tasks_left: usize,
    },
    /// The resources that the process still had after everything of the library's was closed and dropped.
    Left {
        tasks: usize,
        sockets: usize,
        memory_kb: u64,
        memory_peak_kb: u64,
    },
    /// The resource has decided about a write.
    Judged {
        call: String,
        name: String,
        token: u64,
        accepted: bool,
    },
    FaultBegan {
        fault: usize,
        kind: String,
        detail: String,
    },
    FaultEnded {
        fault: usize,
    },
    /// The nemesis overwrites a stored number of the holder or waiter with this value.
    Damaged {
        name: String,
        value: String,
        number: String,
        with: String,
    },
    /// All calls of a load have ended, and so has a call for a fresh lease that was made after them.
    LoadOver {
        load: usize,
        took_ms: u64,
        is_granted: bool,
    },
    /// A worker was stopped, resumed or killed from outside; `by` is the worker.
    Stopped,
    Resumed,
    Killed,
}

/// How a call without a lease ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Ending {
    /// Somebody else held it.
    Busy,
    /// The wait was over.
    TimedOut,
    /// The wait was over, and the database did not answer at the end.
    TimedOutUnknown,
    /// The lease may have been granted.
    Unknown,
    /// The caller dropped the call.
    Dropped,
    /// Any other error of the library.
    Failed,
}

/// How a holder ends its lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Letting {
    Release,
    Drop,
}

/// The outcome of a release.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Outcome {
    Released,
    NotHeld,
    Unknown,
    Failed,
}

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
        let mut line = serde_json::to_vec(&record).expect("a record is plain data");
        line.push(b'\n');
        let mut file = self.file.lock().expect("nobody panics with it");
        // Without its history a run is void: better no worker than one without a history.
        file.write_all(&line).expect("the history is written");
    }
}

/// Reads the history of a process. If the process was killed, its last line may be unfinished.
pub(crate) fn read(path: &Path) -> io::Result<Vec<Record>> {
    let text = std::fs::read_to_string(path)?;
    let is_whole = text.ends_with('\n');
    let lines: Vec<&str> = text.lines().collect();
    let mut records = Vec::with_capacity(lines.len());
    for (number, line) in lines.iter().enumerate() {
        match serde_json::from_str(line) {
            Ok(record) => records.push(record),
            Err(_) if number + 1 == lines.len() && !is_whole => {}
            Err(error) => {
                let place = format!("{}:{}: {error}", path.display(), number + 1);
                return Err(io::Error::other(place));
            }
        }
    }
    Ok(records)
}
