//! Leases that several hold at once, as their documents are stored.

use mongodb::Database;
use mongodb::bson::{Bson, DateTime, Document, doc};
use serde_json::{Value, json};

use super::tool::{Running, fresh, leases, run, tool_for};

/// A date so many seconds from now.
fn at(seconds: i64) -> DateTime {
    DateTime::from_millis(DateTime::now().timestamp_millis() + seconds * 1_000)
}

/// The record of a holder.
fn holder(value: &str, permits: i64, limit: i64) -> Document {
    doc! {
        "value": value, "id": format!("{value}.1"), "sentMicros": 5_i64,
        "owner": format!("{value}@web:1"), "acquiredAt": at(-100), "expiresAt": at(500),
        "ttlMs": 30_000_i64, "maxClockSkewMs": 1_000_i64, "metadata": {},
        "permits": permits, "limit": limit, "writes": 1_i64,
    }
}

async fn store(database: &Database, name: &str, holders: impl Into<Bson>) {
    let (value, holders) = ("mongo-lease/shared", holders.into());
    let lease = doc! { "name": name, "value": value, "expiresAt": at(600), "holders": holders };
    database.collection("locks").insert_one(lease).await.unwrap();
}

#[tokio::test]
async fn ls_shows_the_permits_in_use() {
    let database = fresh().await;
    store(&database, "readers", vec![holder("a", 1, 1_000), holder("b", 1, 1_000)]).await;
    store(&database, "tenant:7", vec![holder("a", 2, 5), holder("b", 1, 5)]).await;
    store(&database, "unclear", vec![holder("a", 0, 5)]).await;
    let ran = run(tool_for(&database, &["ls"])).await;
    let lines: Vec<&str> = ran.data.lines().collect();
    assert_eq!((ran.exit, lines.len()), (0, 4), "{ran:?}");
    let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(words(lines[1])[..3], ["readers", "2/1000", "permits"]);
    // Since its first holder, and until its last.
    let tenant = words(lines[2]);
    assert_eq!(tenant[..4], ["tenant:7", "3/5", "permits", "1m"], "{ran:?}");
    assert_eq!(tenant[5], "9m", "{ran:?}");
    assert!(lines[3].starts_with("unclear   damaged: its list of holders"), "{ran:?}");

    let ran = run(tool_for(&database, &["ls", "--json"])).await;
    let parsed = |line| serde_json::from_str::<Value>(line).unwrap();
    let rows: Vec<Value> = ran.data.lines().map(parsed).collect();
    let counts: Vec<_> = rows.iter().map(|row| (&row["in_use"], &row["limit"])).collect();
    let (two, three, null) = (json!(2), json!(3), Value::Null);
    assert_eq!(counts, [(&two, &json!(1_000)), (&three, &json!(5)), (&null, &null)]);
    assert!(rows.iter().all(|row| row["value"].is_null() && row["state"] == "held"), "{ran:?}");
    assert!(!ran.data.contains("holders"), "{ran:?}");
}

#[tokio::test]
async fn show_lists_the_holders() {
    let database = fresh().await;
    let mut first = holder("a", 2, 5);
    first.insert("metadata", doc! { "job": "x" });
    let mut nameless = holder("b", 1, 3);
    nameless.remove("owner");
    store(&database, "tenant:7", vec![first, nameless]).await;
    let ran = run(tool_for(&database, &["show", "tenant:7"])).await;
    assert_eq!((ran.exit, ran.talk.as_str()), (0, ""), "{ran:?}");
    let blocks: Vec<&str> = ran.data.trim_end().split("\n\n").collect();
    let [lease, a, b] = blocks[..] else { panic!("{ran:?}") };
    assert!(
        lease.starts_with("name      tenant:7\nin use    3/3 permits\nexpires   20"),
        "{ran:?}"
    );
    for (block, parts) in [
        (a, ["holder    a@web:1\n", "permits   2, while at most 5 are in use\n", "value     a\n"]),
        (b, ["holder    unknown\n", "permits   1, while at most 3 are in use\n", "value     b\n"]),
    ] {
        assert!(parts.iter().all(|part| block.contains(part)), "{ran:?}");
        assert!(block.contains(", 1m ") && block.contains(" ago\n"), "{ran:?}");
        assert!(block.contains("expires   20") && block.contains(", in 8m "), "{ran:?}");
    }
    assert!(a.contains("metadata  {") && a.contains("\"x\"") && !b.contains("metadata"), "{ran:?}");

    let json = run(tool_for(&database, &["show", "tenant:7", "--json"])).await.json();
    assert_eq!((&json["in_use"], &json["limit"]), (&json!(3), &json!(3)));
    let holders = json["holders"].as_array().unwrap();
    let shown = |it: &Value| (it["owner"].clone(), it["value"].clone(), it["permits"].clone());
    let holders: Vec<_> = holders.iter().map(shown).collect();
    let wanted = [(json!("a@web:1"), json!("a"), json!(2)), (json!(null), json!("b"), json!(1))];
    assert_eq!(holders, wanted);
}

#[tokio::test]
async fn show_of_a_damaged_list_of_holders_says_so() {
    let database = fresh().await;
    store(&database, "a", "holders").await;
    let ran = run(tool_for(&database, &["show", "a"])).await;
    assert!(ran.data.contains("in use    damaged: its list of holders\n"), "{ran:?}");
    let json = run(tool_for(&database, &["show", "a", "--json"])).await.json();
    assert_eq!((&json["in_use"], &json["holders"]), (&json!(null), &json!([])));
}

/// The value in the document is that of all its holders: a release by it would end them all.
#[tokio::test]
async fn a_release_by_force_ends_no_shared_lease() {
    let database = fresh().await;
    store(&database, "a", vec![holder("a", 1, 5), holder("b", 1, 5)]).await;
    for arguments in [&["release", "a", "--force"][..], &["release", "a", "--force", "--json"]] {
        let ran = run(tool_for(&database, arguments)).await;
        assert_eq!(ran.exit, 64, "{ran:?}");
        let all = format!("{}{}", ran.data, ran.talk);
        assert!(all.contains("is held by 2 holders"), "{ran:?}");
    }
    let shown = run(tool_for(&database, &["show", "a", "--json"])).await.json();
    assert_eq!(shown["holders"].as_array().unwrap().len(), 2, "{shown}");
}

#[tokio::test]
async fn a_release_by_value_ends_that_holders_permits() {
    let database = fresh().await;
    store(&database, "a", vec![holder("a", 1, 5), holder("b", 2, 5), holder("c", 1, 5)]).await;
    let wrong = run(tool_for(&database, &["release", "a", "--value", "d"])).await;
    assert_eq!(wrong.exit, 1, "{wrong:?}");
    assert!(wrong.data.contains("nothing was changed"), "{wrong:?}");
    let ran = run(tool_for(&database, &["release", "a", "--value", "b", "--json"])).await;
    let expected = json!({ "name": "a", "status": "released", "owner": null, "value": "b" });
    assert_eq!((ran.exit, ran.json()), (0, expected), "{ran:?}");
    let shown = run(tool_for(&database, &["show", "a", "--json"])).await.json();
    let values: Vec<&Value> =
        shown["holders"].as_array().unwrap().iter().map(|it| &it["value"]).collect();
    assert_eq!((&shown["in_use"], values), (&json!(2), vec![&json!("a"), &json!("c")]));
    // The value in the document is nobody's.
    for value in ["mongo-lease/shared", "a", "c"] {
        let ran = run(tool_for(&database, &["release", "a", "--value", value])).await;
        assert_eq!(ran.exit, if value.len() > 1 { 64 } else { 0 }, "{ran:?}");
    }
    assert_eq!(run(tool_for(&database, &["show", "a"])).await.exit, 1);
}

#[tokio::test]
async fn an_exclusive_run_that_is_refused_tells_of_shared_use() {
    let database = fresh().await;
    store(&database, "doc", vec![holder("a", 1, 1_000)]).await;
    let ran = run(tool_for(&database, &["run", "doc", "--no-wait", "--", "true"])).await;
    assert_eq!(ran.exit, 75, "{ran:?}");
    assert!(ran.talk.contains("lease \"doc\" is held by several for "), "{ran:?}");
}

#[tokio::test]
async fn watch_shows_a_shared_lease_as_one() {
    let database = fresh().await;
    store(&database, "doc", vec![holder("a", 1, 1_000)]).await;
    for arguments in [&["watch"][..], &["watch", "--json"]] {
        let mut running = Running::start(tool_for(&database, arguments));
        let line = running.line().await;
        running.signal(rustix::process::Signal::INT);
        assert_eq!(running.ended().await.exit, 0);
        match serde_json::from_str::<Value>(&line) {
            Ok(json) => assert_eq!((&json["name"], &json["value"]), (&json!("doc"), &json!(null))),
            Err(_) => assert!(line.contains("held      doc  several"), "{line}"),
        }
    }
}

async fn permits_of(database: &Database) -> Value {
    let report = run(tool_for(database, &["doctor", "--json"])).await.json();
    let checks = report["checks"].as_array().unwrap();
    checks.iter().find(|check| check["check"] == "permits").expect("the check").clone()
}

#[tokio::test]
async fn doctor_names_leases_whose_limits_disagree() {
    let database = fresh().await;
    let check = permits_of(&database).await;
    assert_eq!(
        (&check["status"], &check["message"]),
        (&json!("ok"), &json!("no lease is held by several"))
    );
    store(&database, "agreed", vec![holder("a", 2, 5), holder("b", 1, 5)]).await;
    let check = permits_of(&database).await;
    let message = json!("leases held by several: 1; their holders agree");
    assert_eq!((&check["status"], &check["message"]), (&json!("ok"), &message));

    store(&database, "tenant:7", vec![holder("a", 1, 5), holder("b", 1, 3)]).await;
    store(&database, "unclear", vec![holder("a", 0, 5)]).await;
    // The limit of a holder that has expired binds nobody.
    let mut expired = holder("b", 1, 9);
    expired.insert("expiresAt", at(-1));
    store(&database, "over", vec![holder("a", 1, 5), expired]).await;
    let check = permits_of(&database).await;
    assert_eq!(check["status"], json!("note"), "{check}");
    let message = "the limits of holders differ: \"tenant:7\" (3, 5); \
                   the list of holders is damaged: \"unclear\"";
    assert_eq!(check["message"], json!(message));
    let differing = json!([{ "name": "tenant:7", "limits": [3, 5] }]);
    let details = json!({ "shared": 4, "differing": differing, "damaged": ["unclear"] });
    assert_eq!(check["details"], details);
    assert!(check["advice"].as_str().unwrap().contains("the smallest limit binds all"), "{check}");
}

#[tokio::test]
async fn doctor_names_ten_leases_and_counts_the_others() {
    let database = fresh().await;
    for number in 10..22 {
        let differ = vec![holder("a", 1, 5), holder("b", 1, 3)];
        store(&database, &format!("n{number}"), differ).await;
    }
    let check = permits_of(&database).await;
    let message = check["message"].as_str().unwrap();
    assert!(message.ends_with("\"n18\" (3, 5), \"n19\" (3, 5), 2 more"), "{message}");
    assert_eq!(check["details"]["differing"].as_array().unwrap().len(), 12, "{check}");
}

/// Another program wrote numbers into the list that no call can ask for.
#[tokio::test]
async fn absurd_permits_are_called_damaged() {
    let database = fresh().await;
    let manager = leases(&database).await;
    let held = manager.semaphore("a", 3).acquire().await.unwrap();
    let locks = database.collection::<Document>("locks");
    let absurd = doc! { "$set": { "holders.0.permits": i64::MAX, "holders.0.limit": 0_i64 } };
    locks.update_one(doc! { "name": "a" }, absurd).await.unwrap();
    let listed = run(tool_for(&database, &["ls"])).await;
    assert!(listed.data.contains("damaged: its list of holders"), "{listed:?}");
    let shown = run(tool_for(&database, &["show", "a"])).await;
    assert!(shown.data.contains("damaged: no call can ask for these"), "{shown:?}");
    locks.update_one(doc! { "name": "a" }, doc! { "$set": { "holders": [7] } }).await.unwrap();
    let forced = run(tool_for(&database, &["release", "a", "--force"])).await;
    assert_eq!(forced.exit, 65, "{forced:?}");
    for ran in [listed, shown, forced] {
        let all = format!("{}{}", ran.data, ran.talk);
        assert!(!all.contains("4294967295") && !all.contains(" 0 holders"), "{all}");
    }
    drop(held);
}
