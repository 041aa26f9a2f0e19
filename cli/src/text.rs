//! Makes foreign texts, durations and dates printable.

use std::time::Duration;

pub(crate) use mongo_lease_migrations::text::moment;
use unicode_properties::{GeneralCategory, UnicodeGeneralCategory};

/// Puts a foreign text on one line, without control characters for a terminal. Names, owners and values come from any
/// program that can write to the collection.
pub(crate) fn printable(text: &str) -> String {
    escape(text, |character| !character.is_control() && !is_invisible(character))
}

/// Like [`printable`], but keeps line breaks.
pub(crate) fn printable_lines(text: &str) -> String {
    let is_fine =
        |character: char| character == '\n' || !character.is_control() && !is_invisible(character);
    escape(text, is_fine)
}

/// The text with at most so many characters. An ellipsis is in the place of the rest.
pub(crate) fn short(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    text.chars().take(most.saturating_sub(1)).chain(['…']).collect()
}

fn escape(text: &str, is_fine: impl Fn(char) -> bool) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        if is_fine(character) {
            escaped.push(character);
        } else {
            escaped.extend(character.escape_default());
        }
    }
    escaped
}

/// Whether a character changes the order or the look of others. A reader would see another text. These are Unicode's
/// category *Format*, the separators of lines and paragraphs, and one reserved character among the direction marks.
fn is_invisible(character: char) -> bool {
    matches!(
        character.general_category(),
        GeneralCategory::Format
            | GeneralCategory::LineSeparator
            | GeneralCategory::ParagraphSeparator
    ) || character == '\u{2065}'
}

/// A duration for people, in its two largest units. Tenths are shown if it is in seconds only.
pub(crate) fn span(duration: Duration) -> String {
    if duration < Duration::from_secs(10) {
        let tenths = duration.as_millis() / 100;
        return format!("{}.{}s", tenths / 10, tenths % 10);
    }
    let whole = humantime::format_duration(Duration::from_secs(duration.as_secs())).to_string();
    whole.split_whitespace().take(2).collect::<Vec<_>>().join(" ")
}

/// The time from `earlier` to `later`; zero if `later` is not after `earlier`.
pub(crate) fn between(earlier: i64, later: i64) -> Duration {
    Duration::from_millis(u64::try_from(later.saturating_sub(earlier)).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{printable, printable_lines, short, span};

    #[test]
    fn what_a_terminal_obeys_is_escaped() {
        assert_eq!(printable("a\x1b[31mb\n\u{9b}c"), "a\\u{1b}[31mb\\n\\u{9b}c");
        assert_eq!(printable("a\u{202e}b\u{200b}"), "a\\u{202e}b\\u{200b}");
        assert_eq!(printable("naïve “ünï” 名"), "naïve “ünï” 名");
        assert_eq!(printable_lines("a\nb\rc"), "a\nb\\rc");
    }

    #[test]
    fn what_nobody_sees_is_escaped() {
        let before: Vec<char> = ('\u{200b}'..='\u{200f}')
            .chain('\u{2028}'..='\u{202e}')
            .chain('\u{2060}'..='\u{2069}')
            .chain(['\u{feff}'])
            .collect();
        // The Arabic letter mark, the soft hyphen, and tags.
        let tags = '\u{e0020}'..='\u{e007f}';
        let others = ['\u{61c}', '\u{ad}', '\u{180e}', '\u{e0001}', '\u{fffb}'];
        for character in before.into_iter().chain(others).chain(tags) {
            let code = u32::from(character);
            assert_eq!(printable(&format!("a{character}b")), format!("a\\u{{{code:x}}}b"));
        }
    }

    #[test]
    fn a_long_text_is_cut_between_characters() {
        assert_eq!(short("名名名", 3), "名名名");
        assert_eq!(short("名名名名", 3), "名名…");
    }

    #[test]
    fn a_duration_has_two_units() {
        assert_eq!(span(Duration::ZERO), "0.0s");
        assert_eq!(span(Duration::from_millis(9_960)), "9.9s");
        assert_eq!(span(Duration::from_millis(27_900)), "27s");
        assert_eq!(span(Duration::from_secs(3_723)), "1h 2m");
        assert_eq!(span(Duration::from_secs(86_400 * 3 + 5)), "3days 5s");
    }
}
