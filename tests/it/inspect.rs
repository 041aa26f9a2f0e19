//! Queries for leases: one, or many.

mod permits;
mod shared;

use std::time::Duration;

use futures_util::TryStreamExt;
use mongo_lease::mongodb::bson::{Bson, DateTime, doc};
use mongo_lease::{LeaseState, List};

use crate::both::check;
use crate::bson_types::of_every_other_type;
use crate::common::{SHORT_TTL, builder, setup};
use crate::lent::lent_database;
use crate::patience::{locks, soon, until_free};

#[derive(Debug, PartialEq, serde::Serialize, serde::Deserialize)]
struct Job {
    number: i64,
    host: Option<String>,
}

#[tokio::test]
async fn get_tells_who_holds_a_lease_since_when_and_for_how_long() {
    check(async |backend| {
        let leases = backend.manager().await;
        assert_eq!(leases.get("a").await.unwrap(), None);
        let job = Job { number: 7, host: Some("b".to_owned()) };
        let lease = leases.acquire("a").owner("billing").metadata(&job).await.unwrap();
        let info = leases.get("a").await.unwrap().expect("held");
        assert_eq!(info.metadata::<Job>().unwrap(), job);
        let error = info.metadata::<std::collections::BTreeMap<String, i64>>().unwrap_err();
        assert!(error.to_string().starts_with("the metadata are of another type: "), "{error}");
        assert_eq!(info.metadata, doc! { "number": 7_i64, "host": "b" });
        assert_eq!((info.name.as_str(), info.value.as_deref()), ("a", Some(lease.value())));
        let owner = info.owner.unwrap();
        assert!(owner.starts_with("billing@"), "{owner}");
        assert!(owner.ends_with(&format!(":{}", std::process::id())), "{owner}");
        assert_eq!(info.state, LeaseState::Held);
        assert_eq!((info.shared, info.in_use, info.limit), (false, Some(1), Some(1)));
        assert!(info.holders.is_empty(), "{:?}", info.holders);
        let (acquired_at, expires_at) = (info.acquired_at.unwrap(), info.expires_at.unwrap());
        // The ttl and the maximum clock skew.
        let (lasts, whole) =
            ((expires_at - acquired_at).to_std().unwrap(), Duration::from_secs(31));
        // An attempt that was repeated has prolonged it.
        assert!(lasts >= whole && lasts <= whole + backend.late(), "{lasts:?}");
        assert_eq!(expires_at, lease.expires_at());
        let remaining = info.remaining.unwrap();
        assert!(remaining + 2 * backend.late() > whole && remaining <= whole, "{remaining:?}");
        lease.release().await.unwrap();
        assert_eq!(leases.get("a").await.unwrap(), None);
    })
    .await;
}

#[tokio::test]
async fn lists_filter_by_prefix_and_glob_with_special_chars_literal() {
    check(async |backend| {
        let leases = backend.manager().await;
        let names = [
            "job:1", "job:12", "job:1\n2", "jobs", "Job:1", "job.1", "job*1", "job?1", "[job]",
            "(a|b)", "^job", "job$", "a\\b", "ünï", "x{2}", "xx", "job:1 ",
        ];
        for name in names {
            let _key = leases.acquire(name).await.unwrap().detach().await.unwrap();
        }
        let longest = "\\*".repeat(512);
        let cases: [(List, &[&str]); 14] = [
            (leases.list().glob(longest), &[]),
            (leases.list().prefix("job:1"), &["job:1", "job:1\n2", "job:1 ", "job:12"]),
            (leases.list().prefix("job."), &["job.1"]),
            (leases.list().prefix("[job"), &["[job]"]),
            (leases.list().prefix("^"), &["^job"]),
            (leases.list().glob("job:?"), &["job:1"]),
            (leases.list().glob("job:1?2"), &["job:1\n2"]),
            (leases.list().glob("*1"), &["Job:1", "job*1", "job.1", "job:1", "job?1"]),
            (leases.list().glob("job\\*1"), &["job*1"]),
            (leases.list().glob("(a|b)"), &["(a|b)"]),
            (leases.list().glob("job$"), &["job$"]),
            (leases.list().glob("a\\\\b"), &["a\\b"]),
            (leases.list().glob("?n?"), &["ünï"]),
            (leases.list().glob("x{2}"), &["x{2}"]),
        ];
        for (number, (list, wanted)) in cases.into_iter().enumerate() {
            assert_eq!(names_of(list).await, wanted, "case {number}");
        }
        let mut all = names.to_vec();
        all.sort_unstable();
        assert_eq!(names_of(leases.list()).await, all);
        assert_eq!(names_of(leases.list().glob("*")).await, all);
        assert_eq!(names_of(leases.list().prefix("")).await, all);
    })
    .await;
}

#[tokio::test]
async fn free_leases_are_listed_only_when_asked_for() {
    // Not on the shared server, whose TTL monitor removes expired documents within a second.
    let (_server, database) = lent_database().await;
    let leases = builder(&database).max_clock_skew(Duration::ZERO).build().await.unwrap();
    let _held = leases.acquire("held").await.unwrap();
    let _expired = leases.acquire("expired").ttl(SHORT_TTL).renew(false).await.unwrap();
    let locks = locks(&database);
    locks.insert_one(doc! { "name": "never", "expiresAt": null }).await.unwrap();
    locks.insert_one(doc! { "name": "damaged", "expiresAt": "soon" }).await.unwrap();
    until_free(&leases, "expired").await;
    assert_eq!(names_of(leases.list()).await, ["damaged", "held"]);
    let all: Vec<_> = leases.list().with_free().stream().unwrap().try_collect().await.unwrap();
    let states: Vec<_> = all.iter().map(|info| (info.name.as_str(), info.is_held())).collect();
    let wanted = [("damaged", true), ("expired", false), ("held", true), ("never", false)];
    assert_eq!(states, wanted);
}

/// Names of other types, and lists of names: an index keeps each element of a list, and a listing uses that index.
#[tokio::test]
async fn documents_of_other_programs_with_odd_names_are_passed_over() {
    let (database, leases) = setup().await;
    let locks = locks(&database);
    let mut names: Vec<Bson> = of_every_other_type().into_iter().map(|(_, odd)| odd).collect();
    // Texts among them are names like any other.
    names.retain(|odd| odd.as_str().is_none());
    names.extend([Bson::Null, vec!["b", "y"].into(), vec!["zz", "zzz"].into()]);
    for odd in names {
        let document = doc! { "name": odd, "value": "v", "expiresAt": DateTime::MAX };
        locks.insert_one(document).await.unwrap();
    }
    // Not `a`: one of the above is a symbol of that name, which the server treats as equal.
    let _c = leases.acquire("c").await.unwrap();
    let _x = leases.acquire("x").await.unwrap();
    for list in [leases.list(), leases.list().with_free(), leases.list().glob("*")] {
        assert_eq!(soon("the list comes to an end", names_of(list)).await, ["c", "x"]);
    }
}

pub(crate) async fn names_of(list: List) -> Vec<String> {
    list.stream().unwrap().map_ok(|info| info.name).try_collect().await.unwrap()
}
