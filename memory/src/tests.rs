//! A lease that several hold as users see it, on a real server and in memory: by the commands that admit.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use mongo_lease_core::bson::doc;
use mongo_lease_core::commands::{
    AcquireReply, AcquireRequest, FastAcquire, FastAdmit, GetLease, Page, SlowAcquire,
};
use mongo_lease_core::info::LeaseInfo;
use mongo_lease_core::rules::{FastForm, Instant, NamePattern, Permits, Timing, millis_up};
use mongo_lease_testbed::{Server, TestDatabase};

use crate::{InMemory, Leases};

const SENT: Instant = Instant::from_micros(7_000_001);
/// The date in memory.
const NOW_MS: i64 = 1_700_000_000_000;

enum Backend {
    Real(TestDatabase),
    Memory(Mutex<Leases>),
}

impl Backend {
    async fn run<C: InMemory>(&self, command: C) -> C::Reply {
        match self {
            Backend::Real(database) => {
                let reply = database.run_command(command.build("locks", SENT)).await.unwrap();
                command.decode(&reply, SENT).unwrap()
            }
            Backend::Memory(leases) => {
                let mut leases = leases.lock().unwrap();
                command.carry_out(&mut leases.collection("locks", NOW_MS), SENT)
            }
        }
    }

    async fn get(&self, name: &str) -> LeaseInfo {
        let found = self.run(GetLease { name: name.to_owned() }).await;
        let [seen] = &found[..] else { panic!("{found:?}") };
        seen.info.clone()
    }

    async fn admit(&self, name: &str, value: &str, permits: Permits, ttl: Duration) {
        let request = call(name, value, permits, ttl);
        let reply = self.run(FastAdmit { request, attempt_no: 1 }).await;
        assert!(matches!(reply, AcquireReply::Granted(_)), "{value}: {reply:?}");
    }

    async fn acquire(&self, name: &str, value: &str) {
        let request = call(name, value, Permits::EXCLUSIVE, Duration::from_secs(30));
        let form = FastForm::LookUp;
        let reply = self
            .run(FastAcquire { request, attempt_no: 1, form, resends: 0, first_sent: None })
            .await;
        assert!(matches!(reply, AcquireReply::Granted(_)), "{value}: {reply:?}");
    }
}

/// Runs this on a real server, and in memory.
async fn check(test: impl AsyncFn(&Backend)) {
    let database = Server::shared().database().await;
    let index = doc! { "key": { "name": 1 }, "name": "name_1", "unique": true };
    let indexes = doc! { "createIndexes": "locks", "indexes": [index] };
    database.run_command(indexes).await.unwrap();
    let real = Backend::Real(database);
    test(&real).await;
    test(&Backend::Memory(Mutex::new(Leases::new(NOW_MS)))).await;
    let Backend::Real(database) = real else { unreachable!() };
    database.drop_database().await.unwrap();
}

/// The call of a process whose owner is the value's first letter.
fn call(name: &str, value: &str, permits: Permits, ttl: Duration) -> Arc<AcquireRequest> {
    let timing = Timing::new(ttl, Duration::from_secs(1), None).unwrap();
    Arc::new(AcquireRequest {
        name: name.to_owned(),
        value: value.to_owned(),
        call_id: value.into(),
        owner: owner(&value[..1]).into(),
        metadata: doc! { "of": value },
        permits,
        timing: Arc::new(timing),
        has_oplog: true,
        joins: None,
    })
}

fn slow(request: Arc<AcquireRequest>, attempt_no: u32) -> SlowAcquire {
    SlowAcquire { request, attempt_no, predecessor: None }
}

fn owner(label: &str) -> String {
    format!("{label}@host:1")
}

fn of(count: u32, limit: u32) -> Permits {
    Permits::new(count, limit).unwrap()
}

const LONG: Duration = Duration::from_secs(300);
const SHORT: Duration = Duration::from_secs(60);

#[tokio::test]
async fn get_shows_who_holds_permits() {
    check(async |backend| {
        backend.admit("tenant:7", "a", of(2, 5), LONG).await;
        backend.admit("tenant:7", "b", of(1, 3), SHORT).await;
        let info = backend.get("tenant:7").await;
        assert_eq!((info.shared, info.in_use, info.limit), (true, Some(3), Some(3)));
        assert_eq!((&info.owner, info.acquired_at, &info.metadata), (&None, None, &doc! {}));
        let [a, b] = &info.holders[..] else { panic!("{info:?}") };
        assert_eq!((a.value.as_str(), b.value.as_str()), ("a", "b"));
        assert_eq!(a.owner, Some(owner("a")));
        assert_eq!((a.permits, a.limit, b.permits, b.limit), (2, 5, 1, 3));
        assert_eq!((&a.metadata, &b.metadata), (&doc! { "of": "a" }, &doc! { "of": "b" }));
        for (holder, ttl) in [(a, LONG), (b, SHORT)] {
            let lasts = holder.expires_at.unwrap() - holder.acquired_at.unwrap();
            assert_eq!(lasts.num_milliseconds(), millis_up(ttl) + 1_000);
            assert!(
                holder.remaining > ttl - Duration::from_secs(30)
                    && holder.remaining <= ttl + Duration::from_secs(1)
            );
        }
        // The name is taken for others until the last holder's time is over.
        assert_eq!(info.expires_at, a.expires_at);
    })
    .await;
}

#[tokio::test]
async fn an_exclusive_lease_has_one_of_one() {
    check(async |backend| {
        backend.acquire("a", "x").await;
        let info = backend.get("a").await;
        assert_eq!((info.shared, info.in_use, info.limit), (false, Some(1), Some(1)));
        assert!(info.holders.is_empty(), "{info:?}");
    })
    .await;
}

#[tokio::test]
async fn a_refused_call_for_permits_tells_how_many_are_in_use() {
    check(async |backend| {
        backend.admit("tenant:7", "a", of(3, 5), LONG).await;
        backend.admit("tenant:7", "b", of(2, 5), SHORT).await;
        let request = || call("tenant:7", "c", of(1, 5), LONG);
        let fast = backend.run(FastAdmit { request: request(), attempt_no: 1 }).await;
        let slow = backend.run(slow(request(), 2)).await;
        for reply in [fast, slow] {
            let AcquireReply::Refused(refused) = reply else { panic!("{reply:?}") };
            let info = &refused.info;
            assert_eq!((info.shared, info.in_use, info.limit), (true, Some(5), Some(5)));
            assert!(info.remaining.unwrap() <= SHORT + Duration::from_secs(1), "{info:?}");
            let text = info.to_string();
            let begin = "lease \"tenant:7\" has 5 of 5 permits in use; the first expires in ";
            assert!(text.starts_with(begin), "{text}");
        }
    })
    .await;
}

/// Trap 1 of shared use: an exclusive first attempt is refused by the grant of the second one, and of permits there may
/// be more.
#[tokio::test]
async fn a_late_fast_attempt_takes_no_second_permit() {
    check(async |backend| {
        let request = call("tenant:7", "a", of(1, 5), LONG);
        let second = slow(Arc::clone(&request), 2);
        let AcquireReply::Granted(granted) = backend.run(second).await else { panic!("free") };
        let late = backend.run(FastAdmit { request, attempt_no: 1 }).await;
        assert_eq!(late, AcquireReply::UseSlowForm { maybe_granted: false });
        let info = backend.get("tenant:7").await;
        assert_eq!((info.in_use, info.holders.len()), (Some(1), 1), "{:?}", granted.grant_id);
    })
    .await;
}

/// Its command is the same as ever, and its reply does not show the holders.
#[tokio::test]
async fn a_refused_exclusive_call_tells_of_shared_use() {
    check(async |backend| {
        backend.admit("doc", "a", Permits::SHARED, SHORT).await;
        let request = call("doc", "w", Permits::EXCLUSIVE, LONG);
        let reply = backend.run(slow(request, 1)).await;
        let AcquireReply::Refused(refused) = reply else { panic!("{reply:?}") };
        let info = refused.info;
        assert_eq!((info.shared, info.in_use, info.limit), (true, None, None));
        assert!(info.to_string().starts_with("lease \"doc\" is held by several for "), "{info}");
    })
    .await;
}

#[tokio::test]
async fn a_page_by_owner_has_the_leases_that_it_shares() {
    check(async |backend| {
        for name in ["s1", "s3"] {
            backend.admit(name, "b1", of(1, 5), LONG).await;
            backend.admit(name, "a1", of(1, 5), LONG).await;
        }
        backend.admit("s2", "b1", of(1, 5), LONG).await;
        backend.acquire("x1", "a2").await;
        backend.acquire("x2", "b2").await;
        let page = async |label: &str, after: Option<&str>| -> Vec<String> {
            let owner = Some(owner(label));
            let after = after.map(str::to_owned);
            let page = Page { pattern: NamePattern::All, owner, after, limit: 2 };
            let found = backend.run(page).await;
            assert!(found.iter().all(|seen| seen.info.shared != seen.info.holders.is_empty()));
            found.into_iter().map(|seen| seen.info.name).collect()
        };
        assert_eq!(page("a", None).await, ["s1", "s3"]);
        assert_eq!(page("a", Some("s3")).await, ["x1"]);
        assert_eq!(page("a", Some("x1")).await, Vec::<String>::new());
        assert_eq!(page("b", Some("s1")).await, ["s2", "s3"]);
        assert_eq!(page("c", None).await, Vec::<String>::new());
    })
    .await;
}
