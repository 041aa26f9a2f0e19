//! A process with a manager, for the tests: `URI DATABASE`. It obeys the lines of its input, and answers each with one.
//!
//! | line | answer |
//! | --- | --- |
//! | `hold NAME` | the holder, as its document shows it |
//! | `look NAME` | whether this process holds it, and the text of a refusal |
//! | `fork NAME` | what a forked child did with a lease of its parent |

use std::fmt::Display;
use std::process::ExitCode;
use std::time::Duration;

use fork::{Fork, fork, waitpid};
use mongo_lease::mongodb::Client;
use mongo_lease::{Attempt, Lease, LeaseManager, Result};
use mongo_lease_testbed::{orders, say};

fn main() -> ExitCode {
    // Tasks and all run on this thread, which a forked child has too.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    match runtime.expect("a runtime").block_on(obey()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

async fn obey() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [uri, database] = &arguments[..] else { panic!("give a URI and a database") };
    let client = Client::with_uri_str(uri).await?;
    let leases = LeaseManager::builder(&client.database(database)).owner("test").build().await?;
    let mut held: Vec<Lease> = Vec::new();
    let mut lines = orders();
    while let Some(line) = lines.recv().await {
        match line.split_once(' ').expect("an order and a name") {
            ("hold", name) => {
                held.push(leases.acquire(name).await?);
                let shown = leases.get(name).await?.expect("it is held");
                answer(format_args!("{} {}", shown.owner.unwrap_or_default(), shown.held_here));
            }
            ("look", name) => {
                let shown = leases.get(name).await?.expect("it is held");
                let refused = match leases.try_acquire(name).await? {
                    Attempt::Busy(info) => info.held_here,
                    Attempt::Granted(_) => panic!("it is held by another process"),
                };
                let waited = leases.acquire(name).wait(Duration::ZERO).await;
                let text = waited.expect_err("it is held").to_string();
                answer(format_args!("{} {refused} {text}", shown.held_here));
            }
            ("fork", name) => {
                let lease = leases.acquire(name).await?;
                match fork().expect("a child") {
                    Fork::Parent(child) => {
                        waitpid(child).expect("the child ends");
                        // Its connections are no longer fit for use: the child may have used them.
                        std::process::exit(0);
                    }
                    Fork::Child => child(&leases, lease).await,
                }
            }
            (other, _) => panic!("unknown: {other}"),
        }
    }
    Ok(())
}

/// The child that was forked while its parent held a lease drops the copy, and ends in good order.
async fn child(leases: &LeaseManager, lease: Lease) -> ! {
    drop(lease);
    let refused = leases.try_acquire("another").await.expect_err("the manager is its parent's");
    leases.shutdown().await;
    answer(refused);
    std::process::exit(0);
}

fn answer(line: impl Display) {
    let _ = say(format_args!("{line}"));
}
