//! Growth of the collection, the number of processes, and the replica set. Each size has its floor beside it.
//!
//! The growth of the leases that one process holds is measured by `holding`.

mod documents;
mod managers;
mod replica;

use mongo_lease_measure::{Extent, Outcome};

use crate::report::Report;

pub(crate) async fn measure(extent: Extent, report: &mut Report) -> Outcome<()> {
    documents::measure(extent, report).await?;
    managers::measure(extent, report).await?;
    replica::measure(extent, report).await
}
