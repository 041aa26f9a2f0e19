//! Worker processes that hold and wait. They carry out orders, a line each, and answer in lines.

use std::time::Duration;

use futures_util::{StreamExt, TryStreamExt, stream};
use mongo_lease_measure::Outcome;
use mongo_lease_measure::host::{self, now};
use mongo_lease_measure::worker::READY;
use mongo_lease_testbed::orders;

use crate::contender;
use crate::peers::{Held, PERIOD, Peer, Renewal};

/// Which contender a worker is, and the address of its server.
pub(crate) const ROLE: &str = "MONGO_LEASE_PEERS_WORKER";
/// Calls of one process under way at once, where there are many.
const AT_ONCE: usize = 16;

/// Whether this process is one.
pub(crate) fn is_one() -> bool {
    std::env::var_os(ROLE).is_some()
}

/// Carries out orders until the input ends.
pub(crate) async fn work() -> Outcome<()> {
    let role = std::env::var(ROLE)?;
    let (id, address) = role.split_once(' ').ok_or("a role is a name and an address")?;
    let peer = contender::open(id, address).await?;
    println!("{READY}");
    let mut held = Vec::new();
    let mut orders = orders();
    while let Some(order) = orders.recv().await {
        let mut parts = order.splitn(3, ' ');
        let (what, number) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
        let name = parts.next().unwrap_or_default();
        match what {
            "turn" => take_turn(&*peer, name, Duration::from_millis(number.parse()?)).await?,
            "wait" => wait(&*peer, name, Duration::from_millis(number.parse()?)).await?,
            "hold" => println!("number {}", hold(&*peer, number.parse()?, &mut held).await?),
            "renew" => println!("number {}", renew(&*peer, number.parse()?, &held).await?),
            _ => return Err(format!("not an order: {order}").into()),
        }
    }
    peer.close().await;
    // Held locks end with the process: some libraries would release each in a task of its own.
    std::process::exit(0);
}

async fn take_turn(peer: &dyn Peer, name: &str, hold: Duration) -> Outcome<()> {
    println!("trying");
    let held = peer.acquire(name).await?;
    println!("granted {}", now());
    tokio::time::sleep(hold).await;
    let released = now();
    held.release().await?;
    println!("done {released}");
    Ok(())
}

/// Waits for a lock in vain.
async fn wait(peer: &dyn Peer, name: &str, time: Duration) -> Outcome<()> {
    println!("trying");
    if peer.wait(name, time).await? {
        return Err("granted what is held".into());
    }
    println!("done {}", now());
    Ok(())
}

/// Acquires that many locks, and returns by how many bytes the process has grown.
async fn hold(peer: &dyn Peer, count: usize, held: &mut Vec<Box<dyn Held>>) -> Outcome<u64> {
    // The connections and the first allocations do not belong to a lock.
    let first = async |number: usize| -> Outcome<()> {
        peer.acquire(&format!("first:{number}")).await?.release().await
    };
    stream::iter(0..200).map(first).buffer_unordered(AT_ONCE).try_collect::<()>().await?;
    held.reserve(count);
    let before = host::memory_bytes();
    let take = async |number: usize| peer.acquire(&format!("held:{number}")).await;
    let mut taken = stream::iter(0..count).map(take).buffer_unordered(AT_ONCE);
    while let Some(lock) = taken.next().await {
        held.push(lock?);
    }
    Ok(host::memory_bytes().saturating_sub(before))
}

/// Keeps all of them for that many periods, and returns the processor time in milliseconds.
async fn renew(peer: &dyn Peer, periods: u32, held: &[Box<dyn Held>]) -> Outcome<u128> {
    let before = host::own_processor_time();
    match peer.renewal() {
        // This time is what is measured.
        Renewal::ByItself => tokio::time::sleep(PERIOD * periods).await,
        Renewal::ByCall => {
            for _ in 0..periods {
                let renew = async |held: &dyn Held| held.renew().await;
                let renewed =
                    stream::iter(held).map(|held| renew(&**held)).buffer_unordered(AT_ONCE);
                renewed.try_collect::<()>().await?;
            }
        }
        Renewal::Never => return Err("nobody can renew these".into()),
    }
    Ok((host::own_processor_time() - before).as_millis())
}
