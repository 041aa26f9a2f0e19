//! The histories of the processes: a line of JSON for each event.

use serde::{Deserialize, Serialize};

use crate::permits::Permits;
use crate::time::Nanos;

/// The longest wait of a call that waits without a limit.
pub const FOREVER_MS: u64 = u64::MAX;

/// The kind of a fault that kills a worker. Its leases expire, and waiting goes on beside it.
pub const KILL_WORKER: &str = "kill-worker";
/// The kind of a fault that kills the change streams' cursors. Waiting goes on without them.
pub const CURSOR: &str = "cursor";
/// The kind of a fault that is many calls at once: their process runs its timers late.
pub const OVERLOAD: &str = "overload";

/// One event.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// The time, on the clock that all processes share.
    pub at: Nanos,
    /// The name of the process.
    pub by: String,
    /// The event.
    #[serde(flatten)]
    pub what: What,
}

impl Record {
    /// The event as a line of JSON, without its end.
    pub fn line(&self) -> String {
        serde_json::to_string(self).expect("a record is plain data")
    }
}

/// Reads the lines of a history. If its process was killed, the last line may be unfinished, and is left out.
pub fn read(text: &str) -> Result<Vec<Record>, Unreadable> {
    let is_whole = text.ends_with('\n');
    let lines: Vec<&str> = text.lines().collect();
    let mut records = Vec::with_capacity(lines.len());
    for (number, line) in lines.iter().enumerate() {
        match serde_json::from_str(line) {
            Ok(record) => records.push(record),
            Err(_) if number + 1 == lines.len() && !is_whole => {}
            Err(error) => return Err(Unreadable { line: number + 1, error }),
        }
    }
    Ok(records)
}

/// A line that is no event.
#[derive(Debug)]
pub struct Unreadable {
    /// The number of the line, from 1.
    pub line: usize,
    /// The defect.
    pub error: serde_json::Error,
}

/// An event's kind. A `call` is one acquire call and the lease that came of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum What {
    /// A process starts.
    Started {
        /// Its id in the operating system.
        pid: u32,
    },
    /// An acquire call begins. `wait_ms` is `None` for a call that does not wait.
    Invoked {
        /// The id of the call, which no other has. It is the text `call` in the metadata of what it is granted.
        call: String,
        /// The name of the lease.
        name: String,
        /// The ttl that the call asks for.
        ttl_ms: u64,
        /// The longest wait: [`FOREVER_MS`] for a call that waits without a limit.
        wait_ms: Option<u64>,
        /// The permits that the call asks for.
        permits: Permits,
    },
    /// It was granted, and the holder believes until then.
    Granted {
        /// The call.
        call: String,
        /// The name of the lease.
        name: String,
        /// The fencing token.
        token: u64,
        /// The text that identifies the holder.
        value: String,
        /// The end of the holder's belief.
        valid_until: Nanos,
    },
    /// The call ended without a lease.
    Ended {
        /// The call.
        call: String,
        /// In which way.
        how: Ending,
        /// The error's text.
        text: String,
    },
    /// The holder believes for longer than before.
    Renewed {
        /// The call.
        call: String,
        /// The new end of its belief.
        valid_until: Nanos,
    },
    /// The holder has learned that it has lost the lease.
    Lost {
        /// The call.
        call: String,
        /// The library's reason.
        reason: String,
    },
    /// From here on the holder does not believe.
    Releasing {
        /// The call.
        call: String,
        /// In which way.
        how: Letting,
    },
    /// The release has ended.
    Released {
        /// The call.
        call: String,
        /// The result.
        outcome: Outcome,
        /// The error's text.
        text: String,
    },
    /// The resource's answer; `None` when it could not be reached.
    Wrote {
        /// The call.
        call: String,
        /// The fencing token.
        token: u64,
        /// The resource's decision.
        accepted: Option<bool>,
        /// Whether the holder knew that it had lost the lease.
        is_stale: bool,
    },
    /// The caller of a transaction under the lease has learned its end.
    Transacted {
        /// The call.
        call: String,
        /// The id of the transaction, which no other has.
        transaction: String,
        /// The end.
        end: TransactionEnd,
        /// The error's text.
        text: String,
    },
    /// The oplog has a transaction under the lease.
    Committed {
        /// The call.
        call: String,
        /// The name of the lease.
        name: String,
        /// The id of the transaction.
        transaction: String,
        /// Its time, as a token.
        token: u64,
    },
    /// The process kills itself without any cleanup.
    Crashing,
    /// A manager has shut down.
    ShutDown {
        /// How many leases it released.
        released: usize,
        /// How many it could not release.
        left_to_expire: usize,
        /// How many of its tasks go on.
        tasks_left: usize,
    },
    /// The resources that the process still had after everything of the library's was closed and dropped.
    Left {
        /// Tasks of the runtime.
        tasks: usize,
        /// Open sockets.
        sockets: usize,
        /// Memory in use.
        memory_kb: u64,
        /// The most memory that was in use.
        memory_peak_kb: u64,
    },
    /// The resource has decided about a write.
    Judged {
        /// The call.
        call: String,
        /// The name of the lease.
        name: String,
        /// The fencing token.
        token: u64,
        /// Its decision.
        accepted: bool,
    },
    /// A fault begins.
    FaultBegan {
        /// Its number.
        fault: usize,
        /// Its kind: [`KILL_WORKER`], [`CURSOR`], [`OVERLOAD`], or any other text, which puts off waiting.
        kind: String,
        /// More about it, for people.
        detail: String,
    },
    /// The fault is over.
    FaultEnded {
        /// Its number.
        fault: usize,
    },
    /// The nemesis overwrites a stored number of the holder or waiter with this value.
    Damaged {
        /// The name of the lease.
        name: String,
        /// The text that identifies the holder.
        value: String,
        /// The field.
        number: String,
        /// Its new content.
        with: String,
    },
    /// All calls of a load have ended, and so has a call for a fresh lease that was made after them.
    LoadOver {
        /// The number of the fault.
        load: usize,
        /// The longest wait of that call.
        wait_ms: u64,
        /// How long that call took.
        took_ms: u64,
        /// Whether it was granted its lease.
        is_granted: bool,
    },
    /// A worker was stopped, resumed or killed from outside; `by` is the worker.
    Stopped,
    /// See `Stopped`.
    Resumed,
    /// See `Stopped`.
    Killed,
}

/// How a call without a lease ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ending {
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
pub enum Letting {
    /// It waits for the release.
    Release,
    /// It drops the lease.
    Drop,
}

/// The outcome of a release.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// The grant was ended.
    Released,
    /// There was nothing to end.
    NotHeld,
    /// The grant may have been ended.
    Unknown,
    /// Any other error of the library.
    Failed,
}

/// The end of a transaction, as its caller knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TransactionEnd {
    /// All of it was done.
    Committed,
    /// Nothing of it was done, and nothing will be.
    NotCommitted,
    /// Either.
    Unknown,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read_as_they_were_written_and_the_last_may_be_unfinished() {
        let (call, name) = ("a/1".to_owned(), "n".to_owned());
        let permits = Permits::READER;
        let invoked = What::Invoked { call, name, ttl_ms: 1, wait_ms: Some(FOREVER_MS), permits };
        let whats = [invoked, What::FaultEnded { fault: 3 }, What::Crashing];
        let records = whats.map(|what| Record { at: 7, by: "a".to_owned(), what });
        let text: String = records.iter().map(|record| record.line() + "\n").collect();
        assert_eq!(read(&text).unwrap(), records);
        let cut = &text[..text.len() - 3];
        assert_eq!(read(cut).unwrap(), records[..2], "its process was killed");
        let broken = text.replacen("fault_ended", "fault_mended", 1);
        assert_eq!(read(&broken).unwrap_err().line, 2);
    }
}
