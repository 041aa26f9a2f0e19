//! Hides secrets in connection strings and error messages.

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
#[must_use]
pub fn veil(text: &str, uri: &str) -> String {
    let mut secrets: Vec<String> = secrets_of(uri)
        .flat_map(|secret| [decoded(secret), secret.to_owned()])
        .filter(|secret| !secret.is_empty())
        .collect();
    // The longest first, because one may be a part of another.
    secrets.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
    let mut veiled = text.to_owned();
    for secret in secrets {
        // A short secret occurs in many words by chance. Then nothing of the text can be shown.
        if secret.chars().count() < SHORT && veiled.contains(&secret) {
            return VEIL.to_owned();
        }
        veiled = veiled.replace(&secret, VEIL);
    }
    veiled
}

/// A secret with fewer characters occurs by chance.
const SHORT: usize = 4;

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
    use super::veil;

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

    #[test]
    fn a_short_password_takes_the_whole_text_with_it() {
        assert_eq!(veil("an abacus", "mongodb://app:ab@db.example"), "***");
        assert_eq!(veil("nothing of it", "mongodb://app:xyz@db.example"), "nothing of it");
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
