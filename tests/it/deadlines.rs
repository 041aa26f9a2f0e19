//! The database holds a command for longer than its deadline: the caller is answered, and nothing stays locked.

use std::mem::ManuallyDrop;
use std::time::{Duration, Instant};

use mongo_lease::mongodb::change_stream::event::OperationType;
use mongo_lease::{Error, LeaseManager, Released, Tuning};
use mongo_lease_testbed::{FailCommand, FailPointGuard, Server};

use crate::common::{TryOnce, builder};
use crate::lent::{Proxied, lent_database, proxied};
use crate::patience::{bounded, locks, until, written};
use crate::permits::{Ask, dropped, permits, writer};

const WAIT: Duration = Duration::from_millis(500);

/// The result of a call that comes back, and not before this time.
async fn after<T>(time: Duration, call: impl IntoFuture<Output = T>) -> T {
    let started = Instant::now();
    let result = bounded(call.into_future()).await;
    assert!(started.elapsed() >= time, "{:?}", started.elapsed());
    result
}

/// Holds commands for much longer than any call waits. It is left on, because switching it off would wait for them.
/// They end when the server is lent again.
pub(crate) async fn hold(server: &Server, fault: FailCommand) -> ManuallyDrop<FailPointGuard> {
    ManuallyDrop::new(fault.block_for(Duration::from_secs(60)).enable(server.uri()).await)
}

fn quick() -> Tuning {
    Tuning::default().attempt_timeout(WAIT / 2)
}

#[tokio::test]
async fn an_acquire_that_the_server_holds_comes_back_at_its_deadline() {
    let (server, database) = lent_database().await;
    let leases = builder(&database).build().await.unwrap();
    let asking_once = builder(&database).tuning(quick()).build().await.unwrap();
    let guard = hold(&server, FailCommand::on(&["findAndModify"])).await;
    let error = after(WAIT, leases.acquire("a").wait(WAIT)).await.unwrap_err();
    assert!(matches!(error, Error::WaitTimeout { .. }), "{error}");
    guard.wait_times_entered(1).await;
    // It comes back after two attempts.
    let error = after(WAIT, asking_once.try_acquire("b")).await.unwrap_err();
    assert!(matches!(error, Error::Unknown { .. }), "{error}");
    guard.wait_times_entered(2).await;
}

#[tokio::test]
async fn looks_and_pings_come_back_at_their_deadlines() {
    let (server, database) = lent_database().await;
    let client = server.client_with(|options| options.app_name = Some("looker".to_owned())).await;
    let looker = LeaseManager::builder(&database.through(&client)).tuning(quick());
    let looker = looker.build().await.unwrap();
    let _guard = hold(&server, FailCommand::on(&["find", "hello"]).app_name("looker")).await;
    after(WAIT / 2, looker.get("a")).await.unwrap_err();
    after(WAIT / 2, looker.ping()).await.unwrap_err();
}

#[tokio::test]
async fn a_hanging_release_returns_and_continues_in_the_background() {
    let options = proxied(|builder| builder.release_timeout(WAIT));
    let Proxied { _server, database, proxy, slow, .. } = options.await;
    let lease = slow.acquire("a").await.unwrap();
    let mut changes = locks(&database).watch().await.unwrap();
    let requests = proxy.hold_requests_to("delete");
    let error = after(WAIT, lease.release()).await.unwrap_err();
    assert!(matches!(error, Error::Unknown { .. }), "{error}");
    requests.release();
    written(&mut changes, OperationType::Delete).await;
}

/// A message of its acquire is held back until it has been dropped.
#[tokio::test]
async fn what_a_dropped_call_wins_is_given_back() {
    let both_permits: Ask = |leases| permits(2, 2)(leases);
    let cases: [(_, Ask); 4] = [
        ("request", writer),
        ("reply", writer),
        ("reply for permits", both_permits),
        ("lost reply", writer),
    ];
    let Proxied { _server, database, proxy, slow, direct } = proxied(|builder| builder).await;
    for (message, ask) in cases {
        eprintln!("the held message is the {message}");
        let held = match message {
            "request" => proxy.hold_requests_to("findAndModify"),
            _ => proxy.hold_replies_to("findAndModify"),
        };
        // It does not expire within the test.
        let call = ask(&slow).ttl(Duration::from_secs(300));
        let call = tokio::spawn(call.into_future());
        bounded(held.held(1)).await;
        let is_written = direct.get("a").await.unwrap().is_some();
        assert_eq!(is_written, message != "request", "{message}");
        let mut changes = locks(&database).watch().await.unwrap();
        dropped(call).await;
        if message == "lost reply" {
            proxy.cut();
        }
        held.release();
        if message == "request" {
            written(&mut changes, OperationType::Insert).await;
        }
        let free = async || ask(&direct).try_once().await.unwrap().granted();
        let again = until("what was granted is free", free).await;
        assert_eq!(again.release().await.unwrap(), Released::Released, "{message}");
    }
}
