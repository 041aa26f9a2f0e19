//! Faults while processes wait in the queue: no wait exceeds its deadline, no waiter is forgotten, order is kept
//! wherever the queue survived, and there are never two holders.

mod crowd;
mod deadlines;
mod documents;
mod failover;
mod lost;
mod neighbours;
mod no_stream;
mod stream;
