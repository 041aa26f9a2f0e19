//! Checks the names of leases, their values, and the labels of their owners.

use std::fmt;

/// The maximum length of a name, value or owner's label, in bytes of UTF-8.
pub const TEXT_BYTES_MAX: usize = 512;

/// A defect of a name or a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TextDefect {
    /// It has no characters.
    Empty,
    /// It has this many bytes, more than [`TEXT_BYTES_MAX`].
    TooLong(usize),
    /// It has a NUL character, at which many programs end a string.
    Nul,
}

impl fmt::Display for TextDefect {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TextDefect::Empty => formatter.write_str("it is empty"),
            TextDefect::TooLong(bytes) => {
                write!(formatter, "it has {bytes} bytes, and the maximum is {TEXT_BYTES_MAX}")
            }
            TextDefect::Nul => formatter.write_str("it contains a NUL character"),
        }
    }
}

/// Checks a name or a value: 1 to 512 bytes of UTF-8 without NUL.
pub fn check_text(text: &str) -> Result<(), TextDefect> {
    if text.is_empty() {
        return Err(TextDefect::Empty);
    }
    check_label(text)
}

/// Checks a text that may be empty: at most 512 bytes of UTF-8 without NUL.
pub fn check_label(text: &str) -> Result<(), TextDefect> {
    if text.len() > TEXT_BYTES_MAX {
        return Err(TextDefect::TooLong(text.len()));
    }
    if text.contains('\0') {
        return Err(TextDefect::Nul);
    }
    Ok(())
}
