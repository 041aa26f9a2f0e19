//! A Rust process that holds leases: one order a line, one answer a line.
//!
//! `acquire NAME`, `wait NAME` (answers when it waits, and again when it holds), `release NAME`, `renew NAME`,
//! `shared NAME`, `permit NAME LIMIT`, `detach NAME` (answers with the key), `resume KEY`.

use std::collections::HashMap;
use std::pin::pin;
use std::time::Duration;

use futures_util::StreamExt;
use mongo_lease::mongodb::Client;
use mongo_lease::{Event, Lease, LeaseManager};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::sync::mpsc;

use crate::Failed;

const WAIT: Duration = Duration::from_secs(60);

/// Carries out the orders until the input ends.
pub(crate) async fn run(uri: &str, database: &str) -> Result<(), Failed> {
    let client = Client::with_uri_str(uri).await?;
    let database = client.database(database);
    let builder = LeaseManager::builder(&database).owner("rust").ensure_indexes(true);
    let leases = builder.build().await?;
    let mut held: HashMap<String, Lease> = HashMap::new();
    let (sender, mut granted) = mpsc::unbounded_channel();
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    println!("ready");
    loop {
        let line = tokio::select! {
            line = lines.next_line() => line?,
            Some((name, lease)) = granted.recv() => {
                let lease: Lease = lease;
                println!("granted {name} {}", lease.token()?);
                held.insert(name, lease);
                continue;
            }
        };
        let Some(line) = line else { break };
        let words: Vec<&str> = line.split(' ').collect();
        match words.as_slice() {
            ["acquire", name] => {
                let lease = leases.acquire(*name).wait(WAIT).await?;
                println!("granted {name} {}", lease.token()?);
                held.insert((*name).to_owned(), lease);
            }
            ["shared", name] => {
                let lease = leases.acquire(*name).shared().wait(WAIT).await?;
                println!("granted {name} {}", lease.token()?);
                held.insert((*name).to_owned(), lease);
            }
            ["try", name] => {
                let attempt = leases.try_acquire(*name).await?;
                println!("{}", if attempt.is_granted() { "granted" } else { "busy" });
            }
            ["wait", name] => wait(&leases, name, sender.clone()).await,
            ["release", name] => {
                let lease = held.remove(*name).ok_or("it is not held")?;
                println!("{:?} {name}", lease.release().await?);
            }
            ["detach", name] => {
                let lease = held.remove(*name).ok_or("it is not held")?;
                println!("{}", serde_json::to_string(&lease.detach().await?)?);
            }
            ["resume", key] => {
                let lease = leases.resume(serde_json::from_str(key)?).await?;
                println!("granted {} {}", lease.name(), lease.token()?);
                held.insert(lease.name().to_owned(), lease);
            }
            _ => return Err(format!("no such order: {line}").into()),
        }
    }
    leases.shutdown().await;
    client.shutdown().await;
    Ok(())
}

/// Waits in a task of its own. Tells when the call is in the queue.
async fn wait(leases: &LeaseManager, name: &str, sender: mpsc::UnboundedSender<(String, Lease)>) {
    let mut events = pin!(leases.events());
    let call = leases.acquire(name).wait(WAIT);
    let name = name.to_owned();
    tokio::spawn(async move {
        if let Ok(lease) = call.await {
            let _ = sender.send((name, lease));
        }
    });
    while let Some(event) = events.next().await {
        if let Event::Queued { name, .. } = event {
            println!("queued {name}");
            return;
        }
    }
}
