//! The fencing token.

use std::fmt;
use std::str::FromStr;

use mongodb::bson::{Bson, Timestamp};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// A fencing token: a number that rises with every grant of one name.
///
/// It is the oplog time of the granting write. So it keeps rising across releases, expiry, restarts and failovers. A
/// comparison of tokens of different names means nothing.
///
/// Send it with every write to the guarded resource, and let the resource refuse tokens older than the newest that it
/// has seen. For a document in MongoDB, [`fenced_write`](Token::fenced_write) makes such a write. In JSON and in text a
/// token is a decimal string, because a JSON number would lose digits.
///
/// ```
/// use mongo_lease::Token;
///
/// let older: Token = "7300000000000000001".parse()?;
/// let newer = Token::from_u64(7_300_000_000_000_000_002);
/// assert!(older < newer);
/// assert_eq!(newer.to_string().parse::<Token>()?, newer);
/// # Ok::<(), mongo_lease::ParseTokenError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Token(u64);

impl Token {
    /// The token as one number, in the same order.
    #[must_use]
    pub const fn as_u64(self) -> u64 {
        self.0
    }

    /// The token with this number.
    #[must_use]
    pub const fn from_u64(number: u64) -> Token {
        Token(number)
    }
}

impl fmt::Display for Token {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, formatter)
    }
}

impl FromStr for Token {
    type Err = ParseTokenError;

    fn from_str(text: &str) -> Result<Token, ParseTokenError> {
        // `u64` would accept a leading plus sign, but each token has one spelling only.
        if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(ParseTokenError(()));
        }
        text.parse().map(Token).map_err(|_| ParseTokenError(()))
    }
}

/// The server's clock when it granted, in Unix seconds, and the number of the granting write within that second.
impl From<Timestamp> for Token {
    fn from(timestamp: Timestamp) -> Token {
        Token(u64::from(timestamp.time) << 32 | u64::from(timestamp.increment))
    }
}

impl From<Token> for Timestamp {
    fn from(token: Token) -> Timestamp {
        let half = |bits: u64| u32::try_from(bits & u64::from(u32::MAX)).unwrap_or_default();
        Timestamp { time: half(token.0 >> 32), increment: half(token.0) }
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

/// The error for a text that is not a fencing token.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a token is a decimal number of at most 64 bits")]
pub struct ParseTokenError(());

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_keep_their_order_as_numbers_and_as_text() {
        let of = |time, increment| Token::from(Timestamp { time, increment });
        let token = of(7, 9);
        assert_eq!(Timestamp::from(token), Timestamp { time: 7, increment: 9 });
        assert!(token < of(7, 10));
        assert!(of(7, u32::MAX) < of(8, 0));
        assert_eq!(token.to_string(), token.as_u64().to_string());
        assert_eq!(token.to_string().parse(), Ok(token));
        for bad in ["", "+1", "-1", "1.0", " 1", "18446744073709551616"] {
            assert!(bad.parse::<Token>().is_err(), "{bad:?}");
        }
    }
}
