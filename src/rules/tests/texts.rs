use crate::rules::name::{TextDefect, check_label, check_text};
use crate::rules::pattern::{glob_regex, prefix_regex};
use crate::rules::token::Token;

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

#[test]
fn tokens_keep_their_order_as_numbers_and_as_text() {
    let token = Token::from_parts(7, 9);
    assert_eq!((token.seconds(), token.ordinal()), (7, 9));
    assert!(token < Token::from_parts(7, 10));
    assert!(Token::from_parts(7, u32::MAX) < Token::from_parts(8, 0));
    assert_eq!(token.to_string(), token.as_u64().to_string());
    assert_eq!(token.to_string().parse(), Ok(token));
    for bad in ["", "+1", "-1", "1.0", " 1", "18446744073709551616"] {
        assert!(bad.parse::<Token>().is_err(), "{bad:?}");
    }
}
