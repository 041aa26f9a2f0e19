//! A password is never printed.

use super::{Ran, run, tool};

const PASSWORD: &str = "s3cr3t-word";

/// Asserts that no output contains the password, encoded or decoded.
fn kept(ran: &Ran) {
    let all = format!("{}{}", ran.data, ran.talk);
    for form in [PASSWORD, "s3cr3t", "s%33cr3t"] {
        assert!(!all.contains(form), "{ran:?}");
    }
}

#[test]
fn the_help_does_not_show_the_environment() {
    for arguments in [&["--help"][..], &["-h"], &["up", "--help"], &["help", "check"], &["--oops"]]
    {
        let mut command = tool(arguments);
        command.env("MONGODB_URI", format!("mongodb://app:{PASSWORD}@localhost/app"));
        kept(&run(command));
    }
}

#[test]
fn no_connection_string_is_so_wrong_that_it_is_shown() {
    for uri in [
        format!("mongodb://app:{PASSWORD}@127.0.0.1:1/app"),
        format!("mongodb://app:{PASSWORD}@127.0.0.1:port/app"),
        format!("mongodb://app:{PASSWORD}/app"),
        format!("mongodb://app:{PASSWORD}@/app"),
        format!("mongodb://app:a/{PASSWORD}@localhost/app"),
        format!("mongodb://app:a@{PASSWORD}@localhost/app"),
        format!("mongodb://app:a:{PASSWORD}@localhost/app"),
        format!("mongodb://app:%zz{PASSWORD}@localhost/app"),
        "mongodb://app:s%33cr3t-word@localhost:1/app?x=y".to_owned(),
        format!("mongodb://app:{PASSWORD}@localhost:1/app?tls=perhaps"),
        format!("mongodb://localhost:1/app?tlsCertificateKeyFilePassword={PASSWORD}"),
        format!("mongodb://localhost:1/app?authMechanismProperties=AWS_SESSION_TOKEN:{PASSWORD}"),
        format!("mongodb+srv://app:{PASSWORD}@nowhere.invalid/app"),
        format!("mongodb+srv://app:{PASSWORD}@localhost/app"),
        format!("postgres://app:{PASSWORD}@localhost/app"),
        format!("app:{PASSWORD}@localhost"),
    ] {
        let mut from_environment = tool(&["up", "--timeout", "300ms"]);
        from_environment.env("MONGODB_URI", &uri);
        let ran = run(from_environment);
        assert!(ran.exit == 2 || ran.exit == 3, "{uri}: {ran:?}");
        kept(&ran);
        kept(&run(tool(&["print", "--json", "--uri", &uri])));
        // In a wrong place.
        for arguments in
            [&[uri.as_str()][..], &["up", &uri], &["--url", &uri], &["--timeout", &uri]]
        {
            let ran = run(tool(arguments));
            assert_eq!(ran.exit, 2, "{arguments:?}: {ran:?}");
            kept(&ran);
        }
        let glued = run(tool(&[&format!("--url={uri}")]));
        assert_eq!(glued.exit, 2, "{glued:?}");
        kept(&glued);
    }
}

/// The password is neither shown nor do its short pieces hide what to do.
#[test]
fn a_password_that_is_not_encoded_is_refused_with_the_reason() {
    for password in ["p@ss", "a@b", "en", "b/c"] {
        let mut command = tool(&["up"]);
        command.env("MONGODB_URI", format!("mongodb://app:{password}:@localhost/app"));
        let ran = run(command);
        let reason = "An invalid argument was provided: password must be URL encoded\n";
        assert!(ran.exit == 2 && ran.talk.ends_with(reason), "{password}: {ran:?}");
    }
}
