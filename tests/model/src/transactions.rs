//! Transactions under a lease: the steps of the client, those of the primary, and the mistakes.

use mongo_lease_core::rules::holder::HoldEvent;
use mongo_lease_core::spec;

use crate::bounds::{Bounds, Variant};
use crate::client::Acting;
use crate::explore::{Explored, Step};
use crate::primary::{LASTS, Primary};
use crate::properties::believes;
use crate::server::Key;
use crate::state::{Begun, Client, Command, Does, Says, Transaction, World};

impl Explored {
    /// The steps of a holder whose transaction has begun. It cannot release its lease meanwhile.
    pub(crate) fn is_in_transaction(&self, world: &World, number: usize, steps: &mut Vec<Step>) {
        if world.clients[number].begun.is_none_or(|begun| begun.is_guarded) {
            return;
        }
        steps.push(Step::AbortUnguarded(number));
        if believes(&self.bounds, world, number) {
            steps.push(Step::Guard(number));
            if self.bounds.commits_unguarded() {
                steps.push(Step::CommitUnguarded(number));
            }
        }
    }
}

impl Acting<'_> {
    /// The caller's transaction begins with a read, and is to guard last.
    pub(crate) fn begin_transaction(&mut self) {
        let _ = self.tell(HoldEvent::TransactionBegun);
        let client = &mut self.world.clients[self.client];
        client.guards += 1;
        client.begun = Some(Begun::default());
    }

    /// The caller's transaction begins with a guard, or comes to it.
    pub(crate) fn guard(&mut self) {
        let (Some(key), Some(held)) = (self.key(), self.held()) else {
            return;
        };
        let is_overtaken = held.is_overtaken;
        let _ = self.tell(HoldEvent::Guarded);
        let client = &mut self.world.clients[self.client];
        match &mut client.begun {
            Some(begun) => begun.is_guarded = true,
            None => client.guards += 1,
        }
        self.world.send(self.client, Does::Guard { key, is_overtaken });
    }

    /// The caller's transaction has ended.
    pub(crate) fn end_transaction(&mut self) {
        if self.world.clients[self.client].begun.take().is_some() {
            let _ = self.tell(HoldEvent::TransactionEnded);
        }
    }

    /// The mistake of a commit that no guard has gone before.
    pub(crate) fn commit_unguarded(&mut self) {
        let is_overtaken = self.held().is_some_and(|held| held.is_overtaken);
        self.world.wrongs.committed_after_loss |= is_overtaken;
        if self.bounds.variant == Variant::GuardAfterCommit {
            self.guard();
        }
        self.end_transaction();
    }
}

impl Client {
    /// Whether its transaction keeps it from every renewal, which is a mistake.
    pub(crate) fn is_held_back_for_ever(&self, bounds: &Bounds) -> bool {
        self.begun.is_some() && bounds.variant == Variant::HeldBackForEver
    }
}

impl Primary<'_> {
    pub(crate) fn guard(
        &mut self,
        command: Command,
        key: Key,
        is_overtaken: bool,
        now: i64,
    ) -> Option<Option<Says>> {
        if self.world.transaction.is_some() {
            return None;
        }
        let client = command.client;
        if self.world.clients[client].begun.is_some_and(|begun| begun.is_behind) {
            self.transaction_ended(client);
            return Some(Some(Says::Conflicted));
        }
        let found = self.world.server.document.clone();
        let id = self.matched_id(Variant::GuardWithoutGrantId, key);
        let protections = self.bounds.protections();
        match spec::guard(found, &Key { id, ..key }, LASTS, now, command.sent, &protections) {
            None => {
                self.transaction_ended(client);
                Some(Some(Says::NotGuarded))
            }
            commits => {
                let is_repeated = self.world.clients[client].repeats;
                let transaction = Transaction { client, commits, is_overtaken, is_repeated };
                self.world.transaction = Some(transaction);
                // The caller hears of it, and commits or not.
                Some(None)
            }
        }
    }

    /// A transaction commits: now everybody sees what its guard wrote, and what the caller wrote with it.
    pub(crate) fn commit(&mut self) -> bool {
        let Some(transaction) = self.world.transaction.take() else {
            return false;
        };
        self.world.wrongs.committed_after_loss |= transaction.is_overtaken;
        self.world.wrongs.committed_twice |= transaction.is_repeated;
        self.transaction_ended(transaction.client);
        if self.bounds.variant == Variant::GuardWithRepeatedCommit {
            self.world.clients[transaction.client].repeats = true;
        }
        if self.bounds.variant != Variant::GuardThatWritesNothing {
            let _ = self.write(transaction.commits);
        }
        true
    }

    /// A transaction is aborted, with its guard.
    pub(crate) fn abort(&mut self) -> bool {
        let Some(transaction) = self.world.transaction.take() else {
            return false;
        };
        self.transaction_ended(transaction.client);
        true
    }

    fn transaction_ended(&mut self, client: usize) {
        Acting { bounds: self.bounds, world: self.world, client }.end_transaction();
    }
}
