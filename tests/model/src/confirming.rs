//! Writes that are answered before a majority has them, and the reads that confirm them.
//!
//! A write that is applied and unconfirmed is not sent again. Its client waits for a majority read that shows the id
//! and the echo. A primary that is lost may have undone the write: then the read does not show it, and the client is
//! told what it is told after a break.

use mongo_lease_core::rules::holder::HoldEvent;

use crate::bounds::Variant;
use crate::client::{Acting, Silence};
use crate::primary::Primary;
use crate::state::{Client, Command, Does, Leaving, Position, Reply, Says, Stage};

impl Primary<'_> {
    /// Answers before a majority has the write.
    pub(crate) fn answer_unconfirmed(&mut self, reply: Reply) {
        let Reply { client, sent, says, .. } = reply;
        match says {
            Says::Granted { .. }
            | Says::Renewed { matched: true, .. }
            | Says::Released { matched: true } => {
                let at = self.world.server.position;
                let does = Does::Confirm { says, at, is_undone: false };
                self.world.commands.push(Command { client, sent, does, is_heard: true });
                let mut acting = Acting { bounds: self.bounds, world: self.world, client };
                acting.hear_applied(says, sent);
            }
            // Nobody relies on a write of these: they count as soon as they are applied.
            Says::Refused { .. }
            | Says::AskAgain { .. }
            | Says::Renewed { matched: false, .. }
            | Says::HeartbeatConfirmed { .. }
            | Says::Released { matched: false }
            | Says::Gone
            | Says::NotGuarded
            | Says::Conflicted => {
                self.world.replies.push(Reply { is_acknowledged: true, ..reply });
            }
        }
    }

    /// The reads behind writes that are undone are sent again, to the primary that has all up to this time.
    pub(crate) fn ask_the_next_primary(&mut self, has: Position) {
        for command in &mut self.world.commands {
            if let Does::Confirm { at, is_undone, .. } = &mut command.does {
                *is_undone |= *at > has;
            }
        }
    }

    /// A primary that has not come to this time yet goes on from there. A read after it is answered when a majority has
    /// all that was before.
    fn catch_up(&mut self, at: Position) -> Option<()> {
        let (server, durable) = (&mut self.world.server, self.world.durable.as_mut()?);
        if server.position < at {
            if server != durable {
                return None;
            }
            (server.position, durable.position) = (at, at);
        }
        Some(())
    }

    /// The majority read behind a write of this time.
    pub(crate) fn confirm(
        &mut self,
        command: Command,
        says: Says,
        at: Position,
        is_undone: bool,
    ) -> Option<Option<Says>> {
        if is_undone {
            self.catch_up(at)?;
        }
        let read = if self.bounds.variant == Variant::ConfirmedByPrimary {
            &self.world.server
        } else {
            self.world.durable.as_ref()?
        };
        if read.position < at {
            return None;
        }
        let found = read.document.as_ref().and_then(|document| document.holders_grant());
        let found = found.map(|grant| (grant.id, grant.sent));
        let ignores_echo = self.bounds.variant == Variant::ConfirmedWithoutEcho;
        let is_shown = match says {
            Says::Granted { id, .. } => {
                found == Some((id, command.sent))
                    || ignores_echo && found.is_some_and(|it| it.0 == id)
            }
            // The echo of a later renewal shows this one as well.
            Says::Renewed { id, .. } => {
                found.is_some_and(|it| it.0 == id && (it.1 >= command.sent || ignores_echo))
            }
            Says::Refused { .. }
            | Says::AskAgain { .. }
            | Says::HeartbeatConfirmed { .. }
            | Says::Released { .. }
            | Says::Gone
            | Says::NotGuarded
            | Says::Conflicted => {
                let leaving = self.world.clients[command.client].leaving();
                leaving.is_none_or(|leaving| found.is_none_or(|it| it.0 != leaving.id))
            }
        };
        if !is_shown {
            let mut acting =
                Acting { bounds: self.bounds, world: self.world, client: command.client };
            acting.hear_nothing(Silence::from(&command));
        }
        Some(is_shown.then_some(says))
    }
}

impl Acting<'_> {
    /// The primary has carried the command out that was sent at `sent`, and no majority has it yet.
    fn hear_applied(&mut self, says: Says, sent: i64) {
        let sent = self.bounds.clock(self.client, sent);
        if let Says::Renewed { id, .. } = says
            && self.held().is_some_and(|held| held.id == id)
        {
            let _ = self.tell(HoldEvent::Applied(sent));
        }
    }
}

impl Client {
    /// The grant whose release it has sent.
    fn leaving(&self) -> Option<&Leaving> {
        match &self.stage {
            Stage::Releasing(leaving) => Some(leaving),
            Stage::Acquiring
            | Stage::Bequeathed
            | Stage::Holding(_)
            | Stage::Ended
            | Stage::Crashed => None,
        }
    }
}
