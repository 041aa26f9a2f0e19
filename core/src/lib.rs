#![doc = include_str!("../README.md")]
// `clippy.toml` lists the methods: this package reads no clock. Its tests have a server, and tasks.
#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

#[cfg(not(any(feature = "bson-2", feature = "bson-3")))]
compile_error!("one of the features `bson-2` and `bson-3` must be on");

pub mod commands;
pub mod format;
pub mod info;
pub mod rules;
pub mod schema;
pub mod spec;
pub mod texts;

// With both, the newer: the driver chooses in the same way, so that its documents are these.
#[cfg(all(feature = "bson-2", not(feature = "bson-3")))]
pub use bson2 as bson;
#[cfg(feature = "bson-3")]
pub use bson3 as bson;
