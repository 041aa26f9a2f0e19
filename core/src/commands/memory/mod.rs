//! Carries each command out in memory: by its effect in `spec`, with the reply that a server's would be decoded to.

mod acquire;
mod find;
mod probe;
mod release;
mod renew;
mod snapshot;

use super::*;
use crate::memory::{Collection, MemoryCommand};
use crate::spec::{self, AsBuilt, Expiry, Holder};
use crate::texts::{LeaseDocument, Texts};
