//! Calls that come at the same time and travel in one batch.
//!
//! The batch does not change the result of a call; it changes only the number of commands.

mod lost;
mod outcomes;
mod releases;
mod tokens;
mod without_majority;

use crate::batches::{
    CALLS, CONTESTED, FILLERS, GrantRecord, RIVALS, answer, assert_in_order, granted,
    grants_in_oplog, names, start_calls, start_contest,
};
