//! Foreign texts for people: names of owners come from any program that can write to the collection.

/// The text without characters that command a terminal, or change the order or the look of others: each is escaped.
pub fn printable(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for character in text.chars() {
        match is_printable(character) {
            true => shown.push(character),
            false => shown.extend(character.escape_default()),
        }
    }
    shown
}

/// A combining character by itself is escaped too: the debug form of a character decides.
fn is_printable(character: char) -> bool {
    matches!(character, '"' | '\'' | '\\') || character.escape_debug().len() == 1
}

#[cfg(test)]
mod tests {
    use super::printable;

    #[test]
    fn what_commands_a_terminal_or_turns_the_text_is_escaped() {
        for text in ["worker@host:12", "a \"b\" c\\d 'e'", "naïve 日本", ""] {
            assert_eq!(printable(text), text);
        }
        for (text, shown) in [
            ("a\u{1b}[2Jb", "a\\u{1b}[2Jb"),
            ("a\nb\r\tc\0", "a\\nb\\r\\tc\\u{0}"),
            ("a\u{202e}b\u{2066}c", "a\\u{202e}b\\u{2066}c"),
            ("\u{200b}\u{feff}\u{7f}\u{85}\u{2028}", "\\u{200b}\\u{feff}\\u{7f}\\u{85}\\u{2028}"),
        ] {
            assert_eq!(printable(text), shown);
        }
    }
}
