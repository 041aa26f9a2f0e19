//! The state of the world: the server, the network, the clients, and what was seen to go wrong.

use crate::rules::attempts::Attempts;
use crate::rules::holder::Holder;
use crate::rules::time::Instant;
use crate::rules::waiter::Waiter;
use crate::server::{Document, GrantId, GrantMatch, HandOffTo, Key};

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
    pub(crate) broken_streams: u8,
    pub(crate) losses: u8,
    /// How many batches have been cut off.
    pub(crate) cuts: u8,
    /// Since when nobody who lives has the lease, as far as it is waited for.
    pub(crate) idle_since: i64,
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
    /// Whose releases have ended their own grants, a bit each: what really happened as well.
    pub(crate) ended: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct LastGrant {
    /// A client, or nobody's client: the foreign program.
    pub(crate) client: Option<usize>,
    pub(crate) position: Position,
    /// By the one before, and not asked for since.
    pub(crate) is_promotion: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Transaction {
    pub(crate) client: usize,
    pub(crate) commits: Option<Document>,
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
    Acquire {
        attempt: u8,
        predecessor: Option<usize>,
    },
    /// An attempt of the short form, alone or with others.
    FastAcquire {
        attempt: u8,
    },
    /// The rest of the command with which a [`Does::FastAcquire`] travelled, behind that one. `granted_at`: what it
    /// did.
    Rest {
        attempt: u8,
        granted_at: Option<Position>,
    },
    /// The look behind a command whose last write has this time.
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
    /// The look behind a batch of releases that was cut off at this time.
    LookAtEnded {
        which: GrantMatch,
        by: Ending,
        at: Position,
    },
    Guard {
        key: Key,
        is_overtaken: bool,
    },
}

/// A command that ends a lease, and what follows it where it matches nothing: the library's `releasing.rs`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Ending {
    /// The only one, in a world without a line.
    Delete,
    /// Nobody waits: the second is [`Ending::HandOff`].
    DeleteOrHandOff,
    /// Somebody waits: the second is [`Ending::DeleteOrHandOff`].
    HandOffFirst,
    /// Who may hold it or stand in line: the second is [`Ending::LeaveQueue`].
    DeleteOrLeave,
    HandOff,
    LeaveQueue,
}

impl Ending {
    /// To whom it hands the lease on. Nothing: it deletes.
    pub(crate) fn successor(self) -> Option<HandOffTo> {
        match self {
            Ending::Delete | Ending::DeleteOrHandOff | Ending::DeleteOrLeave => None,
            Ending::HandOffFirst => Some(HandOffTo::LiveWaiter),
            Ending::HandOff => Some(HandOffTo::LiveWaiterOrNobody),
            Ending::LeaveQueue => Some(HandOffTo::AfterLeavingQueue),
        }
    }

    /// What goes out where it has matched nothing.
    pub(crate) fn next(self) -> Option<Ending> {
        match self {
            Ending::Delete | Ending::HandOff | Ending::LeaveQueue => None,
            Ending::DeleteOrHandOff => Some(Ending::HandOff),
            Ending::HandOffFirst => Some(Ending::DeleteOrHandOff),
            Ending::DeleteOrLeave => Some(Ending::LeaveQueue),
        }
    }
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
    /// The batch was cut off, and the look behind it does not find the lease.
    Gone,
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
    /// The lease remembers its call, for more may come of it.
    pub(crate) is_remembered: bool,
    /// It has sent for what may stand or hold for it to be taken back.
    pub(crate) has_left: bool,
    /// How it waits, as long as it does.
    pub(crate) line: Option<InLine>,
}

/// How a client waits in line.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct InLine {
    /// The library's own rules for what to do next.
    pub(crate) waiter: Waiter,
    /// The first attempt of those whose answer it waits for.
    pub(crate) asking: Option<u8>,
    /// Something has told it to ask again.
    pub(crate) is_told_to_ask: bool,
    /// It was told that it stands in line.
    pub(crate) stands: bool,
    pub(crate) beats: u8,
    /// When the newest sign of life was sent that was confirmed.
    pub(crate) confirmed: i64,
    /// The call whose place it takes.
    pub(crate) heirloom: Option<usize>,
    /// What its change stream has yet to tell, in order.
    pub(crate) events: Vec<StreamEvent>,
    pub(crate) has_no_stream: bool,
}

/// That a client was promoted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct StreamEvent {
    pub(crate) id: GrantId,
    /// The echo.
    pub(crate) sent: i64,
    pub(crate) token: Position,
    pub(crate) granted_at: Position,
    pub(crate) is_overtaken: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Stage {
    /// It waits for a grant, or has not asked yet.
    Acquiring,
    /// Its time is over, and its place in line is left to the call behind it.
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

/// A grant whose release was sent. All but the identity only where batches are cut off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Leaving {
    pub(crate) id: GrantId,
    /// It was valid by the client's own clock when the release was first sent.
    pub(crate) was_valid: bool,
    /// Until when it would have been.
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
    /// When that was sent from which it counts.
    pub(crate) sent: i64,
    /// It was handed on by the one before, who had seen it in line.
    pub(crate) was_promoted: bool,
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
    pub(crate) renewed_after_loss: bool,
    pub(crate) barged: bool,
    pub(crate) passed_over: bool,
    pub(crate) reordered: bool,
    pub(crate) shortened: bool,
    pub(crate) released_unheld: bool,
    pub(crate) released_unended: bool,
    pub(crate) ended_unsaid: bool,
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
