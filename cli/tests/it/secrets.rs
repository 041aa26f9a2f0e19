//! A password is never printed, and the command does not get it.

use super::tool::{Ran, run, tool};

const PASSWORD: &str = "s3cr3t-word";

/// Asserts that no output contains the password, encoded or decoded.
fn kept(ran: &Ran) {
    let all = format!("{}{}", ran.data, ran.talk);
    for form in [PASSWORD, "s3cr3t", "s%33cr3t"] {
        assert!(!all.contains(form), "{ran:?}");
    }
}

#[tokio::test]
async fn the_help_does_not_show_the_environment() {
    for arguments in [&["--help"][..], &["-h"], &["run", "--help"], &["help", "ls"], &["--oops"]] {
        let mut command = tool(arguments);
        command.env("MONGODB_URI", format!("mongodb://app:{PASSWORD}@localhost/app"));
        kept(&run(command).await);
    }
}

#[tokio::test]
async fn no_connection_string_is_so_wrong_that_it_is_shown() {
    for uri in [
        format!("mongodb://app:{PASSWORD}@127.0.0.1:1/app"),
        format!("mongodb://app:{PASSWORD}@127.0.0.1:port/app"),
        format!("mongodb://app:{PASSWORD}/app"),
        format!("mongodb://app:a@{PASSWORD}@localhost/app"),
        "mongodb://app:s%33cr3t-word@localhost:1/app?x=y".to_owned(),
        format!("mongodb://app:{PASSWORD}@localhost:1/app?tls=perhaps"),
        format!("mongodb+srv://app:{PASSWORD}@nowhere.invalid/app"),
        format!("app:{PASSWORD}@localhost"),
    ] {
        for task in [
            &["ls", "--json"][..],
            &["run", "a", "--", "true"],
            &["acquire", "a"],
            &["watch"],
            &["doctor"],
        ] {
            let mut command = tool(task);
            // Options behind the command's `--` would be the command's.
            command.env("MONGODB_URI", &uri);
            let mut with_timeout = tool(&["--timeout", "300ms"]);
            with_timeout.args(task).env("MONGODB_URI", &uri);
            let ran = run(with_timeout).await;
            assert!(ran.exit == 64 || ran.exit == 69, "{uri}: {ran:?}");
            kept(&ran);
        }
        // In a wrong place.
        for arguments in [&["ls", "--url", &uri][..], &[&uri], &["ls", "--timeout", &uri]] {
            let ran = run(tool(arguments)).await;
            assert_eq!(ran.exit, 64, "{arguments:?}: {ran:?}");
            kept(&ran);
        }
    }
}

#[tokio::test]
async fn an_address_of_a_cluster_in_the_name_service_is_looked_up() {
    let uri = "mongodb+srv://app:s3cr3t-word@nowhere.invalid/app";
    let ran = run(tool(&["ls", "--timeout", "2s", "--uri", uri])).await;
    assert_eq!(ran.exit, 69, "{ran:?}");
    // The output does not say that this binary lacks the feature.
    assert!(!ran.talk.contains("feature"), "{ran:?}");
    kept(&ran);
}
