//! Growth of the collection, the number of processes, the replica set, and the calls of one process. Each size has its
//! floor beside it, or the size before.
//!
//! The growth of the leases that one process holds is measured by `holding`.

mod calls;
mod documents;
mod managers;
mod replica;

use mongo_lease_measure::{Extent, Outcome};

use crate::report::Report;

pub(crate) async fn measure(extent: Extent, report: &mut Report) -> Outcome<()> {
    calls::measure(extent, report).await?;
    documents::measure(extent, report).await?;
    managers::measure(extent, report).await?;
    replica::measure(extent, report).await
}
