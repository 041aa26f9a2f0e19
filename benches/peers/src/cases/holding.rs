//! The cost of holding: the memory of a lock, and the renewals of many.

use std::time::Duration;

use mongo_lease_measure::{Extent, Outcome, counted, host, number};

use crate::peers::{Peer, Renewal};
use crate::report::{Report, Table};
use crate::setup::{Host, Setup};
use crate::workers::Workers;

use super::NOTHING;

pub(crate) async fn measure(only: &[String], extent: Extent, report: &mut Report) -> Outcome<()> {
    let setup = Setup::new(only).await?;
    let (count, periods) = (extent.of(10_000, 1_000), extent.of(3, 1));
    let title = format!("Holding {count} locks in one process, each renewed every 10 s");
    let head = [
        "who",
        "on",
        "memory of a lock",
        "who renews",
        "requests a period",
        "client's processor time a period",
        "server's",
    ];
    let mut table = Table::new(&title, &head);
    for host in &setup.hosts {
        for (contender, peer) in host.peers.iter().filter(|it| !it.0.is_variant) {
            let mut workers = Workers::start(contender, host.server.address(), 1).await?;
            workers.order(0, &format!("hold {count}")).await?;
            let bytes = counted(workers.number().await?) / number(count);
            let mut row =
                vec![contender.name(), host.kind().label().to_owned(), format!("{bytes:.0} bytes")];
            row.extend(renewing(&mut workers, host, &**peer, periods).await?);
            workers.dismiss().await?;
            table.row(row);
        }
    }
    report.table(table);
    setup.close().await;
    Ok(())
}

/// The way of renewal, the requests, and the processor times of client and server.
async fn renewing(
    workers: &mut Workers,
    host: &Host,
    peer: &dyn Peer,
    periods: usize,
) -> Outcome<[String; 4]> {
    let who = match peer.renewal() {
        Renewal::ByItself => "it does",
        Renewal::ByCall => "the caller, each",
        Renewal::Never => return Ok(["nobody can", NOTHING, NOTHING, NOTHING].map(str::to_owned)),
    };
    let server = || host::processor_time_of(host.server.pid());
    let before = (host.server.renewals().await?, server());
    workers.order(0, &format!("renew {periods}")).await?;
    let client = Duration::from_millis(workers.number().await?);
    let (requests, server) = (host.server.renewals().await? - before.0, server() - before.1);
    let millis = |time: Duration| format!("{:.0} ms", time.as_secs_f64() * 1e3 / number(periods));
    let requests = format!("{:.1}", counted(requests) / number(periods));
    Ok([who.to_owned(), requests, millis(client), millis(server)])
}
