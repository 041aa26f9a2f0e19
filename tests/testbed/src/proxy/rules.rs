use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

/// The direction of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    Request,
    Reply,
}

/// The effect of a rule on the messages of its command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    /// Closes the connection instead of delivering the next message; then the rule is used up.
    Lose,
    /// Keeps messages back until the rule is withdrawn.
    Hold,
    /// Keeps the next message back until the rule is withdrawn, and no other.
    HoldNext,
}

#[derive(Debug)]
struct Rule {
    id: u64,
    way: Way,
    /// The name of a command; `None` is every message.
    command: Option<String>,
    action: Action,
    /// How many messages this rule has lost, or kept back, so far.
    hits: watch::Sender<usize>,
}

/// The decision about one message.
#[derive(Debug)]
pub(super) enum Verdict {
    Deliver,
    Lose,
    /// Keep it until this rule is gone.
    Hold(u64),
}

/// The faults a test asked for, shared by all connections of a proxy.
#[derive(Clone, Debug)]
pub(super) struct Rules {
    list: Arc<Mutex<Vec<Rule>>>,
    /// Changes when a rule is withdrawn.
    withdrawn: watch::Sender<u64>,
    /// How often all connections were cut.
    cuts: Arc<AtomicU64>,
}

impl Rules {
    pub(super) fn new() -> Self {
        Self { list: Arc::default(), withdrawn: watch::Sender::new(0), cuts: Arc::default() }
    }

    /// Notes a cut. A connection that is open passes nothing on from here on, even if it wakes up before it is closed.
    pub(super) fn cut(&self) {
        self.cuts.fetch_add(1, Ordering::SeqCst);
    }

    pub(super) fn cuts(&self) -> u64 {
        self.cuts.load(Ordering::SeqCst)
    }

    /// Adds a rule, and returns its identifier and its hits.
    pub(super) fn add(
        &self,
        way: Way,
        command: Option<&str>,
        action: Action,
    ) -> (u64, watch::Receiver<usize>) {
        let id = crate::random::number();
        let hits = watch::Sender::new(0);
        let receiver = hits.subscribe();
        let command = command.map(str::to_owned);
        self.list().push(Rule { id, way, command, action, hits });
        (id, receiver)
    }

    /// Withdraws a rule; the messages that it keeps back go on.
    pub(super) fn withdraw(&self, id: u64) {
        self.list().retain(|rule| rule.id != id);
        self.withdrawn.send_modify(|count| *count += 1);
    }

    /// Decides on one message. The first rule that fits counts it.
    pub(super) fn judge(&self, way: Way, command: Option<&str>) -> Verdict {
        let mut list = self.list();
        let found = list.iter().position(|rule| {
            let is_used_up = rule.action == Action::HoldNext && *rule.hits.borrow() > 0;
            let fits = rule.command.is_none() || rule.command.as_deref() == command;
            rule.way == way && fits && !is_used_up
        });
        let Some(found) = found else {
            return Verdict::Deliver;
        };
        list[found].hits.send_modify(|count| *count += 1);
        match list[found].action {
            Action::Hold | Action::HoldNext => Verdict::Hold(list[found].id),
            Action::Lose => {
                list.remove(found);
                Verdict::Lose
            }
        }
    }

    /// Returns when the rule is gone.
    pub(super) async fn until_withdrawn(&self, id: u64) {
        let mut withdrawn = self.withdrawn.subscribe();
        // An error would mean that the sender is gone, which this value holds.
        let _never = withdrawn.wait_for(|_| !self.list().iter().any(|rule| rule.id == id)).await;
    }

    fn list(&self) -> MutexGuard<'_, Vec<Rule>> {
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
