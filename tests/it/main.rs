//! The library against a real server: one binary, a module a concern.

// A test names what it expects, and everything else is a failure, also what is added later.
#![allow(clippy::wildcard_enum_match_arm)]

mod acquire;
mod api;
mod cancel;
mod clients;
mod clocks;
mod cost;
mod deadlines;
mod drops;
mod events;
mod examples;
mod expiry_types;
mod fencing_example;
mod first_upsert;
mod guard;
mod indexes;
mod inspect;
mod keys;
mod late_attempts;
mod loss;
mod lost_replies;
#[cfg(feature = "metrics")]
mod metrics;
mod neighbours;
mod odd_documents;
mod own_value;
mod privileges;
mod release;
mod renewal;
mod shutdown;
mod standalone;
mod tidy;
mod tokens;
#[cfg(feature = "tracing")]
mod tracing;
mod user_strings;
mod waiting;

// What they are made with.
mod bson_types;
mod common;
mod patience;
mod recipe;
mod spy;
mod worker;
