//! `doctor` as a user with the documented role.

use mongo_lease_security::ROOT_PASSWORD;
use mongo_lease_testbed::Server;
use mongodb::bson::{Document, doc};
use mongodb::{Client, Database};
use serde_json::{Value, json};
use tokio::sync::{Mutex, MutexGuard};

use super::super::tool::{Ran, migrate, run, secured_server, tool};
use super::check;

const PAGE: &str = include_str!("../../../../docs/operators.md");
const PASSWORD: &str = "service-battery-staple";

/// The document in the page's `db.runCommand(…)`, which is JSON.
fn role_in_page() -> Document {
    let start = PAGE.find("db.runCommand({").expect("a command") + "db.runCommand(".len();
    let length = PAGE[start..].find("\n})").expect("its end") + "\n}".len();
    serde_json::from_str(&PAGE[start..start + length]).expect("a document")
}

/// A server, its database `billing` as root sees it, and a user with the page's role. The page names the database and
/// the role, so one test at a time has them.
struct Served {
    server: &'static Server,
    billing: Database,
    _turn: MutexGuard<'static, ()>,
}

async fn served() -> Served {
    static TURN: Mutex<()> = Mutex::const_new(());
    let turn = TURN.lock().await;
    let server = secured_server();
    let root = Client::with_uri_str(server.uri_as("root", ROOT_PASSWORD)).await.unwrap();
    let billing = root.database("billing");
    // The test before has left its own.
    billing.drop().await.unwrap();
    billing.run_command(doc! { "dropAllRolesFromDatabase": 1 }).await.unwrap();
    let of_service = doc! { "usersInfo": "service" };
    let users = server.admin(of_service).await;
    if !users.get_array("users").unwrap().is_empty() {
        server.admin(doc! { "dropUser": "service" }).await;
    }
    let role = role_in_page();
    let name = role.get_str("createRole").unwrap().to_owned();
    billing.run_command(role).await.expect("the role is made");
    let roles = [doc! { "role": name, "db": "billing" }];
    server.admin(doc! { "createUser": "service", "pwd": PASSWORD, "roles": roles.to_vec() }).await;
    Served { server, billing, _turn: turn }
}

/// `doctor` as that user, and its finding about the indexes.
async fn examined(server: &Server) -> (Ran, Value) {
    let mut command = tool(&["--db", "billing", "doctor", "--json"]);
    command.env("MONGODB_URI", server.uri_as("service", PASSWORD));
    let ran = run(command).await;
    let finding = check(&ran.json(), "indexes").clone();
    (ran, finding)
}

#[tokio::test]
async fn the_documented_role_lets_doctor_see_the_indexes() {
    let Served { server, billing, _turn } = served().await;
    migrate(&billing).await;

    let (ran, indexes) = examined(server).await;
    assert_eq!(ran.exit, 0, "{ran:?}");
    let message = "billing.locks has both indexes";
    assert_eq!((&indexes["status"], &indexes["message"]), (&json!("ok"), &json!(message)));
    for other in ["server", "commands", "privileges", "clocks", "permits"] {
        assert_eq!(check(&ran.json(), other)["status"], json!("ok"), "{other}: {ran:?}");
    }

    // Documents of another format are found, too.
    let locks = billing.collection::<Document>("locks");
    locks.insert_one(doc! { "name": "a", "grant": { "allowanceMs": 1 } }).await.unwrap();
    let (ran, indexes) = examined(server).await;
    assert_eq!((ran.exit, &indexes["status"]), (1, &json!("problem")), "{ran:?}");
    assert!(indexes["message"].as_str().unwrap().contains("an unsupported format"), "{ran:?}");
}

#[tokio::test]
async fn the_documented_role_lets_doctor_see_what_is_wrong() {
    let Served { server, billing, _turn } = served().await;
    let of_index = doc! { "key": { "expiresAt": 1 }, "name": "e", "expireAfterSeconds": 9 };
    for (set_up, problem) in [
        (None, "to do: create the unique index `name_1` on `name`"),
        (Some(doc! { "createIndexes": "locks", "indexes": [of_index] }), "expireAfterSeconds"),
        (Some(doc! { "create": "locks", "viewOn": "others" }), "`locks` is a view"),
    ] {
        billing.collection::<Document>("locks").drop().await.unwrap();
        if let Some(command) = set_up {
            billing.run_command(command).await.expect("the collection is made");
        }
        let (ran, indexes) = examined(server).await;
        assert_eq!((ran.exit, &indexes["status"]), (1, &json!("problem")), "{ran:?}");
        assert!(indexes["message"].as_str().unwrap().contains(problem), "{problem}: {ran:?}");
        assert!(indexes["advice"].as_str().unwrap().contains("mongo-lease-migrate up"), "{ran:?}");
    }
    // Duplicate names are counted without the privilege to list collections.
    billing.collection::<Document>("locks").drop().await.unwrap();
    let locks = billing.collection::<Document>("locks");
    locks.insert_many([doc! { "name": "twice" }, doc! { "name": "twice" }]).await.unwrap();
    let (ran, indexes) = examined(server).await;
    assert!(indexes["message"].as_str().unwrap().contains("1 name has more than one"), "{ran:?}");
}

#[tokio::test]
async fn without_the_privilege_doctor_says_that_it_cannot_look() {
    let Served { server, billing, _turn } = served().await;
    migrate(&billing).await;
    let resource = doc! { "db": "billing", "collection": "locks" };
    let privilege = doc! { "resource": resource, "actions": ["listIndexes"] };
    let name = role_in_page().get_str("createRole").unwrap().to_owned();
    let revoke = doc! { "revokePrivilegesFromRole": name, "privileges": [privilege] };
    billing.run_command(revoke).await.unwrap();

    let (ran, indexes) = examined(server).await;
    let message = "cannot be checked: the user lacks the privilege `listIndexes` on billing.locks";
    assert_eq!((ran.exit, &indexes["status"]), (0, &json!("note")), "{ran:?}");
    assert!(indexes["message"].as_str().unwrap().starts_with(message), "{ran:?}");
}
