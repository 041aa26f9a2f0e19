//! The library against a real server: one binary, a module a concern.

mod acquire;
mod api;
mod common;
mod examples;
mod indexes;
#[cfg(feature = "metrics")]
mod metrics;
mod privileges;
mod tidy;
#[cfg(feature = "tracing")]
mod tracing;
