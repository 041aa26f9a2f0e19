//! A connection on which a test sees each command, and decides its outcome.

use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use mongo_lease::simulated::{BoxedTask, SentCommand, SimulatedAnswer, SimulatedProcess};
use mongo_lease::{CommandKind, LeaseManager, MemoryStore, Tuning};
use mongo_lease_core::commands::{
    FindEntries, FindHolders, Heartbeat, RenewHolders, RenewMany, StreamEvent,
};
use tokio::time::Instant;

use crate::patience::pass;

/// The messages of a change stream.
#[derive(Clone, Copy)]
pub(crate) enum Hearing {
    Good,
    /// None of them arrives, and nothing says so.
    Gone,
    /// The connection breaks.
    Breaks,
}

/// All that the test does not plan otherwise is carried out and answered at once.
pub(crate) struct Wire {
    began: Instant,
    state: Mutex<State>,
}

struct State {
    sent: Vec<&'static str>,
    /// The next command of this name is carried out or not, and has this answer, so late.
    planned: Vec<(&'static str, bool, SimulatedAnswer, Duration)>,
    seen: Vec<(u128, String)>,
    blocked: Option<&'static str>,
    hearing: Hearing,
}

impl Wire {
    pub(crate) fn new() -> Arc<Wire> {
        let (sent, planned, seen) = (Vec::new(), Vec::new(), Vec::new());
        let state = State { sent, planned, seen, blocked: None, hearing: Hearing::Good };
        Arc::new(Wire { began: Instant::now(), state: Mutex::new(state) })
    }

    /// A manager at this end.
    pub(crate) async fn manager(
        self: &Arc<Wire>,
        store: &MemoryStore,
        tuning: Tuning,
    ) -> LeaseManager {
        let client = store.client_of(self.clone());
        LeaseManager::in_memory(&client).tuning(tuning).build().await.expect("a manager")
    }

    /// The commands since the last call, in their order.
    pub(crate) fn sent(&self) -> Vec<&'static str> {
        std::mem::take(&mut self.state.lock().unwrap().sent)
    }

    pub(crate) fn plan(&self, name: &'static str, is_carried_out: bool, answer: SimulatedAnswer) {
        self.plan_after(Duration::ZERO, name, is_carried_out, answer);
    }

    /// The same, with an answer that comes so late.
    pub(crate) fn plan_after(
        &self,
        late: Duration,
        name: &'static str,
        is_carried_out: bool,
        answer: SimulatedAnswer,
    ) {
        self.state.lock().unwrap().planned.push((name, is_carried_out, answer, late));
    }

    /// From now on a transaction blocks this document, and no other.
    pub(crate) fn block(&self, name: Option<&'static str>) {
        self.state.lock().unwrap().blocked = name;
    }

    pub(crate) fn hears(&self, hearing: Hearing) {
        self.state.lock().unwrap().hearing = hearing;
    }

    /// The renewals, the heartbeats, and the looks that follow some of them: the milliseconds since the beginning, and
    /// the names of the leases. A look has a question mark.
    pub(crate) fn seen(&self) -> Vec<(u128, String)> {
        let mut seen = std::mem::take(&mut self.state.lock().unwrap().seen);
        // Those that are sent at the same moment are in no order.
        seen.sort();
        seen
    }
}

/// The names of the leases that a command keeps, or looks at, in their order.
fn names(command: &mut dyn SentCommand) -> Option<String> {
    let command = command.parts().0;
    let (mut names, mark) = if let Some(RenewMany { grants }) = command.downcast_ref() {
        (grants.iter().map(|it| it.key.name()).collect::<Vec<_>>(), "")
    } else if let Some(RenewHolders { grants }) = command.downcast_ref() {
        (grants.iter().map(|it| it.key.name()).collect(), "")
    } else if let Some(Heartbeat { entries, .. }) = command.downcast_ref() {
        (entries.iter().map(|it| it.name.as_str()).collect(), "")
    } else if let Some(FindHolders { grants }) = command.downcast_ref() {
        (grants.iter().map(|it| it.name()).collect(), "?")
    } else if let Some(FindEntries { entries }) = command.downcast_ref() {
        (entries.iter().map(|it| it.name.as_str()).collect(), "?")
    } else {
        return None;
    };
    names.sort_unstable();
    Some(names.concat() + mark)
}

impl SimulatedProcess for Wire {
    fn drift(&self) -> i32 {
        0
    }

    fn run(&self, task: BoxedTask) -> BoxedTask {
        task
    }

    fn send(&self, mut command: Box<dyn SentCommand>) {
        let (name, names) = (command.name(), names(&mut *command));
        let mut state = self.state.lock().unwrap();
        state.sent.push(name);
        let planned = state.planned.iter().position(|(planned, ..)| *planned == name);
        let planned = planned.map(|place| state.planned.remove(place));
        let is_write = matches!(command.kind(), Some(CommandKind::Renew | CommandKind::Heartbeat));
        let is_blocked = is_write
            && names.as_ref().zip(state.blocked).is_some_and(|(names, it)| names.contains(it));
        state.seen.extend(names.map(|names| (self.began.elapsed().as_millis(), names)));
        drop(state);
        let (is_carried_out, answer, late) = match planned {
            Some((_, is_carried_out, answer, late)) => (is_carried_out, answer, late),
            None if is_blocked => (false, SimulatedAnswer::CutOff, Duration::ZERO),
            None => (true, SimulatedAnswer::Reply, Duration::ZERO),
        };
        if is_carried_out {
            command.carry_out();
        }
        if late.is_zero() {
            return command.answer(answer);
        }
        tokio::spawn(async move {
            pass(late).await;
            command.answer(answer);
        });
    }

    fn hear(&self) -> Pin<Box<dyn Future<Output = bool> + Send>> {
        match self.state.lock().unwrap().hearing {
            Hearing::Good => Box::pin(std::future::ready(true)),
            Hearing::Gone => Box::pin(std::future::pending()),
            Hearing::Breaks => Box::pin(std::future::ready(false)),
        }
    }

    fn change(&self, _event: &mut StreamEvent) {}
}
