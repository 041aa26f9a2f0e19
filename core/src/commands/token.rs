//! The fencing token in replies.

use crate::bson::{Document, Timestamp};
use crate::commands::DecodeError;

/// The token of a grant: the time of the write that granted, which the server names in its reply.
///
/// Only for replies that granted. A no-op and a read report the time of another write.
///
/// # Errors
///
/// If the reply has no time.
pub fn of_reply(reply: &Document) -> Result<Timestamp, DecodeError> {
    reply.get_timestamp("operationTime").map_err(|_| {
        DecodeError::Unsupported(
            "the server's replies have no operationTime, which fencing tokens are made from"
                .to_owned(),
        )
    })
}
