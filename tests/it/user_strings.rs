//! Users' texts that look like something else to a database.

use std::time::Duration;

use mongo_lease::mongodb::bson::doc;
use mongo_lease::{Error, Released};

use crate::common::{assert_done, document, known_release, refused, setup};
use crate::inspect::names_of;
use crate::patience::locks;
use crate::spy::spied;

/// Field paths, variables, operators, patterns, texts with quotes, and texts that are only long.
fn hostile() -> Vec<String> {
    let of_one_kind: [&[&str]; 5] = [
        &["$name", "$$NOW", "$$ROOT", "$", "$$", "a.b", ".", "$a.b", "..", "name", "value", "_id"],
        &["{\"$ne\": 1}", "{$gt: \"\"}", "$literal", "$expr", "', 1) //", "\\", "\"", "^.*$"],
        &["*?[a]", " ", "\n", "\u{1}", "\u{7f}", "\u{202e}abc", "\u{feff}", "null", "0"],
        &["🔒", "e\u{301}", "\u{e9}", "ﬀ", "A", "a", "__proto__", "%s%n", "../.."],
        &[&"x".repeat(512), &"🔒".repeat(128), &format!("${}", "y".repeat(511))],
    ];
    of_one_kind.concat().into_iter().map(str::to_owned).collect()
}

#[tokio::test]
async fn names_owners_values_and_metadata_come_back_as_they_went_in() {
    let (database, leases) = setup().await;
    let mut keys = Vec::new();
    for text in hostile() {
        let inner = doc! { &text: [&text, { &text: 1 }] };
        let metadata = doc! { &text: &text, "inner": inner, "$name": "$$NOW" };
        let acquire = leases.acquire(&text).owner(&text).value(&text).metadata(metadata.clone());
        // Longer than the test takes.
        let acquire = acquire.ttl(Duration::from_secs(600));
        let lease = acquire.await.unwrap_or_else(|error| panic!("{text:?}: {error}"));
        assert_eq!((lease.name(), lease.value()), (text.as_str(), text.as_str()));
        lease.renew().await.unwrap();
        let held = refused(&leases, &text).await;
        let got = leases.get(&text).await.unwrap().unwrap();
        for info in [held, got] {
            assert_eq!((&info.name, info.value.as_ref()), (&text, Some(&text)));
            assert!(info.owner.unwrap().starts_with(&format!("{text}@")));
            assert_eq!(info.metadata, metadata);
        }
        let found = document(&database, &text).await.unwrap();
        assert_eq!(found.get_str("name").ok(), Some(text.as_str()));
        keys.push(lease.detach().await.unwrap());
    }
    // All are held at once: no two of them are one lease, and each is listed under its own name.
    let mut wanted = hostile();
    wanted.sort();
    assert_eq!(names_of(leases.list()).await, wanted);
    for text in hostile() {
        let with_prefix = wanted.iter().filter(|name| name.starts_with(&text));
        let with_prefix: Vec<String> = with_prefix.cloned().collect();
        assert_eq!(names_of(leases.list().prefix(&text)).await, with_prefix, "{text:?}");
        let owner = leases.get(&text).await.unwrap().unwrap().owner.unwrap();
        assert_eq!(names_of(leases.list().held_by(owner)).await, [text]);
    }
    for (released, key) in (1..).zip(&keys) {
        let wrong = format!("{}!", &key.value()[..key.value().len().min(400)].trim_end());
        assert_eq!(known_release(&leases, key.name(), &wrong).await, Released::NotHeld);
        assert_done(leases.release(key.name(), key.value()).await.unwrap(), key.name());
        let left = locks(&database).count_documents(doc! {}).await.unwrap();
        assert_eq!(left, u64::try_from(keys.len() - released).unwrap(), "{:?}", key.name());
    }
}

#[tokio::test]
async fn what_cannot_be_a_name_is_refused_before_anything_is_sent() {
    let (_database, leases, spy) = spied(|builder| builder).await;
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
    let (_database, leases, spy) = spied(|builder| builder).await;
    let deep =
        |levels: u32| (0..levels).fold(doc! { "at": "the bottom" }, |inner, _| doc! { "a": inner });
    let wide = |length: usize| doc! { "a": "x".repeat(length) };
    let nul = doc! { "inner": [{ "a\0b": 1 }] };
    for bad in [wide(4 * 1024), nul, deep(200)] {
        let error = leases.acquire("a").metadata(bad).await.unwrap_err();
        assert!(matches!(error, Error::InvalidOption { option: "metadata", .. }), "{error}");
    }
    assert_eq!(spy.names(), Vec::<String>::new());
    // Metadata just within the bounds is stored.
    for (name, fine) in [("deep", deep(15)), ("wide", wide(4 * 1024 - 13))] {
        let _lease = leases.acquire(name).metadata(fine.clone()).await.unwrap();
        assert_eq!(leases.get(name).await.unwrap().unwrap().metadata, fine);
    }
}
