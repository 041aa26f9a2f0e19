//! Permits in the model checker: several clients hold one lease at once, under limits.
//!
//! The server carries out the specification (`core/src/spec`): clients with the limit 1 have fast attempts and renewals
//! of their own, and all else is the same for every limit. The clients believe and clean up by the rules
//! (`rules::holder`, `rules::attempts`). `rules::permits` says which of them may hold together.
//!
//! These clients ask again, give up and renew at any moment, and not only when `rules::waiter` says so. So each order
//! of commands that a waiter may cause is among those that are explored.

pub(crate) mod bounds;
mod claims;
mod client;
mod explore;
mod primary;
mod releases;
mod sights;
mod state;
pub(crate) mod worlds;
mod wrong_turns;

pub use bounds::{PermitBounds, PermitVariant};
pub use claims::PermitClaim;
pub use worlds::{NamedPermits, default_worlds, large_worlds};
pub use wrong_turns::{PermitWrongTurn, permit_wrong_turns};

use crate::search::{Found, Report};

/// Searches a world to its end.
#[must_use]
pub fn check_permits(bounds: &PermitBounds) -> Report {
    crate::search::to_the_end(explore::Permitted { bounds: bounds.clone() })
}

/// Searches a world until this claim is broken, and gives one of the shortest paths there.
#[must_use]
pub fn find_permits(bounds: &PermitBounds, claim: PermitClaim) -> Option<Found> {
    crate::search::until_broken(explore::Permitted { bounds: bounds.clone() }, claim.name())
}
