//! The state of the world: the server, the network, the clients, and the mistakes that were seen.

use mongo_lease_core::rules::attempts::Attempts;
use mongo_lease_core::rules::holder::Holder;
use mongo_lease_core::rules::time::Instant;
use mongo_lease_core::rules::waiter::Waiter;

use crate::releases::Ending;
use crate::server::{Document, GrantId, GrantMatch, Key};

/// The position of a write in the oplog.
pub(crate) type Position = u8;

/// The state of everything.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct World {
    /// Real time.
    pub(crate) tick: i64,
    pub(crate) server: Server,
    /// The state that a majority has; only where the primary may be lost.
    pub(crate) durable: Option<Server>,
    pub(crate) rollbacks: u8,
    pub(crate) foreign_take_overs: u8,
    pub(crate) broken_streams: u8,
    /// How often another program has damaged a number.
    pub(crate) damages: u8,
    pub(crate) losses: u8,
    /// How many batches have been cut off.
    pub(crate) cuts: u8,
    /// The time since which no live client has the lease, as far as somebody waits for it.
    pub(crate) idle_since: i64,
    /// The transaction that has written to the document, with the document that it will commit.
    pub(crate) transaction: Option<Transaction>,
    /// Commands that were sent and not carried out. Sorted, so that equal sets are equal.
    pub(crate) commands: Vec<Command>,
    /// Answers that were not heard yet. Sorted.
    pub(crate) replies: Vec<Reply>,
    pub(crate) clients: Vec<Client>,
    /// The tokens that were given out, with their grants.
    pub(crate) handed: Vec<Handed>,
    pub(crate) wrongs: Wrongs,
}

/// The state of the primary.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Server {
    pub(crate) document: Option<Document>,
    /// The position of the last write.
    pub(crate) position: Position,
    /// The last grant: not a field, but what really happened.
    pub(crate) last_grant: Option<LastGrant>,
    /// The clients whose releases ended their own grants, a bit each: what really happened as well.
    pub(crate) ended: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct LastGrant {
    /// A client. `None`: the foreign program.
    pub(crate) client: Option<usize>,
    pub(crate) position: Position,
    /// A command of another made it, and it has sent no attempt since.
    pub(crate) is_promotion: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Transaction {
    pub(crate) client: usize,
    pub(crate) commits: Option<Document>,
    /// Somebody else has been granted the lease since the grant for which the transaction was begun.
    pub(crate) is_overtaken: bool,
    /// It repeats what the client has committed already.
    pub(crate) is_repeated: bool,
}

/// A transaction whose guard has yet to come. It reads the document as it was when it began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Begun {
    /// Somebody has written to the document since: the guard will conflict.
    pub(crate) is_behind: bool,
    /// The guard was sent.
    pub(crate) is_guarded: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Command {
    pub(crate) client: usize,
    /// Real time; the client's own clock follows from it.
    pub(crate) sent: i64,
    pub(crate) does: Does,
    /// Whether a client still waits for its reply.
    pub(crate) is_heard: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Does {
    Acquire {
        attempt: u8,
        predecessor: Option<usize>,
    },
    /// A fast-path acquire, alone or in a batch.
    FastAcquire {
        attempt: u8,
    },
    /// The rest of the command that carried a [`Does::FastAcquire`], behind that one. `granted_at`: what that one did.
    Rest {
        attempt: u8,
        granted_at: Option<Position>,
    },
    /// The query behind a command whose last write has this time.
    LookAtTaken {
        attempt: u8,
        token: Position,
    },
    Renew {
        key: Key,
    },
    Heartbeat,
    End {
        which: GrantMatch,
        by: Ending,
    },
    /// The query behind a batch of releases that was cut off at this time.
    LookAtEnded {
        which: GrantMatch,
        by: Ending,
        at: Position,
    },
    Guard {
        key: Key,
        is_overtaken: bool,
    },
    /// The majority read behind a write of this time, which was answered so before a majority had it.
    Confirm {
        says: Says,
        at: Position,
        /// The primary that made it is lost, with it.
        is_undone: bool,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Reply {
    pub(crate) client: usize,
    pub(crate) sent: i64,
    pub(crate) says: Says,
    /// Whether a majority must have the write before its reply.
    pub(crate) is_acknowledged: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Says {
    Granted {
        attempt: u8,
        id: GrantId,
        token: Position,
        granted_at: Position,
        is_overtaken: bool,
    },
    Refused {
        attempt: u8,
        ahead: Option<u8>,
        remaining: Option<i64>,
        /// The server's time. Only a waiting call reads it.
        now: i64,
    },
    AskAgain {
        attempt: u8,
        maybe_granted: bool,
    },
    Renewed {
        id: GrantId,
        matched: bool,
    },
    HeartbeatConfirmed {
        matched: bool,
    },
    Released {
        matched: bool,
    },
    /// The batch was cut off, and the query behind it does not find the lease.
    Gone,
    NotGuarded,
    /// The guard has met a write that its transaction does not see.
    Conflicted,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Client {
    /// The library's own rules for what has to be given back.
    pub(crate) attempts: Attempts,
    pub(crate) started: u8,
    pub(crate) renewals: u8,
    pub(crate) guards: u8,
    /// Its transaction that guards last, until it has ended.
    pub(crate) begun: Option<Begun>,
    /// A transaction of its has committed, and it repeats more than the commit.
    pub(crate) repeats: bool,
    pub(crate) stage: Stage,
    /// The grant that the caller got: it is ended by its own id, and never given back with the call's other grants.
    pub(crate) taken: Option<GrantId>,
    /// The lease remembers its call, which may still be granted more.
    pub(crate) is_remembered: bool,
    /// It has sent for the return of all that its call may hold or wait with.
    pub(crate) has_left: bool,
    /// How it waits, as long as it does.
    pub(crate) line: Option<InLine>,
}

/// How a client waits in the queue.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct InLine {
    /// The library's own rules for what to do next.
    pub(crate) waiter: Waiter,
    /// The first of the attempts whose answer it waits for.
    pub(crate) asking: Option<u8>,
    /// An event has told it to send another attempt.
    pub(crate) is_told_to_ask: bool,
    /// An answer has told it that it is in the queue.
    pub(crate) stands: bool,
    pub(crate) beats: u8,
    /// When the newest confirmed heartbeat was sent.
    pub(crate) confirmed: i64,
    /// The call whose entry it takes over.
    pub(crate) heirloom: Option<usize>,
    /// The events that its change stream has yet to deliver, in order.
    pub(crate) events: Vec<StreamEvent>,
    pub(crate) has_no_stream: bool,
}

/// The event that a client was promoted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct StreamEvent {
    pub(crate) id: GrantId,
    /// The echo.
    pub(crate) sent: i64,
    /// When the grant expires, by the server's clock.
    pub(crate) until: i64,
    pub(crate) token: Position,
    pub(crate) granted_at: Position,
    pub(crate) is_overtaken: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Stage {
    /// It waits for a grant, or has sent no attempt yet.
    Acquiring,
    /// Its time is over, and the call behind it inherits its queue entry.
    Bequeathed,
    /// It has a lease, which may be lost.
    Holding(Held),
    /// It has sent the release of a grant, and waits for the reply.
    Releasing(Leaving),
    /// Its call and its lease are over.
    Ended,
    /// It has crashed: what it sent goes on.
    Crashed,
}

/// A grant whose release was sent. All fields but the identity are set only where batches are cut off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Leaving {
    pub(crate) id: GrantId,
    /// It was valid by the client's own clock when the release was first sent.
    pub(crate) was_valid: bool,
    /// The end of its validity.
    pub(crate) valid_until: Instant,
    /// The document named it then: not what the client knows, but what really was.
    pub(crate) was_named: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Held {
    /// The library's own rules for what may be believed.
    pub(crate) holder: Holder,
    pub(crate) id: GrantId,
    pub(crate) is_overtaken: bool,
    /// When the command was sent from which its validity counts.
    pub(crate) sent: i64,
    /// A command of another admitted it, and its change stream told it.
    pub(crate) was_promoted: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Handed {
    pub(crate) granted_at: Position,
    pub(crate) token: Position,
    pub(crate) client: usize,
}

/// The mistakes that are seen in a step; the others can be seen in a state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Wrongs {
    pub(crate) tokens_out_of_order: bool,
    pub(crate) released_anothers: bool,
    pub(crate) released_what_is_held: bool,
    pub(crate) valid_again: bool,
    pub(crate) committed_after_loss: bool,
    pub(crate) committed_twice: bool,
    pub(crate) renewed_after_loss: bool,
    pub(crate) barged: bool,
    pub(crate) passed_over: bool,
    pub(crate) reordered: bool,
    pub(crate) shortened: bool,
    pub(crate) released_unheld: bool,
    pub(crate) released_unended: bool,
    pub(crate) ended_unsaid: bool,
    pub(crate) wrote_damaged: bool,
}

impl World {
    pub(crate) fn send(&mut self, client: usize, does: Does) {
        self.commands.push(Command { client, sent: self.tick, does, is_heard: true });
    }

    /// Whoever has the lease after grants were undone is not overtaken.
    pub(crate) fn see_undone_grants(&mut self) {
        let last = self.server.last_grant.and_then(|grant| grant.client);
        if let Some(client) = last.and_then(|last| self.clients.get_mut(last))
            && let Stage::Holding(held) = &mut client.stage
        {
            held.is_overtaken = false;
        }
    }

    /// Marks a grant of the lease: each older grant of another client is overtaken.
    pub(crate) fn overtake(&mut self, by: Option<usize>) {
        for (number, client) in self.clients.iter_mut().enumerate() {
            if let Stage::Holding(held) = &mut client.stage {
                held.is_overtaken |= by != Some(number);
            }
        }
        for command in &mut self.commands {
            if let Does::Guard { is_overtaken, .. }
            | Does::Confirm { says: Says::Granted { is_overtaken, .. }, .. } = &mut command.does
            {
                *is_overtaken |= by != Some(command.client);
            }
        }
        for reply in &mut self.replies {
            if let Says::Granted { is_overtaken, .. } = &mut reply.says {
                *is_overtaken |= by != Some(reply.client);
            }
        }
        for (number, client) in self.clients.iter_mut().enumerate() {
            for told in client.line.iter_mut().flat_map(|line| &mut line.events) {
                told.is_overtaken |= by != Some(number);
            }
        }
        if let Some(transaction) = &mut self.transaction {
            transaction.is_overtaken |= by != Some(transaction.client);
        }
    }
}
