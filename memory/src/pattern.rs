//! Patterns over names, without a server's regular expressions.

use mongo_lease_core::rules::NamePattern;

/// Whether this is one of the names that the pattern shows.
pub(crate) fn matches(pattern: &NamePattern, name: &str) -> bool {
    match pattern {
        NamePattern::All => true,
        NamePattern::Prefix(prefix) => name.starts_with(prefix),
        NamePattern::Glob(glob) => glob_matches(glob, name),
    }
}

/// Whether the name matches as a whole. The time is the product of both lengths.
fn glob_matches(glob: &str, name: &str) -> bool {
    let name: Vec<char> = name.chars().collect();
    // Whether the glob so far matches as many of the first characters.
    let mut matched = vec![false; name.len() + 1];
    matched[0] = true;
    let mut glob = glob.chars();
    while let Some(part) = glob.next() {
        let wanted = match part {
            '*' => {
                (0..name.len()).for_each(|at| matched[at + 1] |= matched[at]);
                continue;
            }
            '?' => None,
            '\\' => Some(glob.next().unwrap_or('\\')),
            other => Some(other),
        };
        for at in (0..name.len()).rev() {
            matched[at + 1] = matched[at] && wanted.is_none_or(|wanted| wanted == name[at]);
        }
        matched[0] = false;
    }
    matched[name.len()]
}

#[cfg(test)]
mod tests {
    use super::matches;
    use mongo_lease_core::rules::NamePattern;

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
