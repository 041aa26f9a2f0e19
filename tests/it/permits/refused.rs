//! Refused calls, for which nothing is sent.

use std::time::Duration;

use mongo_lease::Error;
use mongo_lease::mongodb::bson::doc;

use crate::both::check;
use crate::common::{TryOnce, patient};
use crate::spy::spied;

#[tokio::test]
async fn bad_options_are_refused_by_their_names() {
    check(async |backend| {
        let leases = backend.manager().await;
        let acquire = || leases.acquire("a");
        let limited = |limit| leases.semaphore("a", limit).acquire();
        let calls = [
            ("limit", limited(0)),
            ("limit", limited(1_001)),
            ("permits", acquire().permits(0)),
            ("permits", acquire().permits(2)),
            ("permits", limited(5).permits(0)),
            ("permits", limited(5).permits(6)),
            ("shared", limited(5).shared()),
            ("shared", limited(0).shared()),
            ("shared", acquire().shared().permits(1)),
            ("value", acquire().value("mongo-lease/shared")),
            ("value", acquire().value("released:mine")),
            ("hold_at_least", acquire().shared().hold_at_least(Duration::from_secs(1))),
            ("metadata", limited(2).metadata(doc! { "text": "x".repeat(256) })),
        ];
        for (wanted, call) in calls {
            let error = call.await.expect_err(wanted);
            let is_named = matches!(error, Error::InvalidOption { option, .. } if option == wanted);
            assert!(is_named, "{wanted}: {error}");
        }
        let error = leases.semaphore("a", 0).try_acquire().await.unwrap_err();
        assert!(matches!(error, Error::InvalidOption { option: "limit", .. }), "{error}");
        assert!(leases.get("a").await.unwrap().is_none());
        let metadata = doc! { "text": "x".repeat(200) };
        let all = limited(1_000).permits(1_000).metadata(metadata).await.unwrap();
        assert_eq!(all.permits(), 1_000);
        let error = all.detach().await.unwrap_err();
        assert!(matches!(error, Error::Unsupported { .. }), "{error}");
        backend.until_nothing_is_left().await;
    })
    .await;
}

#[tokio::test]
async fn a_refused_call_sends_nothing() {
    let (database, leases, spy) = spied(patient).await;
    assert!(leases.semaphore("a", 1_001).acquire().await.is_err());
    assert!(leases.acquire("a").shared().permits(1).try_once().await.is_err());
    assert!(leases.release("a", "mongo-lease/shared").await.is_err());
    assert_eq!(spy.names(), Vec::<String>::new());
    let permit = leases.semaphore("a", 5).acquire().renew(false).await.unwrap();
    spy.names();
    let mut session = database.client().start_session().await.unwrap();
    for error in [
        permit.transaction().await.unwrap_err(),
        permit.transaction_in(&mut session).await.unwrap_err(),
    ] {
        assert!(matches!(error, Error::Unsupported { .. }), "{error}");
        let why = "transactions of two holders would conflict";
        assert!(error.to_string().contains(why), "{error}");
    }
    assert_eq!(spy.names(), Vec::<String>::new());
    permit.renew().await.unwrap();
}
