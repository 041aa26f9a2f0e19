//! Invalid command lines, and databases that are out of reach or refuse.

use std::net::TcpListener;
use std::time::{Duration, Instant};

use mongo_lease_testbed::Server;
use mongodb::bson::doc;

use super::{run, tool};

/// Longer than anything here takes, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

#[test]
fn a_command_line_that_makes_no_sense_is_a_usage_error() {
    for arguments in [
        &["--unknown"][..],
        &["sideways"],
        &["up", "--db", "app"],
        &["up", "--uri", "mongodb://localhost:1"],
        &["print"],
        &["print", "--db", "a/b"],
        &["print", "--db", "a", "--collection", "a$b"],
        &["print", "--db", "a", "--collection", "a\nb"],
        &["check", "--uri", "localhost", "--db", "app"],
        &["check", "--timeout", "soon"],
    ] {
        let ran = run(tool(arguments));
        assert_eq!((ran.exit, ran.data.as_str()), (2, ""), "{arguments:?}: {ran:?}");
        assert!(ran.talk.contains("error: "), "{arguments:?}: {ran:?}");
    }
}

#[test]
fn the_help_tells_the_exit_codes() {
    let ran = run(tool(&["--help"]));
    assert_eq!(ran.exit, 0);
    for line in ["0  done", "1  drift", "2  usage", "3  the database", "print", "--timeout"] {
        assert!(ran.data.contains(line), "{line}: {ran:?}");
    }
    assert_eq!(run(tool(&["--version"])).exit, 0);
}

#[test]
fn a_database_that_is_not_there_is_given_up_in_bounded_time() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let uri = format!("mongodb://{address}/app");
    let arguments = ["check", "--json", "--timeout", "1s", "--uri", &uri];
    let is_given_up = || {
        let started = Instant::now();
        let ran = run(tool(&arguments));
        assert_eq!(ran.exit, 3, "{ran:?}");
        let named = format!("error: the database is out of reach: cannot connect to {address} (");
        assert!(ran.talk.starts_with(&named), "{ran:?}");
        assert!(!ran.talk.contains("Topology") && ran.talk.lines().count() == 1, "{ran:?}");
        assert_eq!(ran.json()["status"].as_str(), Some("failed"));
        assert!(started.elapsed() < PATIENCE, "{:?}", started.elapsed());
    };
    // It accepts connections, and never answers.
    is_given_up();
    drop(listener);
    is_given_up();
}

#[tokio::test]
async fn refusals_are_told_without_the_password() {
    let server = Server::builder().standalone().argument("--auth").start();
    let user = doc! { "createUser": "root", "pwd": "root-word", "roles": ["root"] };
    server.admin(user).await;
    let address = server.mongod().address();
    let uri = |credentials: &str| format!("mongodb://{credentials}@{address}/app?authSource=admin");
    let as_root = uri("root:root-word");
    let client = mongodb::Client::with_uri_str(&as_root).await.unwrap();
    let user = doc! { "createUser": "reader", "pwd": "read-word",
    "roles": [{ "role": "read", "db": "app" }] };
    client.database("admin").run_command(user).await.unwrap();

    let wrong = run(tool(&["check", "--uri", &uri("root:wrong-word")]));
    assert_eq!(wrong.exit, 3, "{wrong:?}");
    let refused = "error: the database refuses the login: SCRAM failure: Authentication failed.\n";
    assert_eq!(wrong.talk, refused);

    let reader = run(tool(&["up", "--uri", &uri("reader:read-word")]));
    assert_eq!(reader.exit, 3, "{reader:?}");
    assert!(reader.talk.contains("lacks the privilege `createIndex` on app.locks"), "{reader:?}");

    let anonymous = run(tool(&["up", "--uri", &format!("mongodb://{address}/app")]));
    assert_eq!(anonymous.exit, 3, "{anonymous:?}");
    assert!(anonymous.talk.contains("lacks the privilege `listCollections`"), "{anonymous:?}");

    let done = run(tool(&["up", "--uri", &as_root]));
    assert_eq!(done.exit, 0, "{done:?}");
    for ran in [wrong, reader, anonymous, done] {
        let all = format!("{}{}", ran.data, ran.talk);
        for word in ["root-word", "wrong-word", "read-word"] {
            assert!(!all.contains(word), "{ran:?}");
        }
    }
}
