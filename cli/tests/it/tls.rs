//! Over SCRAM and TLS, as the address says.

use futures_util::future::join_all;
use mongo_lease_security::ROOT_PASSWORD;
use mongodb::Client;

use super::tool::{leases, migrate, run, secured_server, tool_at};

#[tokio::test]
async fn a_listing_and_a_command_work_over_scram_and_tls() {
    let server = secured_server();
    let uri = server.uri_as("root", ROOT_PASSWORD);
    let client = Client::with_uri_str(&uri).await.unwrap();
    let database = mongo_lease_testbed::TestDatabase::of(&client);
    migrate(&database).await;
    let manager = leases(&database).await;
    let _lease = manager.acquire("invoice:42").await.unwrap();
    let name = database.name();

    let listed = run(tool_at(&uri, name, &["ls", "--json"])).await;
    assert_eq!(listed.exit, 0, "{listed:?}");
    assert!(listed.data.contains("invoice:42"), "{listed:?}");
    let ended = run(tool_at(&uri, name, &["run", "job", "--", "sh", "-c", "exit 7"])).await;
    assert_eq!(ended.exit, 7, "{ended:?}");

    // Refused: a client without trust in the server, with a wrong password, or without encryption.
    let (no_authority, _) = uri.split_once("&tlsCAFile=").unwrap();
    let no_authority = format!("{no_authority}&authSource=admin");
    let wrong = uri.replace(ROOT_PASSWORD, "root-wrong-horse");
    let plain = no_authority.replace("tls=true", "tls=false");
    let refused = [
        (
            &no_authority,
            "out of reach: cannot connect to 127.0.0.1:",
            "(invalid peer certificate: ",
        ),
        (&wrong, "error: the database refuses the login: ", "Authentication failed"),
        (&plain, "out of reach: cannot connect to 127.0.0.1:", "("),
    ];
    // At the same time: each is refused at the end of its time limit.
    let refused = refused.map(async |(uri, begin, reason)| {
        let ran = run(tool_at(uri, name, &["ls", "--json", "--timeout", "5s"])).await;
        (ran, begin, reason)
    });
    for (ran, begin, reason) in join_all(refused).await {
        assert_eq!(ran.exit, 69, "{reason}: {ran:?}");
        assert!(ran.talk.contains(begin) && ran.talk.contains(reason), "{reason}: {ran:?}");
        assert!(!ran.talk.contains("Topology"), "{ran:?}");
        let all = format!("{}{}{}", listed.data, ran.data, ran.talk);
        assert!(!all.contains("horse"), "{ran:?}");
    }
}
