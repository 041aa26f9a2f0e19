//! Batches that are cut off: somebody's transaction blocks a document, and the command ends with code 50 when its
//! time is over. The statements in front were carried out; the blocked one and those behind it were not.
//!
//! First attempts are sent again in pieces, which are batches themselves. Each piece has an identity of its own, or it
//! might grant once more a lease that its caller has had and released. After a batch of releases a query reads which
//! leases still stand, and these are released again.

use mongo_lease_core::rules::time::Instant;

use crate::bounds::{First, Judges, Variant};
use crate::client::{Acting, Silence, value_of};
use crate::explore::{Explored, Step, remove};
use crate::primary::Primary;
use crate::releases::Ending;
use crate::server::{Document, GrantMatch, holders_grant};
use crate::state::{Command, Does, Held, Leaving, Position, Says, Stage, World};

/// The distance between the identity of a piece and that of the attempt which was cut off.
const PIECE: u8 = 10;

/// The attempt of which this is a piece, or the attempt itself.
pub(crate) fn attempt_of(piece: u8) -> u8 {
    piece % PIECE
}

impl Explored {
    /// How this command may be cut off.
    pub(crate) fn cuts_off(&self, command: Command, steps: &mut Vec<Step>) {
        let is_batch = self.bounds.first == First::Together;
        match command.does {
            Does::FastAcquire { .. } | Does::Rest { .. } if is_batch && command.is_heard => {
                steps.push(Step::CutOff(command, false));
            }
            Does::End { .. } if !is_batch => {
                steps.extend([false, true].map(|is_done| Step::CutOff(command, is_done)));
            }
            Does::Acquire { .. }
            | Does::FastAcquire { .. }
            | Does::Rest { .. }
            | Does::LookAtTaken { .. }
            | Does::End { .. }
            | Does::LookAtEnded { .. }
            | Does::Renew { .. }
            | Does::Heartbeat
            | Does::Guard { .. }
            | Does::Confirm { .. } => {}
        }
    }

    /// A connection breaks before its command is carried out, which goes on.
    pub(crate) fn break_early(&self, world: &mut World, command: Command) {
        remove(&mut world.commands, &command);
        world.commands.push(Command { is_heard: false, ..command });
        let mut acting = Acting { bounds: &self.bounds, world, client: command.client };
        acting.hear_nothing(Silence::from(&command));
    }
}

impl Primary<'_> {
    /// Cuts a batch off; its sender goes on. `is_done` says whether this client's release was carried out. An attempt
    /// that was carried out is a [`Does::Rest`].
    pub(crate) fn cut_off(&mut self, command: Command, is_done: bool) -> bool {
        let Some(at) = self.world.commands.iter().position(|&each| each == command) else {
            return false;
        };
        if let (Does::End { which, by }, true) = (command.does, is_done)
            && self.end_now(command.client, which, by, self.world.tick) != Some(true)
        {
            return false;
        }
        self.world.commands.remove(at);
        self.world.cuts += 1;
        if self.bounds.variant == Variant::CutOffGoesOn && !is_done {
            self.world.commands.push(Command { is_heard: false, ..command });
        }
        let does = match command.does {
            Does::FastAcquire { attempt } | Does::Rest { attempt, .. } => {
                let is_same = self.bounds.variant == Variant::PieceWithOldId;
                Does::FastAcquire { attempt: if is_same { attempt } else { attempt + PIECE } }
            }
            Does::End { which, by } => {
                Does::LookAtEnded { which, by, at: self.world.server.position }
            }
            Does::Acquire { .. }
            | Does::LookAtTaken { .. }
            | Does::LookAtEnded { .. }
            | Does::Renew { .. }
            | Does::Heartbeat
            | Does::Guard { .. }
            | Does::Confirm { .. } => return false,
        };
        self.world.commands.push(Command { sent: self.world.tick, does, ..command });
        true
    }

    /// The query behind a batch of releases, which sees what a majority has, at that time or later.
    pub(crate) fn look_at_ended(
        &mut self,
        command: Command,
        which: GrantMatch,
        by: Ending,
        at: Position,
    ) -> Option<Option<Says>> {
        let read = self.world.durable.as_ref().unwrap_or(&self.world.server);
        let sees_it = read.position >= at || self.bounds.variant == Variant::LookBefore;
        let found = sees_it.then_some(read.document.as_ref())?;
        let value = value_of(self.bounds, command.client);
        let leaves = by == Ending::HELD_OR_QUEUED;
        let stands = |found: &Document| {
            which.is_shown_by(found, &value) || leaves && found.queue.position(&value).is_some()
        };
        if !found.is_some_and(stands) {
            return Some(Some(Says::Gone));
        }
        if self.bounds.variant == Variant::CutOffForgotten {
            return Some(Some(Says::Released { matched: false }));
        }
        let does = Does::End { which, by };
        self.world.commands.push(Command { sent: self.world.tick, does, ..command });
        Some(None)
    }

    /// The moment from which an answer counts. For a grant that a piece finds, it stands in that grant.
    pub(crate) fn counts_from(&self, command: Command, says: Says) -> i64 {
        let is_piece = matches!(command.does, Does::LookAtTaken { .. }) && self.bounds.cuts > 0;
        if !is_piece || self.bounds.variant == Variant::ValidityFromPiece {
            return command.sent;
        }
        let read = self.world.durable.as_ref().unwrap_or(&self.world.server);
        let grant = read.document.as_ref().and_then(|document| document.grant);
        match (says, grant) {
            (Says::Granted { .. }, Some(grant)) => grant.sent,
            _ => command.sent,
        }
    }
}

impl Acting<'_> {
    /// The facts that are remembered of a lease whose release is sent.
    pub(crate) fn leaving(&self, held: &Held) -> Leaving {
        let id = held.id;
        if self.bounds.cuts == 0 {
            return Leaving { id, was_valid: true, valid_until: Instant::START, was_named: true };
        }
        let document = self.world.server.document.as_ref();
        Leaving {
            id,
            was_valid: held.holder.is_valid(self.now()),
            valid_until: match held.holder.is_valid(self.now()) {
                true => held.holder.valid_until(),
                false => Instant::START,
            },
            was_named: document.and_then(holders_grant) == Some(id),
        }
    }

    /// The release is answered: it matched, or it did not.
    pub(crate) fn hear_released(&mut self, matched: bool) {
        if !matches!(self.world.clients[self.client].stage, Stage::Releasing(_)) {
            return;
        }
        if self.bounds.cuts > 0 {
            match matched {
                true => self.says_released(),
                false => self.world.wrongs.ended_unsaid |= self.has_ended(),
            }
        }
        self.end_call();
    }

    /// The release was cut off, and the lease is gone.
    pub(crate) fn hear_gone(&mut self) {
        let Stage::Releasing(leaving) = self.world.clients[self.client].stage else {
            return;
        };
        let is_own = match self.bounds.judges {
            _ if self.bounds.variant == Variant::GoneIsReleased => true,
            _ if self.bounds.variant == Variant::JudgedWhenSent => leaving.was_valid,
            Judges::WhenSent => leaving.was_valid,
            Judges::WhenAnswered => self.now() < leaving.valid_until,
        };
        // Else nobody knows, and the caller learns just that.
        if is_own {
            self.world.wrongs.released_unheld |= !leaving.was_named;
            self.says_released();
        }
        self.end_call();
    }

    fn says_released(&mut self) {
        let has_ended = self.has_ended();
        self.world.wrongs.released_unended |= !has_ended;
    }

    fn has_ended(&self) -> bool {
        self.world.server.ended & 1 << self.client != 0
    }
}
