//! The fencing token in BSON, in JSON, and in replies.

use mongodb::bson::{Bson, Document, Timestamp};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::commands::failure::Cause;
use crate::token::Token;

impl From<Timestamp> for Token {
    fn from(timestamp: Timestamp) -> Token {
        Token::from_parts(timestamp.time, timestamp.increment)
    }
}

impl From<Token> for Timestamp {
    fn from(token: Token) -> Timestamp {
        Timestamp { time: token.seconds(), increment: token.ordinal() }
    }
}

/// Converts to a `Timestamp`, which the server orders as tokens are ordered.
impl From<Token> for Bson {
    fn from(token: Token) -> Bson {
        Bson::Timestamp(token.into())
    }
}

impl Serialize for Token {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Token {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Token, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(de::Error::custom)
    }
}

/// The token of a grant: the time of the write that granted, which the server names in its reply.
///
/// Only for replies that granted. A no-op and a read report the time of another write.
pub(crate) fn of_reply(reply: &Document) -> Result<Token, Cause> {
    match reply.get_timestamp("operationTime") {
        Ok(time) => Ok(time.into()),
        Err(_) => Err(Cause::Unsupported(
            "the server's replies have no operationTime, which fencing tokens are made from"
                .to_owned(),
        )),
    }
}
