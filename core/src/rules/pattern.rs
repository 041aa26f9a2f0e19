//! Patterns over names: a prefix, or a glob.

/// How many leases one command of a listing returns.
pub const PAGE: i64 = 100;
/// The longest pattern: a name has 512 bytes, and each of them may be escaped.
pub const PATTERN_BYTES_MAX: usize = 1024;

/// Which names a listing shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NamePattern {
    /// Every name.
    All,
    /// Names that begin with this text.
    Prefix(String),
    /// Names that match this pattern as a whole.
    Glob(String),
}

impl NamePattern {
    /// The text of the pattern, if there is one.
    pub fn text(&self) -> Option<&str> {
        match self {
            NamePattern::All => None,
            NamePattern::Prefix(text) | NamePattern::Glob(text) => Some(text),
        }
    }

    /// The regular expression for these names; `None` for every name.
    pub fn regex(&self) -> Option<String> {
        match self {
            NamePattern::All => None,
            NamePattern::Prefix(prefix) => Some(prefix_regex(prefix)),
            NamePattern::Glob(glob) => Some(glob_regex(glob)),
        }
    }
}

/// The regular expression for names that begin with `prefix`.
pub fn prefix_regex(prefix: &str) -> String {
    let mut regex = String::from("^");
    prefix.chars().for_each(|character| push_literal(&mut regex, character));
    regex
}

/// The regular expression for names that match `glob` as a whole.
///
/// `*` stands for any characters or none, `?` for exactly one, and `\` removes the special meaning of the next
/// character. Every other character stands for itself. A literal beginning lets the server use the index on `name`.
pub fn glob_regex(glob: &str) -> String {
    let mut regex = String::from("^");
    let mut characters = glob.chars();
    let mut after_star = false;
    while let Some(character) = characters.next() {
        // `**` means the same as `*`, and a regular expression would evaluate each star.
        if character == '*' && after_star {
            continue;
        }
        after_star = character == '*';
        match character {
            '*' => regex.push_str(".*"),
            '?' => regex.push('.'),
            '\\' => push_literal(&mut regex, characters.next().unwrap_or('\\')),
            other => push_literal(&mut regex, other),
        }
    }
    // Not `$`, which also matches before a newline at the end.
    regex.push_str("\\z");
    regex
}

/// Appends a character that stands for itself.
fn push_literal(regex: &mut String, character: char) {
    if character.is_ascii_punctuation() {
        regex.push('\\');
    }
    regex.push(character);
}
