//! A request under a lease: [`LeaseLayer`] for axum, hyper, tonic, and whatever else takes tower's layers.
//!
//! ```no_run
//! # fn example(leases: mongo_lease::LeaseManager) -> mongo_lease::Result<()> {
//! use mongo_lease::tower::{KeyRules, LeaseLayer, key};
//!
//! // Two requests to pay the same invoice exclude each other, on all machines: lease `invoice:42`.
//! let layer = LeaseLayer::new(&leases, key::path_parameter("/invoices/{id}/payment", "id")?)
//!     .key_rules(KeyRules::new("invoice")?);
//! // axum: `router.layer(layer)`; tonic: `Server::builder().layer(layer)`; else `ServiceBuilder`.
//! # let _ = layer;
//! # Ok(())
//! # }
//! ```
//!
//! What the client is told when it is not its turn is in [`LeaseLayer`]; which names its requests can have, in
//! [`KeyRules`]; which requests are guarded, in [`key`].

pub mod key;

mod body;
mod held;
mod layer;
mod refusal;
mod rules;
mod service;

pub use body::LeaseBody;
pub use held::HeldLease;
pub use layer::{LeaseLayer, OnLoss};
pub use refusal::{Refusal, RefusalKind};
pub use rules::{InvalidKey, KeyRules};
pub use service::{LeaseService, ResponseFuture};

pub use http;
