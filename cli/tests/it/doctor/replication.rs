//! Whether `doctor` tells a majority that does not come from one that it cannot ask.

use mongo_lease_testbed::FailCommand;
use serde_json::{Value, json};

use super::{check, examined};
use crate::tool::{lent_server, migrate};

#[tokio::test]
async fn a_majority_that_does_not_come_is_a_problem_and_one_out_of_sight_is_not() {
    const OUT_OF_TIME: i32 = 50;
    const NO_MAJORITY_READS: i32 = 148;
    let server = lent_server();
    let database = server.database().await;
    migrate(&database).await;
    let locks = format!("{}.locks", database.name());
    for (code, exit, status, words) in [
        (OUT_OF_TIME, 1, "problem", "no majority has the newest write after 15s"),
        (NO_MAJORITY_READS, 0, "note", "cannot be checked: "),
    ] {
        // The look at the majority is the first one at the locks.
        let fault = FailCommand::on(&["find"]).with("namespace", &locks).times(1).error_code(code);
        let fault = fault.enable(server.uri()).await;
        let (ran, report) = examined(&server, database.name(), &[]).await;
        assert_eq!(fault.disable().await, 1, "{report}");
        let replication = check(&report, "replication");
        assert_eq!((ran.exit, &replication["status"]), (exit, &json!(status)), "{report}");
        assert!(replication["message"].as_str().unwrap().contains(words), "{report}");
        assert_eq!(replication["details"]["lag_ms"], Value::Null, "{report}");
        let grants_wait =
            replication["advice"].as_str().is_some_and(|it| it.contains("grants wait"));
        assert_eq!(grants_wait, status == "problem", "{report}");
    }
}
