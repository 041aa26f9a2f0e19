//! The state of a world with permits.

use mongo_lease_core::rules::attempts::Attempts;
use mongo_lease_core::rules::holder::Holder;
use mongo_lease_core::spec::HolderElement;

use crate::releases::Ending;
use crate::server::{Document, GrantId, GrantMatch};
use crate::state::Position;

/// The state of everything.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Permitting {
    /// Real time.
    pub(crate) tick: i64,
    pub(crate) document: Option<Document>,
    pub(crate) clients: Vec<Caller>,
    /// Commands that were sent and not carried out. Sorted, so that equal sets are equal.
    pub(crate) orders: Vec<Order>,
    /// Answers and events that were not heard yet. Sorted.
    pub(crate) answers: Vec<Answer>,
    pub(crate) foreign_take_overs: u8,
    /// How often another program has damaged numbers.
    pub(crate) damages: u8,
    pub(crate) crashes: u8,
    pub(crate) losses: u8,
    pub(crate) seen: Mistakes,
}

/// A client: one acquire call, and its lease.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Caller {
    /// The library's own rules for what has to be given back.
    pub(crate) attempts: Attempts,
    pub(crate) started: u8,
    pub(crate) renewals: u8,
    pub(crate) heartbeats: u8,
    pub(crate) stage: Stage,
    /// The grant that the caller accepted.
    pub(crate) accepted: Option<GrantId>,
    /// When its newest refused attempt was sent, while it waits.
    pub(crate) refused_at: i64,
    /// The time that the server's clock showed then; `None` before any refusal.
    pub(crate) server_time: Option<i64>,
    /// Its token. Zero: it has never held.
    pub(crate) token: Position,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Stage {
    /// It waits for a grant, or has sent no attempt yet.
    Acquiring,
    /// It has a lease, which may be lost. Its release begins with this command.
    Holding(Holder, GrantId, Ending),
    /// Its call and its lease are over.
    Ended,
    /// It has crashed: what it sent goes on.
    Crashed,
}

/// A command that was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Order {
    pub(crate) client: usize,
    /// Real time; the client's own clock follows from it.
    pub(crate) sent: i64,
    pub(crate) does: Does,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Does {
    FastAttempt { attempt: u8 },
    FullAttempt { attempt: u8 },
    Renew { id: GrantId },
    Heartbeat,
    End { which: GrantMatch, by: Ending, comes_again: bool },
}

/// An answer or an event that is under way to a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Answer {
    pub(crate) client: usize,
    pub(crate) sent: i64,
    pub(crate) says: Says,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Says {
    Granted {
        id: GrantId,
        token: Position,
    },
    Refused {
        /// The server's time.
        now: i64,
    },
    Renewed {
        id: GrantId,
        matched: bool,
    },
    /// An event of the change stream: the client was promoted, or admitted beside each other.
    Admitted {
        id: GrantId,
        /// When the grant expires, by the server's clock.
        until: i64,
        token: Position,
    },
}

/// The mistakes that are seen in a step; the others can be seen in a state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Mistakes {
    pub(crate) passed_over: bool,
    pub(crate) sleeps: bool,
    pub(crate) untold: bool,
    pub(crate) tokens_out_of_order: bool,
}

impl Caller {
    pub(crate) fn new() -> Caller {
        Caller {
            attempts: Attempts::default(),
            started: 0,
            renewals: 0,
            heartbeats: 0,
            stage: Stage::Acquiring,
            accepted: None,
            refused_at: -1,
            server_time: None,
            token: 0,
        }
    }
}

impl Permitting {
    pub(crate) fn send(&mut self, client: usize, does: Does) {
        self.orders.push(Order { client, sent: self.tick, does });
    }

    /// The token of a write that is made now: greater than each that somebody may see or has seen.
    pub(crate) fn next_token(&mut self) -> Position {
        let mut newest = 0;
        self.each_token(|token| newest = newest.max(*token));
        newest + 1
    }

    /// Makes states equal whose difference can never be seen.
    pub(crate) fn settle(&mut self) {
        if let Some(document) = &mut self.document {
            forget_unread(document);
        }
        for client in &mut self.clients {
            match client.stage {
                Stage::Acquiring => continue,
                Stage::Crashed => (client.attempts, client.accepted) = (Attempts::default(), None),
                Stage::Holding(..) | Stage::Ended => {}
            }
            (client.refused_at, client.server_time) = (-1, None);
        }
        let clients = &self.clients;
        self.answers.retain(|answer| match (&clients[answer.client].stage, answer.says) {
            (Stage::Crashed, _) => false,
            (Stage::Holding(_, id, _), Says::Renewed { id: renewed, .. }) => *id == renewed,
            (stage, Says::Admitted { .. }) => *stage == Stage::Acquiring,
            (_, Says::Renewed { .. }) => false,
            (_, Says::Granted { .. } | Says::Refused { .. }) => true,
        });
        self.rank_tokens();
        self.orders.sort_unstable();
        self.answers.sort_unstable();
    }

    /// Only the order of tokens counts, so they are numbered from 1 without gaps.
    fn rank_tokens(&mut self) {
        let mut used = Vec::new();
        self.each_token(|token| used.push(*token));
        used.sort_unstable();
        used.dedup();
        used.retain(|token| *token > 0);
        self.each_token(|token| {
            let rank = used.binary_search(token).map_or(0, |place| place + 1);
            *token = Position::try_from(rank).unwrap_or(Position::MAX);
        });
    }

    fn each_token(&mut self, mut visit: impl FnMut(&mut Position)) {
        self.clients.iter_mut().for_each(|client| visit(&mut client.token));
        for answer in &mut self.answers {
            if let Says::Granted { token, .. } | Says::Admitted { token, .. } = &mut answer.says {
                visit(token);
            }
        }
    }
}

/// Clears fields that people read and no command does.
fn forget_unread(document: &mut Document) {
    if let Some(grant) = &mut document.grant {
        (grant.sent, grant.acquired_at, grant.writes) = (0, 0, 0);
    }
    for element in document.holders.elements_mut() {
        if let HolderElement::Holder(holder) = element {
            let grant = &mut holder.grant;
            (grant.sent, grant.acquired_at, grant.writes) = (0, 0, 0);
        }
    }
}
