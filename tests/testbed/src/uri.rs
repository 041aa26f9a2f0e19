//! Connection strings, as texts: the driver reads them, and does not write them.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

/// The characters of a database's name that a URI cannot have as they are.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'_').remove(b'-').remove(b'.').remove(b'~');

/// The same URI with this database as its default one.
///
/// By default, users log in at the default database: where the URI has a user, it goes on to name the former one.
pub(crate) fn with_database(uri: &str, database: &str) -> String {
    let (scheme, rest) = uri.split_once("://").unwrap_or(("mongodb", uri));
    let (hosts, rest) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
    let rest = rest.strip_prefix('/').unwrap_or(rest);
    let (former, options) = rest.split_once('?').unwrap_or((rest, ""));
    let names = options.to_ascii_lowercase();
    // Other mechanisms than passwords have sources of their own.
    let has_password = !names.contains("authmechanism=") || names.contains("authmechanism=scram");
    let mut options = options.to_owned();
    if hosts.contains('@') && has_password && !names.contains("authsource=") {
        let source = if former.is_empty() { "admin" } else { former };
        let separator = if options.is_empty() { "" } else { "&" };
        options.push_str(&format!("{separator}authSource={source}"));
    }
    let question_mark = if options.is_empty() { "" } else { "?" };
    let database = utf8_percent_encode(database, ENCODED);
    format!("{scheme}://{hosts}/{database}{question_mark}{options}")
}

#[cfg(test)]
mod tests {
    use mongodb::options::ClientOptions;

    use super::with_database;

    #[test]
    fn the_database_comes_between_the_hosts_and_the_options() {
        for (uri, expected) in [
            ("mongodb://h:1/?replicaSet=r", "mongodb://h:1/app-1_a?replicaSet=r"),
            ("mongodb://h:1,i:2/?tlsCAFile=%2Ftmp", "mongodb://h:1,i:2/app-1_a?tlsCAFile=%2Ftmp"),
            ("mongodb://h:1/old?w=1", "mongodb://h:1/app-1_a?w=1"),
            ("mongodb://h:1?w=1", "mongodb://h:1/app-1_a?w=1"),
            ("mongodb://h:1", "mongodb://h:1/app-1_a"),
            ("mongodb+srv://h.net/", "mongodb+srv://h.net/app-1_a"),
        ] {
            assert_eq!(with_database(uri, "app-1_a"), expected);
        }
    }

    #[tokio::test]
    async fn the_driver_reads_the_database_and_logs_in_where_it_did() {
        for (uri, source) in [
            ("mongodb://u:p@h:1/", "admin"),
            ("mongodb://u:p@h:1/?w=1", "admin"),
            ("mongodb://u:p@h:1/old", "old"),
            ("mongodb://u:p@h:1/old?authMechanism=SCRAM-SHA-256", "old"),
            ("mongodb://u:p@h:1/old?authSource=there&w=1", "there"),
        ] {
            let read = ClientOptions::parse(with_database(uri, "bücher")).await.unwrap();
            assert_eq!(read.default_database.as_deref(), Some("bücher"), "{uri}");
            assert_eq!(read.credential.unwrap().source.as_deref(), Some(source), "{uri}");
        }
    }
}
