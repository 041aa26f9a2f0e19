//! Fast-path acquires, alone and in batches: the primary's part, and the callers' next step where the answer is
//! unclear.

use mongo_lease_core::spec;

use crate::bounds::{First, Variant};
use crate::client::Acting;
use crate::cutting::attempt_of;
use crate::primary::Primary;
use crate::server::{AcquireAnswer, AcquireAttempt, GrantId, holders_grant};
use crate::state::{Command, Does, Position, Says, Stage};

impl Primary<'_> {
    /// Carries out a fast-path acquire.
    pub(crate) fn take(&mut self, command: Command, attempt: u8, now: i64) -> Option<Option<Says>> {
        let ask = self.ask_of(command, attempt, None);
        let before = self.world.server.document.clone();
        let (after, taken) =
            spec::fast_acquire(before.clone(), &ask, now, &self.bounds.protections());
        self.write(after)?;
        let is_granted = taken == AcquireAnswer::Granted(ask.id);
        if is_granted {
            self.see_turn(before.as_ref(), &ask);
            self.granted(Some(command.client), false);
        }
        let position = self.world.server.position;
        let granted_at = is_granted.then_some(position);
        if self.bounds.first == First::Together {
            let does = Does::Rest { attempt, granted_at };
            self.world.commands.push(Command { does, ..command });
            return Some(None);
        }
        Some(Some(self.says(command, ask.id, taken, position, granted_at)))
    }

    /// The rest of the command is carried out: it writes elsewhere, and the reply tells the time of its last write.
    pub(crate) fn rest(
        &mut self,
        command: Command,
        attempt: u8,
        granted_at: Option<Position>,
    ) -> Option<Option<Says>> {
        self.world.server.position += 1;
        let token = self.world.server.position;
        if self.bounds.variant == Variant::TakenWithoutLook {
            let id = self.ask_of(command, attempt, None).id;
            let taken = match granted_at {
                Some(_) => AcquireAnswer::Granted(id),
                None => AcquireAnswer::UseSlowForm,
            };
            return Some(Some(self.says(command, id, taken, token, granted_at)));
        }
        let does = Does::LookAtTaken { attempt, token };
        self.world.commands.push(Command { does, ..command });
        Some(None)
    }

    /// The query, which sees what a majority has, at that time or later.
    pub(crate) fn look_at_taken(
        &mut self,
        command: Command,
        attempt: u8,
        token: Position,
        now: i64,
    ) -> Option<Option<Says>> {
        let read = self.world.durable.as_ref().unwrap_or(&self.world.server);
        let sees_it = read.position >= token || self.bounds.variant == Variant::LookBefore;
        let found = sees_it.then(|| read.document.clone())?;
        let last = read.last_grant.filter(|last| last.client == Some(command.client));
        let granted_at = last.map(|last| last.position);
        let ask = self.ask_of(command, attempt, None);
        // A grant from before the batch was cut off is this attempt's as well.
        let found_id = found.as_ref().and_then(holders_grant);
        let takes_any = self.bounds.variant == Variant::TakenFromOtherAttempt;
        let is_its = |id: &GrantId| {
            let is_same = attempt_of(id.attempt) == attempt_of(attempt);
            id.call == ask.id.call && (is_same || takes_any)
        };
        let ask = AcquireAttempt { id: found_id.filter(is_its).unwrap_or(ask.id), ..ask };
        let says = match found {
            Some(found) => {
                let taken = spec::fast_reply(&found, &ask, now);
                self.says(command, ask.id, taken, token, granted_at)
            }
            None => Says::AskAgain { attempt: attempt_of(attempt), maybe_granted: true },
        };
        Some(Some(says))
    }

    fn says(
        &self,
        command: Command,
        id: GrantId,
        taken: AcquireAnswer,
        token: Position,
        granted_at: Option<Position>,
    ) -> Says {
        let waits = self.bounds.clients[command.client].waits.is_some();
        // Only a waiting call distinguishes the answers to its attempts.
        let number = if waits { attempt_of(id.attempt) } else { 0 };
        match (taken, granted_at) {
            (AcquireAnswer::Granted(_), Some(granted_at)) => {
                let last = self.world.server.last_grant;
                let is_overtaken = last.is_some_and(|last| last.client != Some(command.client));
                Says::Granted { attempt: number, id, token, granted_at, is_overtaken }
            }
            (AcquireAnswer::Refused { .. }, _) => {
                Says::Refused { attempt: number, ahead: None, remaining: None, now: 0 }
            }
            (AcquireAnswer::Granted(_) | AcquireAnswer::UseSlowForm, _) => {
                Says::AskAgain { attempt: number, maybe_granted: false }
            }
        }
    }
}

impl Acting<'_> {
    /// The fast path was unclear: a slow acquire is sent.
    pub(crate) fn ask_by_the_whole_form(&mut self, attempt: u8) {
        let client = &self.world.clients[self.client];
        if client.line.is_some() {
            if self.is_asked_for(attempt) {
                self.ask_beside(false);
            }
        } else if client.stage == Stage::Acquiring
            && client.started < self.bounds.clients[self.client].attempts
        {
            self.ask(false);
        }
    }
}
