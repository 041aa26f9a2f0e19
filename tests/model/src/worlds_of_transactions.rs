//! The worlds with transactions under a lease.

use crate::bounds::{Bounds, TTL};
use crate::worlds::{bounded, client, rival, unbounded};

/// A guarded transaction and a renewal, within the bounds of clocks.
pub(crate) fn guards() -> Bounds {
    bounded(TTL, vec![client(1, 1, 1), rival(1, 0)])
}

/// The guard is the last operation of the transaction, or the first. Renewals are held back meanwhile.
pub(crate) fn guards_last() -> Bounds {
    Bounds { guards_last: true, ..guards() }
}

/// The same where no clock keeps any bound.
pub(crate) fn guards_last_unbounded() -> Bounds {
    let clients = vec![client(1, 1, 1), rival(1, 1)];
    Bounds { guards_last: true, clients, ..unbounded() }
}
