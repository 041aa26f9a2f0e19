//! What a command is: a document, and how its reply is read.

use mongodb::bson::Document;

use super::failure::Cause;
use crate::rules::slots::Lane;
use crate::rules::time::Instant;

/// A command: how it is written, and how its reply is read. Both are pure.
pub(crate) trait Command: Send + Sync + 'static {
    /// What the reply says.
    type Reply: Send + 'static;

    /// In which lane it goes.
    fn lane(&self) -> Lane;

    /// The command document, all but `maxTimeMS`, which the runner adds.
    fn build(&self, collection: &str, sent: Instant) -> Document;

    /// What a reply without an error says. `sent` is what `build` was given.
    fn decode(&self, reply: &Document, sent: Instant) -> Result<Self::Reply, Cause>;
}
