//! KeyRules: which names the keys of requests can have.

use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};

use crate::error::{Error, Result};

/// The prefix by default.
const PREFIX_DEFAULT: &str = "http";
/// The longest prefix, in bytes.
const PREFIX_BYTES_MAX: usize = 128;
/// The longest key by default, in bytes of UTF-8.
const KEY_BYTES_DEFAULT: usize = 200;
/// The longest name of a lease, in bytes.
const NAME_BYTES_MAX: usize = 512;
/// What stands between the prefix and the key, and never within the key.
const SEPARATOR: char = ':';
/// What is written as `%XX` in a name, along with everything that is not ASCII. With `%` among it, no two keys have
/// the same name.
const ENCODED: &AsciiSet = &CONTROLS.add(b' ').add(b'%').add(b':');

/// Which leases' names the keys of requests can have: `prefix:key`.
///
/// Keys come from whoever sends requests. So:
///
/// - Within the key, a colon, a percent sign, a space and whatever is not ASCII are written as `%XX`. The last colon
///   of a name is the one in front of the key; no key gets out of its prefix, neither into another layer's, nor to
///   a lease of your own under another prefix, and no two keys have the same name.
/// - A key has 1 to 200 bytes of UTF-8 (see [`bytes_max`](KeyRules::bytes_max)) and no control characters; and where
///   [`characters`](KeyRules::characters) says so, only those. Any other is refused, and the client is told so by 400.
///
/// A lease that something else takes as well, such as a job for the same invoice, takes the name from
/// [`name`](KeyRules::name).
///
/// # Examples
///
/// ```
/// # fn main() -> mongo_lease::Result<()> {
/// use mongo_lease::tower::KeyRules;
///
/// let rules = KeyRules::new("invoice")?;
/// assert_eq!(rules.name("42").unwrap(), "invoice:42");
/// assert_eq!(rules.name("admin:42").unwrap(), "invoice:admin%3A42");
/// assert!(rules.name("42\n").is_err());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct KeyRules {
    prefix: String,
    bytes_max: usize,
    allowed: fn(char) -> bool,
}

/// Why a request's key is not taken. The client is told so by 400.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidKey {
    /// The request has none, and the route asks for one.
    #[error("the key is missing")]
    Missing,
    /// It has no characters.
    #[error("the key is empty")]
    Empty,
    /// It has more bytes than the rules allow, or makes too long a name.
    #[error("the key is too long")]
    TooLong,
    /// It has a control character, or one that the rules do not allow.
    #[error("the key has a character that is not allowed")]
    Character,
    /// It is no UTF-8.
    #[error("the key is not UTF-8")]
    NotText,
    /// The request has more than one, and nobody can say which counts.
    #[error("there is more than one key")]
    Repeated,
}

impl KeyRules {
    /// Rules for names that begin with this prefix and a colon: 1 to 128 printable ASCII characters without a space.
    ///
    /// Prefixes are told apart also when one begins with another: `a` and `a:b` have no name in common.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidOption`] for any other prefix.
    pub fn new(prefix: impl Into<String>) -> Result<KeyRules> {
        let prefix = prefix.into();
        let is_fit = (1..=PREFIX_BYTES_MAX).contains(&prefix.len())
            && prefix.bytes().all(|byte| byte.is_ascii_graphic());
        if !is_fit {
            let reason = format!(
                "must have 1 to {PREFIX_BYTES_MAX} printable ASCII characters and no space"
            );
            return Err(Error::invalid_option("prefix", reason));
        }
        Ok(KeyRules { prefix, ..KeyRules::default() })
    }

    /// How many bytes of UTF-8 a key has at most. Defaults to 200. The whole name has at most 512, whatever this says.
    #[must_use]
    pub fn bytes_max(mut self, bytes: usize) -> KeyRules {
        self.bytes_max = bytes;
        self
    }

    /// Which characters a key may have. Defaults to all but control characters, which are refused in any case.
    #[must_use]
    pub fn characters(mut self, allowed: fn(char) -> bool) -> KeyRules {
        self.allowed = allowed;
        self
    }

    /// The name of the lease for this key.
    ///
    /// # Errors
    ///
    /// [`InvalidKey`] when the key breaks the rules.
    pub fn name(&self, key: &str) -> Result<String, InvalidKey> {
        if key.is_empty() {
            return Err(InvalidKey::Empty);
        }
        if key.len() > self.bytes_max {
            return Err(InvalidKey::TooLong);
        }
        let is_allowed = |character: char| !character.is_control() && (self.allowed)(character);
        if !key.chars().all(is_allowed) {
            return Err(InvalidKey::Character);
        }
        let name = format!("{}{SEPARATOR}{}", self.prefix, utf8_percent_encode(key, ENCODED));
        if name.len() > NAME_BYTES_MAX {
            return Err(InvalidKey::TooLong);
        }
        Ok(name)
    }
}

impl Default for KeyRules {
    /// The prefix `http`.
    fn default() -> KeyRules {
        KeyRules {
            prefix: PREFIX_DEFAULT.to_owned(),
            bytes_max: KEY_BYTES_DEFAULT,
            allowed: |_| true,
        }
    }
}
