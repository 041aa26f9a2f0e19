//! `examples/fencing.rs` prints what it should.

use crate::examples::assert_prints_with;
use crate::lent::{lent_server, limit_transactions};

const SAID: &str = "\
The stock is 10 apples. Who holds the lease `stock` may change it.

By token
  A holder, in a process of its own, is granted the lease for 1 s.
  Its token is TOKEN. It writes 9 apples: accepted.
  Then it is stopped in the middle of its work, and cannot renew the lease.
  A successor is granted it after SOME s: the ttl, and 1 s for the clocks.
  Its token is TOKEN, which is greater. It writes 5: accepted.
  The holder wakes. It does not look at the lease, and writes 8: refused.
  Why: the document has seen the newer token. No clock takes part in that.
  Asked, its lease says: it is lost.
  There are 5 apples.

By transaction
  Another holder begins a transaction under the lease, and writes 4 apples: accepted.
  It is stopped before its commit.
  A successor is granted it after SOME s: the open transaction keeps nobody from it.
  It keeps the apples, until the server ends it because it has been open for too long.
  Then the successor writes 3: accepted.
  The holder wakes, and commits: refused.
  Why: the commit writes to the lease's own document, in the same transaction. Either
  that is committed or the lease is granted to another, never both.
  There are 3 apples.
";

// It takes 6 s: two leases expire, and the server aborts a transaction.
#[tokio::test]
async fn the_example_of_fencing_says_what_happens_and_why_it_is_safe() {
    let server = lent_server().await;
    limit_transactions(&server, 2).await;
    assert_prints_with("fencing", Some(server.uri()), SAID).await;
}
