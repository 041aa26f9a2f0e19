//! Patterns over names, without a server's regular expressions.

use crate::rules::pattern::NamePattern;

/// Whether this is one of the names that the pattern shows.
pub fn matches(pattern: &NamePattern, name: &str) -> bool {
    match pattern {
        NamePattern::All => true,
        NamePattern::Prefix(prefix) => name.starts_with(prefix),
        NamePattern::Glob(glob) => glob_matches(&parsed(glob), name),
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Any,
    One,
    Literal(char),
}

fn parsed(glob: &str) -> Vec<Part> {
    let mut parts = Vec::new();
    let mut characters = glob.chars();
    while let Some(character) = characters.next() {
        parts.push(match character {
            '*' => Part::Any,
            '?' => Part::One,
            '\\' => Part::Literal(characters.next().unwrap_or('\\')),
            other => Part::Literal(other),
        });
    }
    parts
}

/// Whether the name matches as a whole. The last star alone can take more characters: an earlier one gains nothing by
/// it. So the time is at most the product of both lengths.
fn glob_matches(parts: &[Part], name: &str) -> bool {
    let name: Vec<char> = name.chars().collect();
    let (mut part, mut at) = (0, 0);
    // The last star, and the first character that it has not taken.
    let mut star: Option<(usize, usize)> = None;
    while at < name.len() {
        match parts.get(part) {
            Some(Part::Any) => {
                star = Some((part, at));
                part += 1;
                continue;
            }
            Some(Part::One) => {
                part += 1;
                at += 1;
                continue;
            }
            Some(Part::Literal(character)) if *character == name[at] => {
                part += 1;
                at += 1;
                continue;
            }
            Some(Part::Literal(_)) | None => {}
        }
        let Some((place, taken)) = star else {
            return false;
        };
        star = Some((place, taken + 1));
        (part, at) = (place + 1, taken + 1);
    }
    parts[part..].iter().all(|part| *part == Part::Any)
}

#[cfg(test)]
mod tests {
    use super::matches;
    use crate::rules::pattern::NamePattern;

    #[test]
    fn globs_match_whole_names_as_their_regular_expressions_do() {
        let fits = |glob: &str, name: &str| matches(&NamePattern::Glob(glob.to_owned()), name);
        for (glob, name) in [
            ("", ""),
            ("*", ""),
            ("job:*", "job:"),
            ("a*b*c", "a-b-b-c"),
            ("*?*", "x"),
            ("a\\*b", "a*b"),
            ("tail\\", "tail\\"),
            ("?", "ü"),
            ("*\n*", "a\nb"),
            ("*ab", "aab"),
        ] {
            assert!(fits(glob, name), "{glob:?} {name:?}");
        }
        for (glob, name) in [
            ("", "a"),
            ("?", ""),
            ("job:*", "a job:1"),
            ("a*b", "a-b-c"),
            ("a\\*b", "a-b"),
            ("A", "a"),
            ("*ab", "abx"),
        ] {
            assert!(!fits(glob, name), "{glob:?} {name:?}");
        }
        // The time does not grow without bound.
        assert!(!fits(&"*a".repeat(256), &"a".repeat(255)));
    }
}
