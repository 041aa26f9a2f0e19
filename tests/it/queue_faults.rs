//! What goes wrong while processes wait in line: nobody waits past its deadline, nobody is forgotten, order is kept
//! wherever the queue survived, and there are never two holders.

mod crowd;
mod deadlines;
mod documents;
mod failover;
mod lost;
mod neighbours;
mod no_stream;
mod stream;
