//! Checks the names of leases, their values, and the labels of their owners.

/// The maximum length of a name, value or owner's label, in bytes of UTF-8.
pub const TEXT_BYTES_MAX: usize = 512;

/// Checks a name or a value: 1 to 512 bytes of UTF-8 without NUL. The error says what is wrong with it.
pub fn check_text(text: &str) -> Result<(), String> {
    if text.is_empty() { Err("it is empty".to_owned()) } else { check_label(text) }
}

/// Checks a text that may be empty: at most 512 bytes of UTF-8 without NUL, at which many programs end a string.
pub fn check_label(text: &str) -> Result<(), String> {
    let bytes = text.len();
    if bytes > TEXT_BYTES_MAX {
        return Err(format!("it has {bytes} bytes, and the maximum is {TEXT_BYTES_MAX}"));
    }
    if text.contains('\0') { Err("it contains a NUL character".to_owned()) } else { Ok(()) }
}
