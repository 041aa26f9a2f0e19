//! A request under a lease of [`mongo_lease`]: [`LeaseLayer`] for axum, hyper, tonic and other users of tower.
//!
//! ```no_run
//! # fn example(leases: mongo_lease::LeaseManager) -> mongo_lease::Result<()> {
//! use mongo_lease_tower::{KeyRules, LeaseLayer, key};
//!
//! // Two requests to pay the same invoice exclude each other, on all machines: lease `invoice:42`.
//! let layer = LeaseLayer::new(&leases, key::path_parameter("/invoices/{id}/payment", "id")?)
//!     .key_rules(KeyRules::new("invoice")?);
//! // axum: `router.route_layer(layer)`; tonic: `Server::builder().layer(layer)`; else `ServiceBuilder`.
//! # let _ = layer;
//! # Ok(())
//! # }
//! ```
//!
//! [`LeaseLayer`] describes the responses to refused requests, [`KeyRules`] the names of the leases, and [`key`] which
//! requests are guarded. A request without a key is refused.

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

/// Compiles and runs the code on the page.
#[cfg(doctest)]
#[doc = include_str!("../../docs/web-services.md")]
struct WebServices;
