//! The query behind a batch: it sees what that batch wrote.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use mongo_lease::mongodb::bson::Document;
use mongo_lease::{LeaseManager, Token, Tuning};
use mongo_lease_testbed::Proxy;

use super::{FILLERS, granted, names, start_calls};
use crate::lent::lent_database;
use crate::patience::bounded;
use crate::spy::Spy;

/// The names in a query.
fn names_of_find(find: &Document) -> Vec<String> {
    let names = find.get_document("filter").unwrap().get_document("name").unwrap();
    let names = names.get_array("$in").unwrap().iter();
    names.map(|name| name.as_str().unwrap().to_owned()).collect()
}

/// The first calls hang, so those behind them travel in a batch: in each run, and not by chance.
#[tokio::test]
async fn each_look_behind_a_batch_asks_for_the_time_of_the_batch() {
    let (server, database) = lent_database().await;
    let proxy = Proxy::start(server.mongod().address());
    let spy = Spy::default();
    let client = proxy.client_with(|options| spy.listen(options)).await;
    // Long enough for one batch on any machine: a second attempt would be blocked with the first calls.
    let leases = LeaseManager::builder(&database.through(&client)).ttl(Duration::from_secs(60));
    let leases = leases
        .tuning(Tuning::default().attempt_timeout(Duration::from_secs(15)))
        .build()
        .await
        .unwrap();
    let alone = proxy.hold_requests_to("findAndModify");
    let first = start_calls(&leases, names("first", FILLERS));
    bounded(alone.held(1)).await;
    spy.commands();
    let together = granted(start_calls(&leases, names("lease", 20))).await;
    let commands = spy.commands();
    alone.release();
    let _first = granted(first).await;

    let tokens: HashMap<&str, Token> =
        together.iter().map(|lease| (lease.name(), lease.token().unwrap())).collect();
    let mut looked_up = HashSet::new();
    for (_, find) in commands.iter().filter(|(name, _)| name == "find") {
        let read_concern = find.get_document("readConcern").unwrap();
        assert_eq!(read_concern.get_str("level").ok(), Some("majority"));
        let after = read_concern.get_timestamp("afterClusterTime").map(Token::from);
        for name in names_of_find(find) {
            // The token is the time of the batch.
            let token = tokens.get(name.as_str());
            assert!(token.is_none() || token == after.as_ref().ok(), "{name}: {find}");
            looked_up.insert(name);
        }
    }
    assert!(tokens.keys().all(|name| looked_up.contains(*name)), "{looked_up:?}");
}
