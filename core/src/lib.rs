#![doc = include_str!("../README.md")]
// `clippy.toml` lists the methods: this package reads no clock.
#![warn(clippy::disallowed_methods)]

pub mod format;
pub mod rules;
pub mod spec;
