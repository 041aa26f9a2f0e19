//! A command: builds a document, and decodes the reply.

use std::fmt;

use super::confirm::Reliance;
use crate::bson::{Document, Timestamp};
use crate::rules::outcome::Outcome;
use crate::rules::slots::Lane;
use crate::rules::time::Instant;

/// A command: builds its document and decodes its reply. Both are pure.
pub trait Command: Send + Sync + 'static {
    /// The decoded reply.
    type Reply: Send + 'static;
    /// The lane in which the command is sent.
    const LANE: Lane;
    /// Whether a read can confirm its writes, if it has any. Then its time for a majority ends before the rest of its
    /// time.
    const IS_TRACED: bool = false;

    /// Builds the command document without `maxTimeMS`, which the sender adds.
    fn build(&self, collection: &str, sent: Instant) -> Document;

    /// Whether nothing but majority-committed data may answer this read. All other reads are sent with level `local` to
    /// a server that has no majority reads.
    fn needs_majority_read(&self) -> bool {
        false
    }

    /// The time up to which this read has to see all writes of which a majority has to know.
    fn sees_all_until(&self) -> Option<Timestamp> {
        None
    }

    /// Whether this read shows what the primary has, before a majority has it. All others show what a majority has.
    fn reads_applied(&self) -> bool {
        false
    }

    /// The writes that somebody relies on after this reply. By default one that no read can show.
    fn relies_on(&self, _reply: &Self::Reply) -> Reliance {
        Reliance::Untraceable
    }

    /// Whether a majority that has everything up to the time of this reply has a write of this command. One that found
    /// nothing to change names the time of an earlier write.
    fn has_written(&self, reply: &Self::Reply) -> bool {
        matches!(self.relies_on(reply), Reliance::Writes(_))
    }

    /// Decodes a reply without an error. `sent` is the moment given to `build`.
    ///
    /// # Errors
    ///
    /// If a statement of the command failed, or the reply is not what it should be.
    fn decode(&self, reply: &Document, sent: Instant) -> Result<Self::Reply, DecodeError>;
}

/// Why a reply that says "ok" answers nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DecodeError {
    /// A statement of the command failed.
    Write {
        /// The first statement's error.
        source: StatementError,
        /// The outcome of the whole command.
        outcome: Outcome,
    },
    /// The reply is not what it should be.
    Reply(String),
    /// The server lacks a required feature.
    Unsupported(String),
}

/// The error of one statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatementError {
    /// The server's number for it.
    pub code: i32,
    /// The server's words.
    pub message: String,
}

impl fmt::Display for DecodeError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DecodeError::Write { source, .. } => formatter.write_str(&source.message),
            DecodeError::Reply(text) | DecodeError::Unsupported(text) => formatter.write_str(text),
        }
    }
}

impl std::error::Error for DecodeError {}
