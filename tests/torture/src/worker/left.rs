//! The resources that a worker still has after it has closed everything.

use std::time::Duration;

use mongo_lease::mongodb::Client;
use mongo_lease_checker::history::What;
use tokio::runtime::Handle;

use crate::history::Writer;

/// How long the driver may take to close its connections.
const PATIENCE: Duration = Duration::from_secs(5);

/// Closes the client, and writes down what is left then.
pub(super) async fn note(history: &Writer, client: Client) {
    // Not at once: the driver still has to tell the server that a stream's cursor is not needed any more.
    let closing = client.shutdown();
    let _hangs = tokio::time::timeout(PATIENCE, async { closing.await }).await;
    let mut left = (usize::MAX, usize::MAX);
    let looks = PATIENCE.as_millis() / 50;
    for _ in 0..looks {
        left = (Handle::current().metrics().num_alive_tasks(), sockets());
        if left == (0, 0) {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    history.note(What::Left {
        tasks: left.0,
        sockets: left.1,
        memory_kb: memory_kb("VmRSS:"),
        memory_peak_kb: memory_kb("VmHWM:"),
    });
}

fn sockets() -> usize {
    let Ok(entries) = std::fs::read_dir("/proc/self/fd") else {
        return 0;
    };
    let is_tcp = |path: std::path::PathBuf| {
        std::fs::read_link(path).is_ok_and(|target| {
            target.to_string_lossy().starts_with("socket:")
                && is_in_tcp_table(&target.to_string_lossy())
        })
    };
    entries.flatten().filter(|entry| is_tcp(entry.path())).count()
}

/// The runtime has a pair of sockets of its own, for signals.
fn is_in_tcp_table(target: &str) -> bool {
    let inode = target.trim_start_matches("socket:[").trim_end_matches(']');
    let table = std::fs::read_to_string("/proc/self/net/tcp").unwrap_or_default();
    table.lines().any(|line| line.split_whitespace().nth(9) == Some(inode))
}

fn memory_kb(field: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(field));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}
