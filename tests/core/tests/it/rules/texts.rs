use mongo_lease_core::rules::pattern::{NamePattern, glob_regex, prefix_regex};
use mongo_lease_core::rules::{check_label, check_text};

#[test]
fn names_have_1_to_512_bytes_and_no_nul() {
    let refused = |text: &str| check_text(text).unwrap_err();
    assert_eq!(refused(""), "it is empty");
    assert_eq!(check_text(&"a".repeat(512)), Ok(()));
    assert_eq!(refused(&"a".repeat(513)), "it has 513 bytes, and the maximum is 512");
    assert_eq!(check_text(&"é".repeat(256)), Ok(()));
    assert_eq!(refused(&"é".repeat(257)), "it has 514 bytes, and the maximum is 512");
    assert_eq!(refused("a\0b"), "it contains a NUL character");
    for fine in ["$name", "$$NOW", "a.b", "{\"$ne\": 1}", "🔒", " ", "\n"] {
        assert_eq!(check_text(fine), Ok(()), "{fine:?}");
    }
    assert_eq!(check_label(""), Ok(()));
}

#[test]
fn globs_become_anchored_regular_expressions() {
    for (glob, regex) in [
        ("", "^\\z"),
        ("job:*", "^job\\:.*\\z"),
        ("a?c", "^a.c\\z"),
        ("***", "^.*\\z"),
        ("*?*", "^.*..*\\z"),
        ("a.b", "^a\\.b\\z"),
        ("a\\*b", "^a\\*b\\z"),
        ("$x^(y)[z]", "^\\$x\\^\\(y\\)\\[z\\]\\z"),
        ("tail\\", "^tail\\\\\\z"),
        ("ünï", "^ünï\\z"),
    ] {
        assert_eq!(glob_regex(glob), regex, "{glob:?}");
    }
    assert_eq!(prefix_regex("job:*"), "^job\\:\\*");
}

#[test]
fn a_pattern_has_its_text_and_its_regular_expression() {
    let [prefix, glob] = [NamePattern::Prefix("a*".to_owned()), NamePattern::Glob("a*".to_owned())];
    assert_eq!((prefix.text(), prefix.regex()), (Some("a*"), Some("^a\\*".to_owned())));
    assert_eq!((glob.text(), glob.regex()), (Some("a*"), Some("^a.*\\z".to_owned())));
    assert_eq!((NamePattern::All.text(), NamePattern::All.regex()), (None, None));
}
