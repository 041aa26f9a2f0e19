//! A real Mongoose and this crate at one collection.
//!
//! `neighbour` is the other program, in Node.js: Mongoose and the recipe of the articles, and variants with defects.
//! `contest` runs both at once, and `history` checks it; the other modules go step by step.

mod clock;
mod clocks;
mod common;
mod contest;
mod documents;
mod failover;
mod history;
mod indexes;
mod installed;
mod neighbour;
mod page;
mod patience;
