//! The end of the process: no task of the driver's panics in it, also under load.

use super::{Ran, ended, fresh, run, spawn, tool_for};

/// How many run at the same time, each of which is the others' load.
const AT_ONCE: usize = 15;

/// How often they do. The driver's tasks used to panic in about one of 40 runs.
fn rounds() -> usize {
    let is_long = std::env::var_os("MONGO_LEASE_LONG").is_some_and(|value| value == "1");
    if is_long { 20 } else { 5 }
}

fn assert_quiet(ran: &Ran) {
    assert_eq!((ran.exit, ran.talk.as_str()), (0, ""), "{ran:?}");
}

#[tokio::test]
async fn no_run_panics_at_its_end() {
    let database = fresh().await;
    assert_eq!(run(tool_for(&database, &["up"])).exit, 0);
    for _ in 0..rounds() {
        let started: Vec<_> =
            (0..AT_ONCE).map(|_| spawn(tool_for(&database, &["check"]))).collect();
        for child in started {
            assert_quiet(&ended(child));
        }
    }
}
