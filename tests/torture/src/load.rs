//! The order to make many calls at once, as a line for a worker, and the worker's report.

use mongo_lease_testbed::LineOutput;
use tokio::sync::Mutex;

/// How long each call of a load may wait, in milliseconds. The last calls of a great load time out.
pub(crate) const WAIT_MS: u64 = 2_000;
/// The ttl of its leases, in milliseconds. It shortens the deadline of an attempt to 0.5 s, and more calls than go out
/// in that time are an overload.
pub(crate) const TTL_MS: u64 = 1_000;

/// A load for one worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Load {
    /// The number of the fault.
    pub(crate) number: usize,
    /// How many calls start at once.
    pub(crate) calls: u64,
}

impl Load {
    /// The line for the worker.
    pub(crate) fn order(self) -> String {
        format!("load {} {}", self.number, self.calls)
    }

    /// The load that this line orders; `None` for another order.
    pub(crate) fn parse(order: &str) -> Option<Load> {
        let (number, calls) = order.strip_prefix("load ")?.split_once(' ')?;
        Some(Load { number: number.parse().ok()?, calls: calls.parse().ok()? })
    }

    /// The line with which the worker reports its end.
    pub(crate) fn report(self) -> String {
        format!("load {} is over", self.number)
    }

    /// Waits for the report, or for the end of the worker.
    pub(crate) async fn reported(self, output: &Mutex<LineOutput>) {
        let mut output = output.lock().await;
        // The report of an earlier load may have come late.
        while let Ok(Some(line)) = output.next_line().await {
            if line == self.report() {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_is_read_as_it_was_written() {
        let load = Load { number: 3, calls: 2_000 };
        assert_eq!(Load::parse(&load.order()), Some(load));
        assert_eq!(Load::parse("end"), None);
    }
}
