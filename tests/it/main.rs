//! The library against a real server: one binary, a module a concern.

mod acquire;
mod common;

mod clients;
mod clocks;
mod cost;
mod deadlines;
mod expiry_types;
mod first_upsert;
mod inspect;
mod keys;
mod late_attempts;
mod lost_replies;
mod neighbours;
mod odd_documents;
mod own_value;
mod release;
mod standalone;
mod tokens;
mod user_strings;
mod waiting;

// What they are made with.
mod bounds;
mod bson_types;
mod recipe;
mod spy;
mod worker;
