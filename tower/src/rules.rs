//! `KeyRules`: maps the keys of requests to lease names.

use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};

use mongo_lease::{Error, Result};

/// The default prefix.
const PREFIX_DEFAULT: &str = "http";
/// The maximum length of a prefix, in bytes.
const PREFIX_BYTES_MAX: usize = 128;
/// The maximum length of a key, in bytes of UTF-8.
const KEY_BYTES_MAX: usize = 200;
/// The maximum length of a lease name, in bytes.
const NAME_BYTES_MAX: usize = 512;
/// Separates the prefix and the key. Never occurs within the encoded key.
const SEPARATOR: char = ':';
/// The ASCII characters that are written as `%XX`. All non-ASCII characters are, too. Because `%` is among them,
/// different keys have different names.
const ENCODED: &AsciiSet = &CONTROLS.add(b' ').add(b'%').add(b':');

/// Rules that map the keys of requests to lease names: `prefix:key`.
///
/// Clients choose the keys. So:
///
/// - Within the key, a colon, a percent sign, a space and every non-ASCII character is written as `%XX`. The last colon
///   of a name is therefore the one before the key. A key cannot reach names outside its prefix, neither another
///   layer's nor your own, and different keys have different names.
/// - A key has 1 to 200 bytes of UTF-8 and no control characters. Any other key is refused with 400. Narrower rules are
///   an extractor's: it returns an [`InvalidKey`].
///
/// If other code acquires the same lease, such as a job for the same invoice, it gets the name from
/// [`name`](KeyRules::name).
///
/// # Examples
/// ```
/// # fn main() -> mongo_lease::Result<()> {
/// use mongo_lease_tower::KeyRules;
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
}

/// Why a request has no usable key. The client gets 400, and 500 for [`Route`](InvalidKey::Route).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidKey {
    /// The request lacks this part, such as "the header `x-tenant`".
    #[error("{0} is missing")]
    Missing(String),
    /// The path does not fit this route of the layer. The client gets 500, and the log has an error.
    #[error("the path does not fit {0:?}")]
    Route(String),
    /// The key has no characters.
    #[error("the key is empty")]
    Empty,
    /// The key has more bytes than allowed, or its name would be too long.
    #[error("the key is too long")]
    TooLong,
    /// The key has a control character, or one that the extractor does not allow.
    #[error("the key has a character that is not allowed")]
    Character,
    /// The key is not UTF-8.
    #[error("the key is not UTF-8")]
    NotText,
    /// The request has more than one key.
    #[error("there is more than one key")]
    Repeated,
}

impl KeyRules {
    /// Creates rules for names that begin with this prefix and a colon.
    ///
    /// The prefix has 1 to 128 printable ASCII characters without a space.
    ///
    /// Prefixes stay distinct even if one begins with another: `a` and `a:b` have no name in common.
    ///
    /// # Errors
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
        Ok(KeyRules { prefix })
    }

    /// The name of the lease for this key.
    ///
    /// # Errors
    /// [`InvalidKey`] if the key breaks the rules.
    pub fn name(&self, key: &str) -> Result<String, InvalidKey> {
        if key.is_empty() {
            return Err(InvalidKey::Empty);
        }
        if key.len() > KEY_BYTES_MAX {
            return Err(InvalidKey::TooLong);
        }
        if key.chars().any(char::is_control) {
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
        KeyRules { prefix: PREFIX_DEFAULT.to_owned() }
    }
}
