//! Users' texts that look like something else to a database.

use futures_util::TryStreamExt;
use mongo_lease::mongodb::bson::{Document, doc};
use mongo_lease::{Attempt, Error, LeaseManager, Released};
use mongo_lease_testbed::Server;

use crate::common::{document, migrated, setup};
use crate::spy::Spy;

/// Field paths, variables, operators, patterns, texts with quotes, and texts that are only long.
fn hostile() -> Vec<String> {
    let mut texts: Vec<String> = [
        "$name",
        "$$NOW",
        "$$ROOT",
        "$",
        "$$",
        "a.b",
        ".",
        "$a.b",
        "..",
        "name",
        "value",
        "_id",
        "{\"$ne\": 1}",
        "{$gt: \"\"}",
        "$literal",
        "$expr",
        "', 1) //",
        "\\",
        "\"",
        "^.*$",
        "*?[a]",
        " ",
        "\n",
        "\u{1}",
        "\u{7f}",
        "\u{202e}abc",
        "\u{feff}",
        "null",
        "0",
        "🔒",
        "e\u{301}",
        "\u{e9}",
        "ﬀ",
        "A",
        "a",
        "__proto__",
        "%s%n",
        "../..",
    ]
    .map(str::to_owned)
    .to_vec();
    texts.push("x".repeat(512));
    texts.push("🔒".repeat(128));
    texts.push(format!("${}", "y".repeat(511)));
    texts
}

#[tokio::test]
async fn names_owners_values_and_metadata_come_back_as_they_went_in() {
    let (database, leases) = setup().await;
    let mut held_ones = Vec::new();
    for text in hostile() {
        let metadata = doc! {
            &text: &text,
            "inner": { &text: [&text, { &text: 1 }] },
            "$name": "$$NOW",
        };
        let lease = leases
            .acquire(&text)
            .owner(&text)
            .value(&text)
            .metadata(metadata.clone())
            .await
            .unwrap_or_else(|error| panic!("{text:?}: {error}"));
        assert_eq!((lease.name(), lease.value()), (text.as_str(), text.as_str()));
        lease.renew().await.unwrap();
        let Attempt::Busy(held) = leases.try_acquire(&text).await.unwrap() else {
            panic!("{text:?} was granted twice");
        };
        let got = leases.get(&text).await.unwrap().unwrap();
        for info in [*held, got] {
            assert_eq!((&info.name, info.value.as_ref()), (&text, Some(&text)));
            assert!(info.owner.unwrap().starts_with(&format!("{text}@")));
            assert_eq!(info.metadata, metadata);
        }
        let found = document(&database, &text).await.unwrap();
        assert_eq!(found.get_str("name").ok(), Some(text.as_str()));
        held_ones.push(lease);
    }
    // All are held at once: no two of them are one lease, and each is listed under its own name.
    let listed: Vec<_> = leases.list().stream().unwrap().try_collect().await.unwrap();
    let mut names: Vec<String> = listed.into_iter().map(|info| info.name).collect();
    let mut wanted = hostile();
    wanted.sort();
    names.sort();
    assert_eq!(names, wanted);
    assert_eq!(
        database.collection::<Document>("locks").count_documents(doc! {}).await.unwrap(),
        u64::try_from(wanted.len()).unwrap()
    );
}

#[tokio::test]
async fn hostile_names_are_listed_and_released_individually() {
    let (database, leases) = setup().await;
    let mut keys = Vec::new();
    for text in hostile() {
        keys.push(
            leases.acquire(&text).value(&text).owner(&text).await.unwrap().detach().await.unwrap(),
        );
    }
    for text in hostile() {
        let with_prefix: Vec<_> =
            leases.list().prefix(&text).stream().unwrap().try_collect().await.unwrap();
        let expected = hostile().iter().filter(|name| name.starts_with(&text)).count();
        assert_eq!(with_prefix.len(), expected, "{text:?}");
        let owner = leases.get(&text).await.unwrap().unwrap().owner.unwrap();
        let owned: Vec<_> =
            leases.list().held_by(owner).stream().unwrap().try_collect().await.unwrap();
        assert_eq!(owned.len(), 1, "{text:?}");
        assert_eq!(owned[0].name, text);
    }
    for (count, key) in keys.iter().enumerate() {
        let wrong = format!("{}!", &key.value()[..key.value().len().min(400)].trim_end());
        assert_eq!(leases.release(key.name(), wrong).await.unwrap(), Released::NotHeld);
        assert_eq!(leases.release(key.name(), key.value()).await.unwrap(), Released::Released);
        let locks = database.collection::<Document>("locks");
        let left = locks.count_documents(doc! {}).await.unwrap();
        assert_eq!(left, u64::try_from(keys.len() - count - 1).unwrap(), "{:?}", key.name());
    }
}

#[tokio::test]
async fn what_cannot_be_a_name_is_refused_before_anything_is_sent() {
    let server = Server::shared();
    let database = migrated(server).await;
    let (client, spy) = Spy::client(server).await;
    let leases = LeaseManager::builder(&database.through(&client)).build().await.unwrap();
    assert!(!spy.names().is_empty(), "the manager has looked at the server");
    let long = "x".repeat(513);
    let wide = "🔒".repeat(129);
    for bad in ["", "\0", "a\0b", long.as_str(), wide.as_str()] {
        let refused = [
            leases.acquire(bad).await.unwrap_err(),
            leases.try_acquire(bad).await.unwrap_err(),
            leases.with_lease(bad, async |_| ()).await.unwrap_err(),
            leases.get(bad).await.unwrap_err(),
            leases.release(bad, "v").await.unwrap_err(),
        ];
        for error in refused {
            assert!(matches!(error, Error::InvalidName { .. }), "{bad:?}: {error}");
        }
        let mut refused = vec![leases.acquire("a").value(bad).await.unwrap_err()];
        // Another program may have written the empty value: operators may name it.
        if !bad.is_empty() {
            refused.push(leases.release("a", bad).await.unwrap_err());
        }
        for error in refused {
            let Error::InvalidOption { option, .. } = error else { panic!("{bad:?}: {error}") };
            assert_eq!(option, "value");
        }
    }
    for bad in ["\0", &long] {
        let error = leases.acquire("a").owner(bad).await.unwrap_err();
        assert!(matches!(error, Error::InvalidOption { option: "owner", .. }), "{error}");
    }
    assert_eq!(spy.names(), Vec::<String>::new());
}

#[tokio::test]
async fn metadata_the_server_cannot_store_is_refused_before_sending() {
    let server = Server::shared();
    let database = migrated(server).await;
    let (client, spy) = Spy::client(server).await;
    let leases = LeaseManager::builder(&database.through(&client)).build().await.unwrap();
    spy.names();
    let mut deep = doc! { "at": "the bottom" };
    for _ in 0..200 {
        deep = doc! { "a": deep };
    }
    let nul = doc! { "inner": [{ "a\0b": 1 }] };
    for bad in [doc! { "a": "x".repeat(4 * 1024) }, nul, deep] {
        let error = leases.acquire("a").metadata(bad).await.unwrap_err();
        assert!(matches!(error, Error::InvalidOption { option: "metadata", .. }), "{error}");
    }
    assert_eq!(spy.names(), Vec::<String>::new());
    // Metadata just within the bounds is stored.
    let mut deep = doc! { "at": "the bottom" };
    for _ in 0..15 {
        deep = doc! { "a": deep };
    }
    let wide = doc! { "a": "x".repeat(4 * 1024 - 13) };
    for (name, fine) in [("deep", deep), ("wide", wide)] {
        let _lease = leases.acquire(name).metadata(fine.clone()).await.unwrap();
        assert_eq!(leases.get(name).await.unwrap().unwrap().metadata, fine);
    }
}
