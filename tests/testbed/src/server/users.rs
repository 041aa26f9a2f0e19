//! Servers with users.

use mongodb::bson::doc;
use mongodb::options::Credential;
use mongodb::{Client, Database};

use super::Server;

impl Server {
    /// A standalone server with users, and the database `app` as two of them see it: root, and a user who may do these
    /// actions on the collection `app.locks`, and list the database's collections.
    ///
    /// # Panics
    ///
    /// When the server does not start, or refuses a user.
    pub async fn with_user(actions: &[&str]) -> (Server, Database, Database) {
        let server = Server::builder().standalone().argument("--auth").start();
        let admin = doc! { "createUser": "root", "pwd": "root-word", "roles": ["root"] };
        server.admin(admin).await;
        let root = server.app_as("root", "root-word").await;
        let resource = doc! { "db": "app", "collection": "locks" };
        let on_collection = doc! { "resource": resource, "actions": actions };
        let on_database = doc! {
            "resource": { "db": "app", "collection": "" },
            "actions": ["listCollections"],
        };
        let role = doc! {
            "createRole": "narrow",
            "privileges": [on_collection, on_database],
            "roles": [],
        };
        let user = doc! { "createUser": "user", "pwd": "user-word", "roles": ["narrow"] };
        let authority = root.client().database("admin");
        for command in [role, user] {
            authority.run_command(command).await.expect("root may make roles and users");
        }
        let user = server.app_as("user", "user-word").await;
        (server, root, user)
    }

    async fn app_as(&self, user: &str, password: &str) -> Database {
        let credential = Credential::builder()
            .username(user.to_owned())
            .password(password.to_owned())
            .source("admin".to_owned())
            .build();
        let client: Client =
            self.client_with(|options| options.credential = Some(credential)).await;
        client.database("app")
    }
}
