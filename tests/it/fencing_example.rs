//! `examples/fencing.rs` prints what it should.

use crate::examples::assert_prints;

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
  Another holder begins a transaction, guards it, and writes 4 apples in it: accepted.
  It is stopped before its commit.
  The lease has run out. But the guard is a write to the lease's own document: as
  long as the transaction is open, nobody is granted the lease. The server ends the
  transaction when it has been open for too long, and a successor is granted it.
  It writes 3: accepted.
  The holder wakes, and commits: refused.
  Why: either the guard is committed or the lease is granted to another, never both.
  There are 3 apples.
";

// It takes 6 s: two leases expire, and the server aborts a transaction.
#[tokio::test]
async fn the_example_of_fencing_says_what_happens_and_why_it_is_safe() {
    assert_prints("fencing", SAID).await;
}
