//! A command: builds a document, and decodes the reply.

use mongo_lease_core::rules::slots::Lane;
use mongo_lease_core::rules::time::Instant;
use mongodb::bson::Document;

use super::failure::Cause;
#[cfg(feature = "memory")]
use crate::memory::{Collection, MemoryCommand};

/// A command that a store in memory can carry out. `R` is its decoded reply.
pub(crate) trait InMemory<R> {
    /// The purpose of the command. `None`: no planned fault happens to it.
    #[cfg(feature = "memory")]
    fn kind(&self) -> Option<MemoryCommand>;

    /// Carries the command out. `sent` is the echo.
    #[cfg(feature = "memory")]
    fn carry_out(&self, leases: &mut Collection<'_>, sent: Instant) -> R;
}

/// Without the feature, no command need be.
#[cfg(not(feature = "memory"))]
impl<C, R> InMemory<R> for C {}

/// A command: builds its document and decodes its reply. Both are pure.
pub(crate) trait Command:
    InMemory<<Self as Command>::Reply> + Send + Sync + 'static
{
    /// The decoded reply.
    type Reply: Send + 'static;

    /// The lane in which the command is sent.
    fn lane(&self) -> Lane;

    /// Builds the command document without `maxTimeMS`, which the runner adds.
    fn build(&self, collection: &str, sent: Instant) -> Document;

    /// Whether nothing but majority-committed data may answer this read. All other reads are sent with level `local` to
    /// a server that has no majority reads.
    fn needs_majority_read(&self) -> bool {
        false
    }

    /// Decodes a reply without an error. `sent` is the moment given to `build`.
    fn decode(&self, reply: &Document, sent: Instant) -> Result<Self::Reply, Cause>;
}
