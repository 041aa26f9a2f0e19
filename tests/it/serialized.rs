//! The JSON of the public types: its keys and its forms are a promise.

use std::pin::pin;
use std::time::Duration;

use futures_util::TryStreamExt;
use mongo_lease::mongodb::bson::{DateTime, doc};
use mongo_lease::{Event, LeaseInfo, LeaseManager, LeaseState, LostReason, MemoryStore, Token};
use serde_json::{Value, json};

use crate::both::check;
use crate::common::setup;
use crate::patience::{Listener, locks};

fn json_of<T: serde::Serialize>(value: &T) -> Value {
    serde_json::to_value(value).expect("JSON")
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).expect("a short time")
}

#[tokio::test]
async fn a_held_lease_has_every_key_and_its_dates_and_times() {
    check(async |backend| {
        let leases = backend.manager().await;
        let lease = leases.acquire("a").metadata(doc! { "job": 7 }).await.unwrap();
        let info = leases.get("a").await.unwrap().expect("it is held");
        let [acquired, expires] = [info.acquired_at, info.expires_at].map(|date| {
            let date = DateTime::from_millis(date.expect("a date").timestamp_millis());
            date.try_to_rfc3339_string().expect("a date of our time")
        });
        let expected = json!({
            "name": "a",
            "state": "held",
            "owner": info.owner,
            "value": lease.value(),
            "acquired_at": acquired,
            "expires_at": expires,
            "remaining_ms": millis(info.remaining.unwrap()),
            "metadata": { "job": 7 },
            "in_use": 1,
            "limit": 1,
            "waiting": 0,
            "held_here": true,
            "shared": false,
            "holders": [],
        });
        assert_eq!(json_of(&info), expected);
        let text = serde_json::to_string(&info).expect("JSON");
        let in_order = "name state owner value acquired_at expires_at remaining_ms metadata in_use \
                        limit waiting held_here shared holders";
        let places = in_order.split(' ').map(|key| text.find(&format!("\"{key}\":")).expect(key));
        assert!(places.is_sorted(), "{text}");
    })
    .await;
}

#[tokio::test]
async fn each_holder_of_a_shared_lease_has_every_key() {
    let (database, leases) = setup().await;
    let until = DateTime::from_millis(DateTime::now().timestamp_millis() + 600_000);
    let holder = doc! {
        "value": "v", "id": "v.1", "expiresAt": until, "ttlMs": 30_000_i64,
        "maxClockSkewMs": 1_000_i64, "permits": 2_i64, "limit": 5_i64, "metadata": { "job": 7 },
    };
    let shared = "mongo-lease/shared";
    let lease = doc! { "name": "a", "value": shared, "expiresAt": until, "holders": [holder] };
    locks(&database).insert_one(lease).await.unwrap();
    let json = json_of(&leases.get("a").await.unwrap().expect("it is held"));
    let of_all = ["shared", "in_use", "limit", "value", "owner"].map(|key| &json[key]);
    assert_eq!(json!(of_all), json!([true, 2, 5, null, null]));
    let mut holder = json["holders"][0].as_object().unwrap().clone();
    let until = until.try_to_rfc3339_string().unwrap();
    assert_eq!(holder.remove("expires_at"), Some(json!(until)));
    let remaining = holder.remove("remaining_ms").and_then(|it| it.as_u64()).unwrap();
    assert!((300_000..=600_000).contains(&remaining), "{remaining}");
    let rest = json!({
        "owner": null, "value": "v", "permits": 2, "limit": 5, "acquired_at": null,
        "metadata": { "job": 7 }, "held_here": false,
    });
    assert_eq!(Value::Object(holder), rest);
}

#[tokio::test]
async fn what_is_unknown_is_null_and_each_state_is_a_word() {
    let (database, leases) = setup().await;
    let far = DateTime::from_millis(253_402_300_800_000);
    let documents = [
        doc! { "name": "damaged", "value": "v", "expiresAt": 5 },
        doc! { "name": "far", "value": "v", "expiresAt": far },
        doc! { "name": "free", "value": "v", "expiresAt": null },
    ];
    locks(&database).insert_many(documents).await.unwrap();
    let found = pin!(leases.list().with_free().stream().unwrap());
    let found: Vec<LeaseInfo> = found.try_collect().await.unwrap();
    let shown: Vec<Value> = found.iter().map(json_of).collect();
    let states: Vec<&Value> = shown.iter().map(|it| &it["state"]).collect();
    assert_eq!(states, ["damaged", "held", "free"]);
    for key in ["owner", "acquired_at", "expires_at", "remaining_ms"] {
        assert_eq!(shown[0][key], Value::Null, "{key}");
    }
    assert_eq!(shown[0]["metadata"], json!({}));
    assert_eq!(shown[1]["expires_at"], "+10000-01-01T00:00:00Z");
    assert_eq!(json_of(&LeaseState::Held), "held");
}

#[tokio::test(start_paused = true)]
async fn events_are_objects_with_texts_for_tokens_and_millis() {
    let leases = LeaseManager::in_memory(&MemoryStore::new()).build().await.unwrap();
    let mut events = Listener::of(&leases);
    let lease = leases.acquire("a").await.unwrap();
    let token = lease.token().unwrap();
    // More digits than a JSON number keeps.
    assert!(token.as_u64() > 1 << 53);
    let token = token.to_string();
    lease.renew().await.unwrap();
    lease.release().await.unwrap();
    let capped = leases.acquire("b").max_hold(Duration::from_secs(3)).await.unwrap();
    let second = capped.token().unwrap().to_string();
    assert_eq!(capped.lost().await, LostReason::EndedAsAsked);
    let all = events.so_far();
    let Event::Renewed { remaining, .. } = &all[1] else { panic!("{all:?}") };
    let left = millis(*remaining);
    assert!((10_000..30_000).contains(&left), "{left}");
    let mut shown: Vec<Value> = all.iter().map(json_of).collect();
    // The grant of the second lease, and its renewals.
    shown.drain(3..shown.len() - 1);
    let expected = [
        json!({ "event": "granted", "name": "a", "token": token }),
        json!({ "event": "renewed", "name": "a", "token": token, "remaining_ms": left }),
        json!({ "event": "released", "name": "a", "token": token }),
        json!({ "event": "lost", "name": "b", "token": second, "reason": "ended_as_asked" }),
    ];
    assert_eq!(shown, expected);
    assert_eq!(json_of(&Token::from_u64(u64::MAX)), "18446744073709551615");
    assert_eq!(json_of(&Event::Watching), json!({ "event": "watching" }));
    assert_eq!(json_of(&Event::Missed(7)), json!({ "event": "missed", "missed": 7 }));
}
