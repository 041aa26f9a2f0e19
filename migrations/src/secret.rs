//! Hides secrets in connection strings and error messages.

use std::cmp::Reverse;
use std::convert::Infallible;
use std::str::FromStr;

use percent_encoding::percent_decode_str;

/// The replacement for a secret.
const VEIL: &str = "***";

/// A connection string. It can be used, but neither displayed nor debug-printed.
#[derive(Clone)]
pub struct Uri(String);

impl FromStr for Uri {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Uri, Infallible> {
        Ok(Uri::new(text))
    }
}

impl Uri {
    /// Wraps a text that is meant as a connection string. Checks nothing.
    #[must_use]
    pub fn new(text: &str) -> Uri {
        Uri(text.to_owned())
    }

    /// The connection string, for the driver.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// Hides the secrets of this connection string in a text. The driver's errors may quote it.
    #[must_use]
    pub fn veil(&self, text: &str) -> String {
        veil(text, &self.0)
    }
}

/// Hides secrets in a text. They come from a connection string, or from a text that may have been meant as one.
///
/// A short secret, such as a piece of a password with a bare `@`, also occurs in words by chance, and there it stays.
/// Where it stands by itself, all words of its kind are hidden: otherwise the gap in a known sentence would tell it.
#[must_use]
pub fn veil(text: &str, uri: &str) -> String {
    let mut secrets: Vec<String> = secrets_of(uri)
        .flat_map(|secret| [decoded(secret), secret.to_owned()])
        // As a message shows a text in quotes.
        .flat_map(|secret| [secret.escape_debug().to_string(), secret])
        .filter(|secret| !secret.is_empty())
        .collect();
    // The longest first, because one may be a part of another.
    secrets.sort_by_key(|secret| Reverse(secret.len()));
    let mut veiled = text.to_owned();
    for secret in secrets {
        if secret.chars().count() >= SHORT {
            veiled = veiled.replace(&secret, VEIL);
        } else if stands_in(&secret, &veiled) {
            veiled = veil_like(&secret, &veiled);
        }
    }
    veiled
}

/// A secret with fewer characters occurs in other words by chance.
const SHORT: usize = 4;

/// Whether a secret occurs in a text, and not only as a part of longer words.
fn stands_in(secret: &str, text: &str) -> bool {
    let begins_word = secret.starts_with(char::is_alphanumeric);
    let ends_word = secret.ends_with(char::is_alphanumeric);
    text.char_indices().any(|(at, _)| {
        let Some(behind) = text[at..].strip_prefix(secret) else { return false };
        let is_cut_before = begins_word && text[..at].ends_with(char::is_alphanumeric);
        let is_cut_behind = ends_word && behind.starts_with(char::is_alphanumeric);
        !is_cut_before && !is_cut_behind
    })
}

/// Hides all short words if the secret has letters or digits, and all other marks if it has such.
fn veil_like(secret: &str, text: &str) -> String {
    let has = |wanted: Kind| secret.chars().any(|it| kind(it) == wanted);
    let (has_words, has_marks) = (has(Kind::Word), has(Kind::Mark));
    let mut veiled = String::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let of_one_kind = |it: char| kind(it) == kind(first);
        let end = rest.find(|it| !of_one_kind(it)).unwrap_or(rest.len());
        let (run, behind) = rest.split_at(end);
        let is_hidden = match kind(first) {
            Kind::Word => has_words && run.chars().count() < SHORT,
            Kind::Mark => has_marks,
            Kind::Space => false,
        };
        match is_hidden {
            // Two veils side by side are one.
            true if veiled.ends_with(VEIL) => {}
            true => veiled.push_str(VEIL),
            false => veiled.push_str(run),
        }
        rest = behind;
    }
    veiled
}

/// The kinds of characters that a text consists of.
#[derive(PartialEq)]
enum Kind {
    Word,
    Space,
    Mark,
}

fn kind(character: char) -> Kind {
    match character {
        it if it.is_alphanumeric() => Kind::Word,
        it if it.is_whitespace() => Kind::Space,
        _ => Kind::Mark,
    }
}

/// The password, whole and in pieces, and the options that contain secrets. An `@` or `:` in a password should be
/// encoded, but often is not. If the `@` after the password is missing, the password is in the port's place.
fn secrets_of(uri: &str) -> impl Iterator<Item = &str> {
    let (_scheme, rest) = uri.split_once("://").unwrap_or(("", uri));
    let (credentials, hosts) = rest.rsplit_once('@').unwrap_or(("", rest));
    let password = credentials.split_once(':').map_or("", |(_user, password)| password);
    let credentials = if password.is_empty() { "" } else { credentials };
    let pieces = password.split(['@', '/', ':', '?', '#']);
    let hosts = hosts.split(['/', '?']).next().unwrap_or_default();
    let ports = hosts.split(',').filter_map(|host| Some(host.rsplit_once(':')?.1));
    let no_ports = ports.filter(|port| !port.bytes().all(|byte| byte.is_ascii_digit()));
    let options = rest.split_once('?').map_or("", |(_, options)| options);
    let secret_options = options.split('&').filter_map(|option| {
        let (name, value) = option.split_once('=')?;
        let name = name.to_ascii_lowercase();
        (name.contains("password") || name.contains("properties")).then_some(value)
    });
    [credentials, password].into_iter().chain(pieces).chain(no_ports).chain(secret_options)
}

/// Removes the percent-encoding, as the driver does.
fn decoded(text: &str) -> String {
    percent_decode_str(text).decode_utf8_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::{VEIL, stands_in, veil};

    #[test]
    fn a_password_is_veiled_as_it_is_written_and_as_it_is_meant() {
        let uri = "mongodb://app:s3cr%40t-word@db.example/?tls=true";
        assert_eq!(veil("no s3cr@t-word here", uri), "no *** here");
        assert_eq!(veil("no s3cr%40t-word here", uri), "no *** here");
        assert_eq!(veil(uri, uri), "mongodb://***@db.example/?tls=true");
    }

    #[test]
    fn a_percent_sign_before_no_two_digits_is_one() {
        let uri = "mongodb://app:10%+five%40word@db.example";
        assert_eq!(veil("no 10%+five@word here", uri), "no *** here");
    }

    #[test]
    fn a_password_with_bare_separators_is_veiled_in_pieces() {
        let uri = "mongodb://app:first@second/third@db.example";
        let veiled = veil("first, second, third", uri);
        assert_eq!(veiled, "***, ***, ***");
    }

    #[test]
    fn a_password_without_an_at_sign_is_veiled() {
        assert_eq!(veil("bad port pass-word", "mongodb://app:pass-word/db"), "bad port ***");
        assert_eq!(veil("db:27017, or app", "mongodb://app@db:27017"), "db:27017, or app");
    }

    /// The driver's words about a password that is not encoded.
    const NOT_ENCODED: &str = "password must be URL encoded";

    #[test]
    fn a_short_secret_leaves_the_words_that_contain_it() {
        for uri in
            ["mongodb://app:en@db.example", "mongodb://app:a@b@db.example", "mongodb://app:s/o@db"]
        {
            assert_eq!(veil(NOT_ENCODED, uri), NOT_ENCODED, "{uri}");
        }
    }

    #[test]
    fn a_short_secret_is_veiled_wherever_it_stands_by_itself() {
        let uri = "mongodb://app:ab@db.example";
        for (text, veiled) in [
            ("the port must be a number, got ab", "*** port must *** *** number, *** ***"),
            ("ab", "***"),
            ("\"ab\" is odd", "\"***\" *** ***"),
            ("mongodb://app:ab@host.example/", "mongodb://***@host.example/"),
        ] {
            assert_eq!(veil(text, uri), veiled);
        }
        // With characters that are neither letters nor digits.
        assert_eq!(veil("got a-b: wrong", "mongodb://app:a-b@db.example"), "*** *** wrong");
        assert_eq!(veil("got !! here", "mongodb://app:!!@db.example"), "got *** here");
    }

    /// The veiled text shows that one of its short words is the secret, and not which one.
    #[test]
    fn a_veil_does_not_tell_which_word_is_the_secret() {
        let veiled = ["be", "URL"].map(|it| veil(NOT_ENCODED, &format!("mongodb://app:{it}@db")));
        assert_eq!(veiled, ["password must *** *** encoded", "password must *** *** encoded"]);
        // A piece of a password is a number of the address.
        let uri = "mongodb://app:secret@1@127.0.0.1:27017";
        let veiled = veil("cannot connect to 127.0.0.1:27017", uri);
        assert_eq!(veiled, "cannot connect *** ***.***.***.***:27017");
    }

    #[test]
    fn a_secret_is_veiled_in_a_text_that_quotes_it_with_escapes() {
        let uri = "mongodb://app:pass\"word@db.example";
        assert_eq!(veil(&format!("{uri:?} is odd"), uri), "\"mongodb://***@db.example\" is odd");
    }

    #[test]
    fn no_short_secret_stands_in_a_veiled_text() {
        let characters = ["a", "Z", "é", "7", "!", "*", "\"", "."];
        let texts =
            ["{}", "got {}", "{} here", "a {} b", "\"{}\"", "app:{}@db", "({}).", "7{}7 {}"];
        for (first, second, third) in characters.iter().flat_map(|first| {
            let rest = characters.iter().chain([&""]);
            rest.clone().flat_map(move |second| rest.clone().map(move |it| (first, second, it)))
        }) {
            let secret = format!("{first}{second}{third}");
            for text in texts {
                let veiled =
                    veil(&text.replace("{}", &secret), &format!("mongodb://app:{secret}@d"));
                let left = veiled.replace(VEIL, " ");
                assert!(!stands_in(&secret, &left), "{secret} in {text}: {veiled}");
            }
        }
    }

    #[test]
    fn secrets_among_the_options_are_veiled() {
        let uri = "mongodb://db/?tlsCertificateKeyFilePassword=key-word\
                   &authMechanismProperties=AWS_SESSION_TOKEN:token-word";
        let veiled = veil("key-word and AWS_SESSION_TOKEN:token-word", uri);
        assert_eq!(veiled, "*** and ***");
    }

    #[test]
    fn a_text_without_a_scheme_may_be_a_connection_string_as_well() {
        assert_eq!(veil("what is app:pass-word@db?", "app:pass-word@db"), "what is ***@db?");
    }
}
