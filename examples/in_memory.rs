//! A service's own tests, without a server: leases in memory.
//!
//! `cargo run --example in_memory` runs them one after the other. In a project of your own, each is a
//! `#[tokio::test]`, and `Cargo.toml` has, below `[dev-dependencies]`:
//!
//! ```toml
//! mongo-lease = { version = "0.1", features = ["memory"] }
//! ```

#![allow(clippy::print_stdout, reason = "an example talks to a person")]

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use mongo_lease::{
    Attempt, CommandKind, Election, Error, Lease, LeaseManager, LostReason, MemoryFault,
    MemoryStore, Result, Stop, Token,
};

/// The service: it bills invoices, each under a lease.
#[derive(Clone)]
struct Billing {
    leases: LeaseManager,
    ledger: Ledger,
}

/// The resource. It refuses a writer whose token is older than the newest that it has seen for the same invoice.
#[derive(Clone, Default)]
struct Ledger {
    state: Arc<Mutex<LedgerState>>,
}

#[derive(Default)]
struct LedgerState {
    newest: HashMap<u32, Token>,
    lines: Vec<String>,
}

#[derive(Debug, PartialEq)]
enum Billed {
    Done,
    InProgressElsewhere,
    TokenRefused,
}

impl Ledger {
    fn write(&self, token: Token, invoice: u32) -> bool {
        let mut state = self.state.lock().expect("no test panics while it holds this");
        if state.newest.get(&invoice).is_some_and(|newest| *newest > token) {
            return false;
        }
        state.newest.insert(invoice, token);
        state.lines.push(format!("invoice {invoice}"));
        true
    }

    fn lines(&self) -> Vec<String> {
        self.state.lock().expect("no test panics while it holds this").lines.clone()
    }
}

impl Billing {
    async fn new(store: &MemoryStore, owner: &str, ledger: &Ledger) -> Result<Billing> {
        // In production: `LeaseManager::builder(&database)`.
        let leases = LeaseManager::in_memory(store).owner(owner).build().await?;
        Ok(Billing { leases, ledger: ledger.clone() })
    }

    async fn bill(&self, invoice: u32) -> Result<Billed> {
        let lease = match self.leases.try_acquire(format!("invoice:{invoice}")).await? {
            Attempt::Granted(lease) => lease,
            Attempt::Busy(_) => return Ok(Billed::InProgressElsewhere),
        };
        let billed = self.write(&lease, invoice)?;
        lease.release().await?;
        Ok(billed)
    }

    fn write(&self, lease: &Lease, invoice: u32) -> Result<Billed> {
        match self.ledger.write(lease.token()?, invoice) {
            true => Ok(Billed::Done),
            false => Ok(Billed::TokenRefused),
        }
    }
}

async fn an_invoice_is_billed_once_by_two_processes() -> Result<()> {
    let (store, ledger) = (MemoryStore::new(), Ledger::default());
    let one = Billing::new(&store, "one", &ledger).await?;
    let other = Billing::new(&store, "other", &ledger).await?;
    let held = one.leases.acquire("invoice:42").await?;
    assert_eq!(other.bill(42).await?, Billed::InProgressElsewhere);
    assert_eq!(one.write(&held, 42)?, Billed::Done);
    held.release().await?;
    assert_eq!(ledger.lines(), ["invoice 42"]);
    Ok(())
}

async fn waiting_calls_are_served_in_their_order() -> Result<()> {
    let store = MemoryStore::new();
    let served = Arc::new(Mutex::new(Vec::new()));
    let holder = LeaseManager::in_memory(&store).build().await?;
    let held = holder.acquire("printer").await?;
    let mut calls = Vec::new();
    for number in 1..=3 {
        // A manager each, as if each were a process.
        let leases = LeaseManager::in_memory(&store).build().await?;
        let served = Arc::clone(&served);
        calls.push(tokio::spawn(async move {
            let lease = leases.acquire("printer").await?;
            served.lock().expect("no test panics while it holds this").push(number);
            lease.release().await
        }));
        // The call is in the queue before the next one begins.
        while holder.get("printer").await?.map(|info| info.waiting) != Some(number) {
            tokio::task::yield_now().await;
        }
    }
    held.release().await?;
    for call in calls {
        call.await.expect("no call panics")?;
    }
    assert_eq!(*served.lock().expect("no test panics while it holds this"), [1, 2, 3]);
    Ok(())
}

async fn work_stops_when_its_lease_is_lost() -> Result<()> {
    let store = MemoryStore::new();
    let leases = LeaseManager::in_memory(&store).build().await?;
    let lease = leases.acquire("nightly-report").await?;
    let work = lease.run(std::future::pending::<()>());
    // The clock of the store and of its managers: this takes no time.
    let advance = async { store.advance(Duration::from_secs(60)) };
    let (worked, ()) = tokio::join!(work, advance);
    assert!(matches!(worked, Err(Error::Lost { .. })), "{worked:?}");
    Ok(())
}

async fn the_ledger_refuses_a_holder_that_has_missed_its_loss() -> Result<()> {
    let (store, ledger) = (MemoryStore::new(), Ledger::default());
    let one = Billing::new(&store, "one", &ledger).await?;
    let other = Billing::new(&store, "other", &ledger).await?;
    let stale = one.leases.acquire("invoice:42").await?;
    // As if the server's clock had gone wrong: the first holder still believes in its lease.
    assert!(store.expire("invoice:42"));
    assert_eq!(other.bill(42).await?, Billed::Done);
    assert_eq!(one.write(&stale, 42)?, Billed::TokenRefused);
    assert_eq!(ledger.lines(), ["invoice 42"]);
    Ok(())
}

async fn another_process_leads_when_the_leader_is_lost() -> Result<()> {
    let store = MemoryStore::new();
    let one = LeaseManager::in_memory(&store).owner("one").build().await?;
    let other = LeaseManager::in_memory(&store).owner("other").build().await?;
    let first = Election::new(&one, "leader").campaign().await?;
    let token = first.lease().token()?;
    // An operator ends the leadership. The leader learns of it by its next renewal.
    assert!(store.release("leader"));
    let second = Election::new(&other, "leader").campaign().await?;
    assert!(first.lease().renew().await.is_err());
    assert!(matches!(first.until_stop().await, Stop::Lost(LostReason::TakenOver { .. })));
    assert!(second.lease().token()? > token);
    Ok(())
}

async fn a_lost_reply_bills_nothing_twice() -> Result<()> {
    let (store, ledger) = (MemoryStore::new(), Ledger::default());
    let billing = Billing::new(&store, "one", &ledger).await?;
    store.fail_next(CommandKind::Acquire, MemoryFault::LostReply);
    store.fail_next(CommandKind::Release, MemoryFault::NoPrimary);
    assert_eq!(billing.bill(42).await?, Billed::Done);
    assert_eq!(store.faults_left(), 0);
    assert_eq!(ledger.lines(), ["invoice 42"]);
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    an_invoice_is_billed_once_by_two_processes().await?;
    println!("acquire: an invoice is billed once by two processes");
    waiting_calls_are_served_in_their_order().await?;
    println!("queue: waiting calls are served in their order");
    work_stops_when_its_lease_is_lost().await?;
    println!("loss: work stops when its lease is lost");
    the_ledger_refuses_a_holder_that_has_missed_its_loss().await?;
    println!("fencing: the ledger refuses a holder that has missed its loss");
    another_process_leads_when_the_leader_is_lost().await?;
    println!("election: another process leads when the leader is lost");
    a_lost_reply_bills_nothing_twice().await?;
    println!("faults: a lost reply bills nothing twice");
    Ok(())
}
