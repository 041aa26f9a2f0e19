//! Clients whose wall clocks are wrong by an hour: expiry is by the server's clock alone.

use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use mongo_lease::mongodb::Database;
use mongo_lease::mongodb::bson::DateTime;
use mongo_lease::{Attempt, Lease, LeaseManager};
use mongo_lease_testbed::{Server, command};

use crate::common::{builder, document, migrated};
use crate::patience;
use crate::worker::{Worker, as_worker, orders, say};

const HOUR_MS: i64 = 3_600_000;

/// Moves the wall clock that a process in Rust reads, and no other of its clocks. `cc` is there: Rust links with it.
const SHIM: &str = r#"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <time.h>

static long offset(void) {
    const char *seconds = getenv("WALL_CLOCK_OFFSET");
    return seconds ? atol(seconds) : 0;
}
int clock_gettime(clockid_t id, struct timespec *time) {
    static int (*real)(clockid_t, struct timespec *);
    if (!real) real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    int result = real(id, time);
    if (result == 0 && id == CLOCK_REALTIME) time->tv_sec += offset();
    return result;
}
"#;

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_client_an_hour_ahead_and_one_an_hour_behind_behave_alike() {
    const NAME: &str = "clocks::a_client_an_hour_ahead_and_one_an_hour_behind_behave_alike";
    if let Some(database) = as_worker().await {
        return ask_with_a_wrong_clock(&database).await;
    }
    let server = Server::shared();
    let database = migrated(server).await;
    let leases = builder(&database).max_clock_skew(Duration::ZERO).build().await.unwrap();
    let shim = build_shim();
    for offset_ms in [HOUR_MS, -HOUR_MS] {
        let offset_seconds = (offset_ms / 1_000).to_string();
        let variables =
            [("LD_PRELOAD", shim.to_str().unwrap()), ("WALL_CLOCK_OFFSET", &offset_seconds)];
        let mut worker = Worker::start_with(NAME, server.uri(), &database, &variables);
        // Its clock is really wrong.
        let theirs: i64 = worker.says().await.parse().unwrap();
        assert!((theirs - wall_clock_ms() - offset_ms).abs() < 60_000, "{theirs}");

        // A lease that we hold is refused to it, in the first second as in the last.
        let lease = leases.acquire("held").await.unwrap();
        worker.tell("held").await;
        let refused = worker.says().await;
        let (_, remaining) = refused.split_once("busy ").unwrap_or_else(|| panic!("{refused}"));
        let remaining: u64 = remaining.parse().unwrap();
        assert!((1..=30_000).contains(&remaining), "{remaining}");

        // A lease that it holds expires by the server's clock.
        worker.tell("theirs").await;
        assert_eq!(worker.says().await, "granted");
        let found = document(&database, "theirs").await.unwrap();
        let expires_at = found.get_datetime("expiresAt").unwrap().timestamp_millis();
        let left = expires_at - DateTime::now().timestamp_millis();
        assert!((1..=30_000).contains(&left), "{left}");
        assert!(leases.try_acquire("theirs").await.unwrap().granted().is_none());

        // It is granted an expired lease, and not before the expiry.
        let ttl = Duration::from_secs(2);
        let _ours = leases.acquire("expiring").ttl(ttl).renew(false).await.unwrap();
        let expiry = patience::expires_at(&database, "expiring").await;
        worker.tell("wait:expiring").await;
        assert_eq!(worker.says().await, "granted");
        let found = document(&database, "expiring").await.unwrap();
        let grant = found.get_document("grant").unwrap();
        assert!(*grant.get_datetime("acquiredAt").unwrap() >= expiry, "{found}");

        worker.tell("release").await;
        assert_eq!(worker.says().await, "released 2");
        lease.release().await.unwrap();
    }
    std::fs::remove_dir_all(shim.parent().unwrap()).unwrap();
}

/// The other process: it acquires leases as ordered, and keeps them until it is told otherwise.
async fn ask_with_a_wrong_clock(database: &Database) {
    let leases =
        LeaseManager::builder(database).max_clock_skew(Duration::ZERO).build().await.unwrap();
    let mut orders = orders();
    let mut held: Vec<Lease> = Vec::new();
    say(wall_clock_ms());
    while let Some(order) = orders.recv().await {
        if order == "release" {
            let count = held.len();
            for lease in held.drain(..) {
                assert!(lease.is_valid());
                lease.release().await.unwrap();
            }
            say(format!("released {count}"));
        } else if let Some(name) = order.strip_prefix("wait:") {
            held.push(leases.acquire(name).await.unwrap());
            say("granted");
        } else {
            match leases.try_acquire(&order).await.unwrap() {
                Attempt::Granted(lease) => {
                    held.push(lease);
                    say("granted");
                }
                Attempt::Busy(info) => {
                    say(format!("busy {}", info.remaining.unwrap().as_millis()));
                }
            }
        }
    }
}

fn wall_clock_ms() -> i64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    i64::try_from(since.as_millis()).unwrap()
}

fn build_shim() -> PathBuf {
    let folder = format!("mongo-lease-clock-{}", std::process::id());
    let folder = std::env::temp_dir().join(folder);
    std::fs::create_dir_all(&folder).unwrap();
    let (source, library) = (folder.join("shim.c"), folder.join("shim.so"));
    std::fs::write(&source, SHIM).unwrap();
    let built = command("cc")
        .args(["-shared", "-fPIC", "-O1", "-o"])
        .args([&library, &source])
        .arg("-ldl")
        .output()
        .expect("a C compiler");
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    library
}
