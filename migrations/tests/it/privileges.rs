//! The sufficient role, as the README prints it, over SCRAM and TLS; and the effect of each missing part.

use mongo_lease_security::ROOT_PASSWORD;
use mongo_lease_testbed::Server;
use mongodb::Client;
use mongodb::bson::{Document, doc};

use super::{MAKES_UNIQUE, Ran, create_index, insert, patient, run};

const README: &str = include_str!("../../README.md");
const PASSWORD: &str = "operator-battery-staple";

/// The document in the README's `db.runCommand(…)`, which is JSON.
fn role_in_readme() -> Document {
    let start = README.find("db.runCommand({").expect("a command") + "db.runCommand(".len();
    let length = README[start..].find("\n})").expect("its end") + "\n}".len();
    serde_json::from_str(&README[start..start + length]).expect("a document")
}

/// A server with TLS, and a user with this role in the database that it names.
async fn server_with(role: Document) -> (Server, Client) {
    let server = mongo_lease_security::start();
    let root = Client::with_uri_str(server.uri_as("root", ROOT_PASSWORD)).await.unwrap();
    let name = role.get_str("createRole").unwrap().to_owned();
    root.database("billing").run_command(role).await.expect("the role is made");
    let roles = [doc! { "role": name, "db": "billing" }];
    server.admin(doc! { "createUser": "operator", "pwd": PASSWORD, "roles": roles.to_vec() }).await;
    (server, root)
}

/// The binary, as that user.
fn migrate(server: &Server, arguments: &[&str]) -> Ran {
    let mut command = patient(arguments, &server.uri_as("operator", PASSWORD));
    command.args(["--db", "billing"]);
    let ran = run(command);
    let all = format!("{}{}", ran.data, ran.talk);
    assert!(!all.contains(PASSWORD) && !all.contains("battery"), "{ran:?}");
    ran
}

#[tokio::test]
async fn the_role_in_the_readme_suffices_as_it_is_printed() {
    assert!(README.contains("use billing\n"), "it is not said where");
    let (server, root) = server_with(role_in_readme()).await;
    let billing = root.database("billing");
    // On an empty database.
    let up = migrate(&server, &["up", "--json"]);
    assert_eq!((up.exit, up.json()["status"].as_str()), (0, Some("migrated")), "{up:?}");
    assert_eq!(migrate(&server, &["check"]).exit, 0);
    // Where indexes have to be changed, and duplicate names prevent that.
    billing.drop().await.unwrap();
    create_index(&billing, "name_1", doc! { "name": 1 }, doc! {}).await;
    create_index(&billing, "e", doc! { "expiresAt": 1 }, doc! { "expireAfterSeconds": 9 }).await;
    insert(&billing, vec![doc! { "name": "twice" }, doc! { "name": "twice" }]).await;
    let blocked = migrate(&server, &["up", "--json", "--yes"]);
    assert_eq!(blocked.exit, 1, "{blocked:?}");
    let version = server.version().await;
    let obstacle = if version < MAKES_UNIQUE { "before MongoDB 6.0" } else { "twice" };
    assert!(blocked.data.contains(obstacle), "{blocked:?}");
    billing.collection::<Document>("locks").delete_many(doc! {}).await.unwrap();
    if version < MAKES_UNIQUE {
        eprintln!("MongoDB {version} makes no index unique: the unique one is made anew");
        billing.run_command(doc! { "dropIndexes": "locks", "index": "name_1" }).await.unwrap();
    }
    let changed = migrate(&server, &["up", "--json", "--yes"]);
    assert_eq!((changed.exit, changed.json()["status"].as_str()), (0, Some("migrated")));
}

#[tokio::test]
async fn what_the_user_lacks_is_named_and_nothing_is_changed() {
    let (server, root) = server_with(role_in_readme()).await;
    let billing = root.database("billing");
    let privileges = role_in_readme().get_array("privileges").unwrap().clone();
    for privilege in &privileges {
        let privilege = privilege.as_document().unwrap();
        for action in privilege.get_array("actions").unwrap() {
            let resource = privilege.get_document("resource").unwrap();
            // One index is missing, one must be changed, and that needs a search for duplicates.
            billing.drop().await.unwrap();
            let other = doc! { "expireAfterSeconds": 9 };
            create_index(&billing, "e", doc! { "expiresAt": 1 }, other).await;
            let this = vec![doc! { "resource": resource, "actions": [action] }];
            let change = |how: &str| doc! { how: "mongo-lease-migrate", "privileges": &this };
            billing.run_command(change("revokePrivilegesFromRole")).await.unwrap();
            let ran = migrate(&server, &["up", "--yes"]);
            let wanted = format!("lacks the privilege `{}` on billing", action.as_str().unwrap());
            assert_eq!(ran.exit, 3, "{ran:?}");
            assert!(ran.talk.contains(&wanted), "{wanted}: {ran:?}");
            // Where the plan cannot be made, nothing changes: there are `_id_` and `e`.
            if !matches!(action.as_str(), Some("collMod" | "createIndex")) {
                assert_eq!(super::listed(&billing).await.len(), 2);
            }
            billing.run_command(change("grantPrivilegesToRole")).await.unwrap();
        }
    }
    assert_eq!(migrate(&server, &["up", "--yes"]).exit, 0);
}
