//! The state of the world: the server, the network, the clients, and what was seen to go wrong.

use crate::rules::attempts::Attempts;
use crate::rules::holder::Holder;
use crate::server::{Document, GrantId, Key, Which};

/// The place of a write in the oplog.
pub(crate) type Position = u8;

/// Everything.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct World {
    /// Real time.
    pub(crate) tick: i64,
    pub(crate) server: Server,
    /// What a majority has; only where the primary may be lost.
    pub(crate) durable: Option<Server>,
    pub(crate) rollbacks: u8,
    pub(crate) foreign_take_overs: u8,
    /// A transaction of this client's has written to the document, and this is what it will commit.
    pub(crate) transaction: Option<Transaction>,
    /// Sent, and not carried out. In order, so that equal sets are equal.
    pub(crate) commands: Vec<Command>,
    /// Answered, and not heard. In order.
    pub(crate) replies: Vec<Reply>,
    pub(crate) clients: Vec<Client>,
    /// The tokens that were handed out, with the grants for which they stand.
    pub(crate) handed: Vec<Handed>,
    pub(crate) wrongs: Wrongs,
}

/// What the primary has.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Server {
    pub(crate) document: Option<Document>,
    /// The position of the last write.
    pub(crate) position: Position,
    /// Who was granted last, and where: not a field, but what really happened.
    pub(crate) last_grant: Option<LastGrant>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct LastGrant {
    /// A client, or nobody's client: the foreign program.
    pub(crate) client: Option<usize>,
    pub(crate) position: Position,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Transaction {
    pub(crate) client: usize,
    pub(crate) commits: Document,
    /// Somebody else has been granted the lease since the grant for which it was begun.
    pub(crate) is_overtaken: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Command {
    pub(crate) client: usize,
    /// Real time; the client's own clock follows from it.
    pub(crate) sent: i64,
    pub(crate) does: Does,
    /// Whether somebody still listens for its reply.
    pub(crate) is_heard: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Does {
    Acquire { attempt: u8 },
    Renew { key: Key },
    Release { which: Which },
    Guard { key: Key, is_overtaken: bool },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Reply {
    pub(crate) client: usize,
    pub(crate) sent: i64,
    pub(crate) says: Says,
    /// A majority has what was written, or it need not.
    pub(crate) is_acknowledged: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Says {
    Granted { id: GrantId, token: Position, granted_at: Position, is_overtaken: bool },
    Refused,
    Renewed { id: GrantId, matched: bool },
    Released,
    NotGuarded,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Client {
    /// The library's own rules for what has to be given back.
    pub(crate) attempts: Attempts,
    pub(crate) started: u8,
    pub(crate) renewals: u8,
    pub(crate) guards: u8,
    pub(crate) stage: Stage,
    /// What the caller took: it ends by its own id, and is never given back with the rest of the call's.
    pub(crate) taken: Option<GrantId>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Stage {
    /// It waits for a grant, or has not asked yet.
    Asking,
    /// It has a lease, which may be lost.
    Holding(Held),
    /// It has sent the release of this grant, and waits for the reply.
    Releasing(GrantId),
    /// Its call and its lease are over.
    Ended,
    /// It has crashed: what it sent goes on.
    Crashed,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Held {
    /// The library's own rules for what may be believed.
    pub(crate) holder: Holder,
    pub(crate) id: GrantId,
    pub(crate) is_overtaken: bool,
    /// When the attempt that was answered was sent.
    pub(crate) sent: i64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Handed {
    pub(crate) granted_at: Position,
    pub(crate) token: Position,
    pub(crate) client: usize,
}

/// What was seen to go wrong in a step; the rest can be seen in a state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Wrongs {
    pub(crate) tokens_out_of_order: bool,
    pub(crate) released_anothers: bool,
    pub(crate) released_what_is_held: bool,
    pub(crate) valid_again: bool,
    pub(crate) committed_after_loss: bool,
}

impl World {
    pub(crate) fn send(&mut self, client: usize, does: Does) {
        self.commands.push(Command { client, sent: self.tick, does, is_heard: true });
    }

    /// Somebody has been granted the lease: whatever stands for an older grant of another's is overtaken.
    pub(crate) fn overtake(&mut self, by: Option<usize>) {
        for (number, client) in self.clients.iter_mut().enumerate() {
            if let Stage::Holding(held) = &mut client.stage {
                held.is_overtaken |= by != Some(number);
            }
        }
        for command in &mut self.commands {
            if let Does::Guard { is_overtaken, .. } = &mut command.does {
                *is_overtaken |= by != Some(command.client);
            }
        }
        for reply in &mut self.replies {
            if let Says::Granted { is_overtaken, .. } = &mut reply.says {
                *is_overtaken |= by != Some(reply.client);
            }
        }
        if let Some(transaction) = &mut self.transaction {
            transaction.is_overtaken |= by != Some(transaction.client);
        }
    }

    /// Makes worlds that differ in nothing that can ever be seen the same world.
    pub(crate) fn settle(&mut self) {
        forget_unread(&mut self.server.document);
        if let Some(durable) = &mut self.durable {
            forget_unread(&mut durable.document);
        }
        if let Some(transaction) = &mut self.transaction {
            let mut commits = Some(transaction.commits);
            forget_unread(&mut commits);
            transaction.commits = commits.unwrap_or(transaction.commits);
        }
        let is_there = |client: usize| !matches!(self.clients[client].stage, Stage::Crashed);
        self.replies.retain(|reply| is_there(reply.client));
        self.rank_positions();
        self.commands.sort_unstable();
        self.replies.sort_unstable();
        self.handed.sort_unstable();
    }

    /// Only the order of positions counts, so they are numbered from 0 without gaps.
    fn rank_positions(&mut self) {
        let mut used = [false; Position::MAX as usize + 1];
        self.each_position(|position| used[usize::from(*position)] = true);
        let mut ranks = [0; Position::MAX as usize + 1];
        let mut next: Position = 0;
        for (position, is_used) in used.into_iter().enumerate() {
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
        for reply in &mut self.replies {
            if let Says::Granted { token, granted_at, .. } = &mut reply.says {
                visit(token);
                visit(granted_at);
            }
        }
        for handed in &mut self.handed {
            visit(&mut handed.granted_at);
            visit(&mut handed.token);
        }
    }
}

/// Fields that people read, and no command of the model's does.
fn forget_unread(document: &mut Option<Document>) {
    if let Some(grant) = document.as_mut().and_then(|document| document.grant.as_mut()) {
        grant.sent = 0;
        grant.acquired_at = 0;
        grant.writes = 0;
    }
}
