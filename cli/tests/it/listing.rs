//! `ls` and `show`.

use std::time::Duration;

use mongodb::bson::{DateTime, doc};
use serde_json::json;

use super::tool::{Ran, fresh, leases, run, tool_for};

fn keys(value: &serde_json::Value) -> Vec<&str> {
    value.as_object().expect("an object").keys().map(String::as_str).collect()
}

const KEYS: [&str; 10] = [
    "name",
    "state",
    "owner",
    "value",
    "acquired_at",
    "expires_at",
    "remaining_ms",
    "metadata",
    "in_use",
    "limit",
];

/// Those of `show`.
fn keys_with_holders() -> Vec<&'static str> {
    KEYS.into_iter().chain(["holders"]).collect()
}

fn names(ran: &Ran) -> Vec<String> {
    let line = |line: &str| serde_json::from_str::<serde_json::Value>(line).unwrap();
    let name = |value: serde_json::Value| value["name"].as_str().unwrap().to_owned();
    ran.data.lines().map(|it| name(line(it))).collect()
}

#[tokio::test]
async fn an_empty_listing_says_so_and_its_data_is_empty() {
    let database = fresh().await;
    for (arguments, talk) in [
        (&["ls"][..], "no lease is held\n"),
        (&["ls", "x*"], "no such lease is held\n"),
        (&["ls", "--all"], "there is no lease\n"),
        (&["ls", "x*", "--all"], "there is no such lease\n"),
        (&["ls", "--json"], ""),
        (&["ls", "x*", "--all", "--json"], ""),
    ] {
        let ran = run(tool_for(&database, arguments)).await;
        assert_eq!((ran.exit, ran.data.as_str(), ran.talk.as_str()), (0, "", talk));
    }
}

#[tokio::test]
async fn dates_end_with_a_z_in_every_form() {
    let database = fresh().await;
    let manager = leases(&database).await;
    let lease = manager.acquire("a").await.unwrap();
    let acquired = lease.expires_at().format("%Y-%m-%dT").to_string();
    for arguments in [&["show", "a"][..], &["show", "a", "--json"], &["ls", "--json"]] {
        let ran = run(tool_for(&database, arguments)).await;
        assert_eq!(ran.data.matches(&acquired[..8]).count(), 2, "{ran:?}");
        assert_eq!(ran.data.matches("Z,").count() + ran.data.matches("Z\"").count(), 2, "{ran:?}");
        assert!(!ran.data.contains("+00:00"), "{ran:?}");
    }
}

/// All rows are as wide as the longest, and other programs write names of any length.
#[tokio::test]
async fn a_long_foreign_name_does_not_widen_all_rows() {
    let database = fresh().await;
    let expires_at = DateTime::from_millis(DateTime::now().timestamp_millis() + 3_600_000);
    // An index key has no limit; each of these characters is shown as eight.
    let long = "\u{200b}".repeat(10_000);
    for name in [long.as_str(), "short"] {
        let held = doc! { "name": name, "value": name, "expiresAt": expires_at };
        database.collection("locks").insert_one(held).await.unwrap();
    }
    let ran = run(tool_for(&database, &["ls"])).await;
    let widths: Vec<usize> = ran.data.lines().map(|line| line.chars().count()).collect();
    assert_eq!((ran.exit, widths.len()), (0, 3), "{widths:?}");
    assert!(widths.iter().all(|width| *width < 200), "{widths:?}");
    assert_eq!(ran.data.matches('…').count(), 1, "{}", ran.data);
    // Programs get the whole name.
    let ran = run(tool_for(&database, &["ls", "--json"])).await;
    assert_eq!(names(&ran), ["short", long.as_str()]);
}

#[tokio::test]
async fn a_listing_shows_who_holds_what() {
    let database = fresh().await;
    let manager = leases(&database).await;
    let meta = doc! { "job": 7 };
    let lease = manager.acquire("job:1").owner("billing").metadata(meta).await.unwrap();
    let _other = manager.acquire("job:2").await.unwrap();
    let _third = manager.acquire("mail").await.unwrap();
    let ran = run(tool_for(&database, &["ls"])).await;
    let lines: Vec<&str> = ran.data.lines().collect();
    assert_eq!(ran.exit, 0);
    let heads: Vec<&str> = lines[0].split_whitespace().collect();
    assert_eq!(heads, ["NAME", "OWNER", "HELD", "FOR", "LEFT"]);
    let words: Vec<&str> = lines[1].split_whitespace().collect();
    assert_eq!(words[0], "job:1");
    assert!(words[1].starts_with("billing@"), "{ran:?}");
    assert!(words[2].ends_with('s') && words[3].ends_with('s'), "{ran:?}");
    assert_eq!(lines.len(), 4, "{ran:?}");
    assert!(!ran.data.contains(lease.value()), "the value is what a release takes");
    assert!(!ran.data.contains('\u{1b}'), "no colours but on a terminal: {ran:?}");

    let ran = run(tool_for(&database, &["ls", "job:*", "--json"])).await;
    assert_eq!(names(&ran), ["job:1", "job:2"]);
    let first: serde_json::Value = serde_json::from_str(ran.data.lines().next().unwrap()).unwrap();
    assert_eq!(keys(&first), KEYS);
    assert_eq!((&first["state"], &first["value"]), (&json!("held"), &json!(lease.value())));
    assert_eq!(first["metadata"], json!({ "job": 7 }));
    let remaining = first["remaining_ms"].as_u64().unwrap();
    assert!((20_000..=31_000).contains(&remaining), "{remaining}");
    let expires_at = first["expires_at"].as_str().unwrap();
    assert!(DateTime::parse_rfc3339_str(expires_at).is_ok(), "{expires_at}");
    assert_eq!(names(&run(tool_for(&database, &["ls", "job:?", "--json"])).await).len(), 2);
    assert_eq!(names(&run(tool_for(&database, &["ls", "job", "--json"])).await).len(), 0);
}

#[tokio::test]
async fn what_is_free_is_listed_when_all_are_asked_for() {
    let database = fresh().await;
    let locks = database.collection("locks");
    let ten_minutes = DateTime::from_millis(DateTime::now().timestamp_millis() + 600_000);
    locks
        .insert_many([
            doc! { "name": "by another", "value": "v", "expiresAt": ten_minutes },
            doc! { "name": "damaged", "value": "v", "expiresAt": 5 },
            doc! { "name": "free", "value": "v", "expiresAt": null },
        ])
        .await
        .unwrap();
    let ran = run(tool_for(&database, &["ls", "--json"])).await;
    assert_eq!(names(&ran), ["by another", "damaged"]);
    let ran = run(tool_for(&database, &["ls", "--all"])).await;
    for part in ["by another  another program", "damaged: expiresAt is of type int", "free"] {
        assert!(ran.data.contains(part), "{part}: {ran:?}");
    }
    let ran = run(tool_for(&database, &["ls", "--all", "--json"])).await;
    let states: Vec<String> = ran
        .data
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap()["state"].to_string())
        .collect();
    assert_eq!(states, ["\"held\"", "\"damaged\"", "\"free\""]);
}

#[tokio::test]
async fn show_tells_all_that_is_known() {
    let database = fresh().await;
    let manager = leases(&database).await;
    let lease = manager.acquire("a").metadata(doc! { "job": "x" }).await.unwrap();
    let ran = run(tool_for(&database, &["show", "a"])).await;
    assert_eq!(ran.exit, 0, "{ran:?}");
    let value = format!("value     {}", lease.value());
    for part in ["name      a\n", "owner     test@", &value, "acquired  20", "expires   20", "job"]
    {
        assert!(ran.data.contains(part), "{part}: {ran:?}");
    }
    let json = run(tool_for(&database, &["show", "a", "--json"])).await.json();
    assert_eq!(keys(&json), keys_with_holders());
    assert_eq!((&json["in_use"], &json["limit"]), (&json!(1), &json!(1)));
    assert_eq!((&json["name"], &json["state"]), (&json!("a"), &json!("held")));
    assert_eq!(json["metadata"], json!({ "job": "x" }));
}

#[tokio::test]
async fn show_of_a_lease_that_nobody_holds_is_1() {
    let database = fresh().await;
    let ran = run(tool_for(&database, &["show", "a"])).await;
    assert_eq!((ran.exit, ran.data.as_str()), (1, ""), "{ran:?}");
    assert_eq!(ran.talk, "nobody holds \"a\"\n");
    let ran = run(tool_for(&database, &["show", "a", "--json"])).await;
    assert_eq!(ran.exit, 1);
    let json = ran.json();
    assert_eq!(keys(&json), keys_with_holders());
    assert_eq!((&json["in_use"], &json["limit"]), (&json!(0), &json!(null)));
    assert_eq!(
        (&json["name"], &json["state"], &json["owner"]),
        (&json!("a"), &json!("free"), &json!(null))
    );
}

#[tokio::test]
async fn a_name_that_is_kept_after_its_release_says_so() {
    let database = fresh().await;
    let manager = leases(&database).await;
    let lease = manager.acquire("a").hold_at_least(Duration::from_secs(60)).await.unwrap();
    lease.release().await.unwrap();
    let ran = run(tool_for(&database, &["show", "a"])).await;
    assert!(ran.data.contains("reserved after its release"), "{ran:?}");
}

#[tokio::test]
async fn what_a_terminal_obeys_is_not_printed_as_it_is() {
    let database = fresh().await;
    let manager = leases(&database).await;
    let name = "evil\u{1b}[2Jname\r\nsecond\u{202e}";
    let evil = "o\u{1b}]0;title\u{7}";
    let _lease = manager.acquire(name).owner(evil).metadata(doc! { "k": "\u{1b}c" }).await.unwrap();
    let gone = ["show", "nobody\u{1b}[2J"];
    let busy = ["run", name, "--no-wait", "--", "true"];
    for arguments in [
        &["ls"][..],
        &["show", name],
        &gone,
        &busy,
        &["ls", "--json"],
        &["release", name, "--force"],
    ] {
        let ran = run(tool_for(&database, arguments)).await;
        let all = format!("{}{}", ran.data, ran.talk);
        let bad = |character: char| character != '\n' && character.is_control();
        assert!(!all.contains(bad), "{arguments:?}: {all:?}");
        if arguments == ["ls"] {
            assert_eq!(ran.data.lines().count(), 2, "one row is one line: {ran:?}");
            assert!(!ran.data.contains('\u{202e}'), "{ran:?}");
        }
    }
}
