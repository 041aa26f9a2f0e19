use mongo_lease_core::rules::name::{TextDefect, check_label, check_text};
use mongo_lease_core::rules::pattern::{glob_regex, prefix_regex};

#[test]
fn names_have_1_to_512_bytes_and_no_nul() {
    assert_eq!(check_text(""), Err(TextDefect::Empty));
    assert_eq!(check_text(&"a".repeat(512)), Ok(()));
    assert_eq!(check_text(&"a".repeat(513)), Err(TextDefect::TooLong(513)));
    assert_eq!(check_text(&"é".repeat(256)), Ok(()));
    assert_eq!(check_text(&"é".repeat(257)), Err(TextDefect::TooLong(514)));
    assert_eq!(check_text("a\0b"), Err(TextDefect::Nul));
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
