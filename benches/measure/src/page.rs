//! The page of the documentation that has the tables.

use std::fs;
use std::path::Path;

use crate::Outcome;

const BEGIN: &str = "<!-- made by the program: begin -->";
const END: &str = "<!-- made by the program: end -->";

/// Replaces what stands between the page's markers by what `newer` makes of it. A page that does not exist is made.
///
/// # Errors
///
/// When the file cannot be read or written, or has no markers.
pub fn rewrite(page: &Path, newer: impl FnOnce(&str) -> String) -> Outcome<()> {
    let text = if page.exists() { fs::read_to_string(page)? } else { format!("{BEGIN}\n{END}\n") };
    let written = between_markers(&text, newer);
    let written = written.ok_or_else(|| format!("{} has no markers", page.display()))?;
    Ok(fs::write(page, written)?)
}

/// The text with what `newer` makes of what stands between its markers. None where it has no markers.
#[must_use]
pub fn between_markers(text: &str, newer: impl FnOnce(&str) -> String) -> Option<String> {
    let (before, rest) = text.split_once(BEGIN)?;
    let (older, after) = rest.split_once(END)?;
    Some(format!("{before}{BEGIN}\n{}{END}{after}", newer(older)))
}

#[cfg(test)]
mod tests {
    use super::{BEGIN, END, between_markers};

    #[test]
    fn only_the_text_between_the_markers_is_replaced() {
        let page = |table: &str| format!("before\n{BEGIN}\n{table}{END}\nafter");
        let newer = |older: &str| older.trim_start().replace("old", "new");
        assert_eq!(between_markers(&page("| old |\n"), newer), Some(page("| new |\n")));
        assert_eq!(between_markers("no markers", newer), None);
    }
}
