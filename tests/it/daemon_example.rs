//! `examples/daemon.rs` prints what it should.

use crate::examples::assert_prints_with;
use crate::lent::{lent_server, limit_transactions};

const SAID: &str = "\
Ann leads.
Ben waits. A round is due: Ann books round 1.
Another one is due: Ann has written round 2, and not committed it. There she is killed.
Ben leads after SOME s: her ttl, and 1 s for the clocks.
Of her round nothing is stored: Ben books round 2.
Another one is due: Ben has written round 3, and not committed it. There he is stopped.
Ann is started again, and leads after SOME s.
She does that round: Ann books round 3.
Ben wakes, and commits: he is refused, because its lease is lost.
3 rounds are booked, each once.
";

// It takes 9 s: two leases expire, and the server aborts two transactions.
#[tokio::test]
async fn of_a_daemons_rounds_each_is_booked_once_whoever_dies() {
    let server = lent_server().await;
    limit_transactions(&server, 2).await;
    assert_prints_with("daemon", Some(server.uri()), SAID).await;
}
