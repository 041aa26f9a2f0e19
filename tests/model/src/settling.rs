//! Merges worlds whose difference can never be seen.

use crate::server::Document;
use crate::state::{Does, Position, Says, Stage, World};

impl World {
    /// Makes worlds equal whose difference can never be seen.
    pub(crate) fn settle(&mut self, reads_sent: bool) {
        forget_unread(&mut self.server.document, reads_sent);
        if let Some(durable) = &mut self.durable {
            forget_unread(&mut durable.document, reads_sent);
        }
        if let Some(transaction) = &mut self.transaction {
            forget_unread(&mut transaction.commits, reads_sent);
        }
        let is_there = |client: usize| !matches!(self.clients[client].stage, Stage::Crashed);
        self.replies.retain(|reply| is_there(reply.client));
        for client in &mut self.clients {
            let is_over = matches!(client.stage, Stage::Ended | Stage::Crashed | Stage::Acquiring);
            client.is_remembered |= is_over;
            // A transaction of a client that is gone has written nothing, or is the server's.
            if !matches!(client.stage, Stage::Holding(_)) {
                client.begun = None;
            }
            // A client that does not wait any more gets no events.
            if !matches!(client.stage, Stage::Acquiring | Stage::Bequeathed) {
                client.line = None;
            }
        }
        self.rank_positions();
        self.commands.sort_unstable();
        self.replies.sort_unstable();
        self.handed.sort_unstable();
    }

    /// Only the order of positions counts, so they are numbered from 0 without gaps.
    fn rank_positions(&mut self) {
        let mut used = [false; Position::MAX as usize + 1];
        let mut last: Position = 0;
        self.each_position(|position| {
            used[usize::from(*position)] = true;
            last = last.max(*position);
        });
        let mut ranks = [0; Position::MAX as usize + 1];
        let mut next: Position = 0;
        for (position, is_used) in used.into_iter().enumerate().take(usize::from(last) + 1) {
            ranks[position] = next;
            next = next.saturating_add(Position::from(is_used));
        }
        self.each_position(|position| *position = ranks[usize::from(*position)]);
    }

    fn each_position(&mut self, mut visit: impl FnMut(&mut Position)) {
        for server in [Some(&mut self.server), self.durable.as_mut()].into_iter().flatten() {
            visit(&mut server.position);
            server.last_grant.iter_mut().for_each(|grant| visit(&mut grant.position));
        }
        for command in &mut self.commands {
            match &mut command.does {
                Does::Rest { granted_at, .. } => granted_at.iter_mut().for_each(&mut visit),
                Does::LookAtTaken { token: at, .. } | Does::LookAtEnded { at, .. } => visit(at),
                Does::Confirm { says, at, .. } => {
                    visit(at);
                    if let Says::Granted { token, granted_at, .. } = says {
                        visit(token);
                        visit(granted_at);
                    }
                }
                Does::Acquire { .. }
                | Does::FastAcquire { .. }
                | Does::Renew { .. }
                | Does::Heartbeat
                | Does::End { .. }
                | Does::Guard { .. } => {}
            }
        }
        for reply in &mut self.replies {
            if let Says::Granted { token, granted_at, .. } = &mut reply.says {
                visit(token);
                visit(granted_at);
            }
        }
        for client in &mut self.clients {
            for told in client.line.iter_mut().flat_map(|line| &mut line.events) {
                visit(&mut told.token);
                visit(&mut told.granted_at);
            }
        }
        for handed in &mut self.handed {
            visit(&mut handed.granted_at);
            visit(&mut handed.token);
        }
    }
}

/// Clears fields that people read and no command of the model does. `sent` is read where batches are cut off.
fn forget_unread(document: &mut Option<Document>, reads_sent: bool) {
    let Some(document) = document else {
        return;
    };
    if let Some(grant) = &mut document.grant {
        grant.sent = if reads_sent { grant.sent } else { 0 };
        grant.acquired_at = 0;
        grant.writes = 0;
    }
}
